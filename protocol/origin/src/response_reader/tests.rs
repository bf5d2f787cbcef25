//! Whole responses as hyper sees them.
use std::task::Waker;

use http::Request;

use super::*;

pub(super) const LIMITS: HeadLimits = HeadLimits {
    bytes: 64 * 1024,
    fields: 100,
    old_http: OldHttp::IcyOnly,
    end_may_be_missing: true,
};

/// A connection on which pieces arrive, and then its end.
pub(super) struct Pieces(pub(super) Vec<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(mut piece) = (!self.0.is_empty()).then(|| self.0.remove(0)) {
            let rest = piece.split_off(piece.len().min(to.remaining()));
            to.put_slice(&piece);
            if !rest.is_empty() {
                self.0.insert(0, rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What hyper gets of a response to a browser's request with this method, and the error.
pub(super) fn response(
    method: &str,
    limits: HeadLimits,
    bytes: &[u8],
    piece: usize,
) -> (String, Option<HeadError>) {
    let request = Request::builder().method(method);
    let request = request.header("user-agent", "Mozilla/5.0").body(()).unwrap();
    response_to(&request, limits, bytes, piece)
}

/// What hyper gets of a response to this request, and the error.
fn response_to(
    request: &Request<()>,
    limits: HeadLimits,
    bytes: &[u8],
    piece: usize,
) -> (String, Option<HeadError>) {
    let pieces = bytes.chunks(piece).map(<[u8]>::to_vec).collect();
    let mut reader = ResponseReader::new(Pieces(pieces), limits);
    reader.expected().set(request);
    let mut all = Vec::new();
    loop {
        let mut bytes = [0; 100];
        let mut buf = ReadBuf::new(&mut bytes);
        let polled = Pin::new(&mut reader).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
        let error = match polled {
            Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                all.extend_from_slice(buf.filled());
                continue;
            }
            Poll::Ready(Ok(())) => None,
            Poll::Ready(Err(error)) => Some(*error.get_ref().unwrap().downcast_ref::<HeadError>().unwrap()),
            Poll::Pending => unreachable!("pieces are always ready"),
        };
        return (String::from_utf8_lossy(&all).into_owned(), error);
    }
}

/// The same in pieces of each length, which must make no difference.
fn get(bytes: &[u8]) -> (String, Option<HeadError>) {
    let whole = response("GET", LIMITS, bytes, bytes.len().max(1));
    for piece in 1..bytes.len().min(80) {
        let (text, error) = response("GET", LIMITS, bytes, piece);
        assert_eq!(error, whole.1, "pieces of {piece}");
        // The sizes of chunks depend on the pieces.
        if !text.contains("chunked") {
            assert_eq!(text, whole.0, "pieces of {piece}");
        }
    }
    whole
}

#[track_caller]
fn becomes(bytes: &[u8], expected: &str) {
    assert_eq!(
        get(bytes),
        (expected.replace('\n', "\r\n"), None),
        "{:?}",
        String::from_utf8_lossy(bytes)
    );
}

#[test]
fn a_correct_head_stays() {
    becomes(
        b"HTTP/1.1 404 Not Found\r\nServer: x\r\nX-A: b\xe9\r\nContent-Length: 2\r\n\r\nno",
        "HTTP/1.1 404 \nServer: x\nX-A: b\u{fffd}\ncontent-length: 2\n\nno",
    );
    becomes(
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 200 \nConnection: keep-alive\ncontent-length: 0\n\n",
    );
}

#[test]
fn status_lines_are_read_as_browsers_read_them() {
    for (line, version, status) in [
        ("HTTP/1.1 200", 1, 200),
        ("HTTP/1.1 200 ", 1, 200),
        ("HTTP/1.1  200  OK", 1, 200),
        ("HTTP/1.2 200 OK", 1, 200),
        ("HTTP/2.0 200 OK", 1, 200),
        ("HTTP/2 200 OK", 0, 200),
        ("HTTP 200 OK", 0, 200),
        ("HTTP 404 No", 0, 404),
        ("HTTP/1.0 200 OK", 0, 200),
        ("http/1.1 200 OK", 1, 200),
        ("HTTP/1.1 OK", 1, 200),
        ("HTTP/1.1", 1, 200),
        ("HTTP", 0, 200),
        ("HTTP/x.y 301 OK", 0, 301),
        ("HTTP/1.1 999 Robot", 1, 999),
        ("HTTP/1.1 600 X", 1, 600),
        ("HTTP/1.1 200OK", 1, 200),
        ("HTTP/1.1 0200 OK", 1, 200),
        ("HTTP/1.1 -1 OK", 1, 200),
        ("HTTP/1.1 404\tOK", 1, 404),
        ("HTTP/1.1 \t404 OK", 1, 200),
        ("HTTP/1.1\t404 OK", 1, 200),
        ("HTTP/1.1 200 Caf\u{e9} \u{1} \u{7f}", 1, 200),
        ("\r\nHTTP/1.1 200 OK", 1, 200),
        ("\n\n\n\nHTTP/1.1 200 OK", 1, 200),
        ("xxxxHTTP/1.1 200 OK", 1, 200),
    ] {
        let (text, error) = get(format!("{line}\r\nContent-Length: 2\r\n\r\nok").as_bytes());
        assert_eq!(error, None, "{line}");
        let start = format!("HTTP/1.{version} {status} \r\ncontent-length: 2\r\n");
        assert!(text.starts_with(&start), "{line:?}: {text:?}");
        assert!(text.ends_with("\r\n\r\nok"), "{line:?}: {text:?}");
    }
    for line in [
        "HTTP/1.1 20 OK",
        "HTTP/1.1 99 OK",
        "HTTP/1.1 1000 X",
        "HTTP/1.1 70000 X",
    ] {
        assert_eq!(
            get(format!("{line}\r\n\r\n").as_bytes()).1,
            Some(HeadError::Status),
            "{line}"
        );
    }
}

#[test]
fn lines_that_browsers_skip_are_skipped() {
    for line in [
        "<!DOCTYPE html>",
        "no colon",
        "X A: 1",
        ": 1",
        "PHP Warning: foo in /var/www/x.php on line 3",
        "X-\u{e9}: 1",
        "X-\u{1}A: 1",
        "X(A): 1",
        "HTTP/1.1 200 OK",
        "Set-Cookie: a=\u{1}b",
        "Set-Cookie: a=\u{7f}b",
    ] {
        becomes(
            format!("HTTP/1.1 200 OK\r\nA: 1\r\n{line}\r\nZ: 2\r\nContent-Length: 2\r\n\r\nok").as_bytes(),
            "HTTP/1.1 200 \nA: 1\nZ: 2\ncontent-length: 2\nconnection: close\n\nok",
        );
    }
}

#[test]
fn fields_are_written_well_formed() {
    for (line, written) in [
        ("X-A : 1", "X-A: 1"),
        ("X-A\t:1  ", "X-A: 1"),
        ("X-A: a\u{1}b", "X-A: a b"),
        ("X-A: a\u{7f}", "X-A: a"),
        ("X-A: a\rX-B: 2", "X-A: a\r\nX-B: 2"),
        ("X-A: a\rb", "X-A: a"),
        ("X-A: 1\nX-B: 2", "X-A: 1\r\nX-B: 2"),
        ("Location: /a\u{1}b\u{7f}", "Location: /a%01b%7F"),
        ("Location: \u{1} /a\u{1f} \u{2}", "Location: /a"),
        ("Cache-Control: private\u{1}", "Cache-Control: private"),
    ] {
        let (text, error) = get(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(error, None);
        assert_eq!(
            text,
            format!("HTTP/1.1 200 \r\n{written}\r\nconnection: close\r\n\r\n"),
            "{line:?}"
        );
    }
    for (line, written) in [
        ("X-A: 1\r\n folded", "X-A: 1 folded"),
        ("X-A:\r\n\tfolded\r\n  twice ", "X-A:  folded twice"),
        ("X-A:\tb\tc", "X-A: b\tc"),
        ("X-A:", "X-A: "),
    ] {
        let (text, error) = get(format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n").as_bytes());
        assert_eq!(error, None);
        assert_eq!(
            text.replace("  ", " "),
            format!("HTTP/1.1 200 \r\n{written}\r\n\r\n").replace("  ", " ")
        );
    }
}

#[test]
fn bare_line_feeds_end_lines() {
    becomes(
        b"HTTP/1.1 200 OK\nA: 1\nContent-Length: 2\n\nok",
        "HTTP/1.1 200 \nA: 1\ncontent-length: 2\nconnection: close\n\nok",
    );
    becomes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nok",
        "HTTP/1.1 200 \ncontent-length: 2\nconnection: close\n\nok",
    );
}

#[test]
fn the_length_of_a_body_is_that_of_browsers() {
    for (fields, written, body) in [
        ("Content-Length:", "", "12345"),
        ("Content-Length: -1", "", "12345"),
        ("Content-Length: +5", "", "12345"),
        ("Content-Length: five", "", "12345"),
        ("Content-Length: 5;x", "", "12345"),
        ("Content-Length: 5\u{1}", "", "12345"),
        ("Content-Length: 9223372036854775808", "", "12345"),
        ("Content-Length: 3, 3", "content-length: 3\n", "123"),
        (
            "Content-Length: 3\nContent-Length: 3",
            "content-length: 3\n",
            "123",
        ),
        ("Content-Length : 3", "content-length: 3\n", "123"),
        ("Transfer-Encoding: identity", "", "12345"),
        (
            "Transfer-Encoding: identity\nContent-Length: 3",
            "content-length: 3\n",
            "123",
        ),
    ] {
        becomes(
            format!("HTTP/1.1 200 OK\r\n{}\r\n\r\n12345", fields.replace('\n', "\r\n")).as_bytes(),
            &format!("HTTP/1.1 200 \n{written}connection: close\n\n{body}"),
        );
    }
    becomes(
        b"HTTP/1.1 200 OK\r\nContent-Length: 05\r\n\r\n12345",
        "HTTP/1.1 200 \ncontent-length: 5\n\n12345",
    );
    becomes(b"HTTP/1.1 200 OK\r\n\r\n12345", "HTTP/1.1 200 \n\n12345");
    // A coding in HTTP/1.0 has no meaning to a browser.
    becomes(
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n",
        "HTTP/1.0 200 \nconnection: close\n\n5\n12345\n0\n\n",
    );
}

#[test]
fn chunks_in_http_1_0_are_read_for_programs() {
    let program = Request::builder().header("user-agent", "curl/8.5.0");
    let program = program.body(()).unwrap();
    let nameless = Request::new(());
    let odd = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n";
    for request in [&program, &nameless] {
        for piece in [1, odd.len()] {
            let (text, error) = response_to(request, LIMITS, odd, piece);
            assert_eq!(error, None);
            let (head, chunks) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(
                head,
                "HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\nconnection: close"
            );
            assert!(chunks.ends_with("5\r\n0\r\n\r\n"), "{chunks}");
        }
    }
    for (fields, expected) in [
        ("Transfer-Encoding: x", None),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            Some(HeadError::AmbiguousLength),
        ),
    ] {
        let bytes = format!("HTTP/1.0 200 OK\r\n{fields}\r\n\r\n12345");
        let (_, error) = response_to(&program, LIMITS, bytes.as_bytes(), 7);
        assert_eq!(error, expected, "{fields}");
    }
}

#[test]
fn a_media_type_with_a_control_character_stays_unknown() {
    for (value, written) in [
        ("text/html\u{1}", "text/html%01"),
        ("\u{1f}text/html", "%1Ftext/html"),
        ("text/html; charset=utf-8\u{7f}", "text/html; charset=utf-8%7F"),
        ("text/html\t", "text/html"),
    ] {
        let (text, error) = get(format!("HTTP/1.1 200 OK\r\nContent-Type: {value}\r\n\r\n").as_bytes());
        assert_eq!(error, None);
        assert!(text.contains(&format!("Content-Type: {written}\r\n")), "{text}");
    }
}

#[test]
fn ambiguous_lengths_are_refused() {
    for fields in [
        "Content-Length: 5, 6",
        "Content-Length: 5,",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length:",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: -1",
        "Transfer-Encoding: chunked\rContent-Length: 5",
    ] {
        let (text, error) = get(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n12345").as_bytes());
        assert_eq!(
            (text.as_str(), error),
            ("", Some(HeadError::AmbiguousLength)),
            "{fields}"
        );
    }
    for coding in [
        "gzip, chunked",
        "gzip",
        "chunked, chunked",
        "xchunked",
        "chunked;q=1",
        "\"chunked\"",
    ] {
        let (text, error) = get(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n").as_bytes());
        assert_eq!(
            (text.as_str(), error),
            ("", Some(HeadError::TransferCoding)),
            "{coding}"
        );
    }
    assert_eq!(get(b"HTTP/1.1 200 OK\r\nA: \0\r\n\r\n").1, Some(HeadError::Nul));
}

#[test]
fn chunks_are_written_strictly() {
    let odd = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: ,chunked, identity\r\n\r\n5  \n12345\n0;x\n\n";
    let (text, error) = response("GET", LIMITS, odd, odd.len());
    assert_eq!(error, None);
    assert_eq!(
        text,
        "HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\n12345\r\n0\r\n\r\n"
    );
}

#[test]
fn bodies_end_where_they_end() {
    // Whatever follows is never the next response.
    for (head, body) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n", "123"),
        ("HTTP/1.1 204 OK\r\n", ""),
        ("HTTP/1.1 205 OK\r\n", ""),
        ("HTTP/1.1 304 OK\r\n", ""),
        ("HTTP/1.1 304 OK\r\nContent-Length: 3\r\n", ""),
    ] {
        let (text, error) = get(format!("{head}\r\n{body}HTTP/1.1 200 OK\r\n\r\nevil").as_bytes());
        assert_eq!(error, None);
        assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{head}: {text}");
    }
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n123";
    let (text, _) = response("HEAD", LIMITS, head, 7);
    assert_eq!(text, "HTTP/1.1 200 \r\ncontent-length: 3\r\n\r\n");
    let odd = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(response("HEAD", LIMITS, odd, 7).1, None);
}

#[test]
fn informational_responses_precede_the_final_one() {
    becomes(
        b"HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.1 101 X\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 103 \nLink: </a>\n\nHTTP/1.1 200 \ncontent-length: 2\n\nok",
    );
    let (_, error) = get(b"HTTP/1.1 100 Continue\r\n\r\nbody of the page");
    assert_eq!(error, Some(HeadError::NotHttp));
}

#[test]
fn an_upgraded_connection_is_passed_on() {
    let request = Request::builder()
        .header("upgrade", "websocket")
        .body(())
        .unwrap();
    let pieces =
        vec![b"HTTP/1.1 101 Switching\r\nno colon\r\nUpgrade: websocket\r\n\r\n\x81\x00HTTP".to_vec()];
    let mut reader = ResponseReader::new(Pieces(pieces), LIMITS);
    reader.expected().set(&request);
    let mut bytes = [0; 1000];
    let mut buf = ReadBuf::new(&mut bytes);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..2 {
        let polled = Pin::new(&mut reader).poll_read(&mut cx, &mut buf);
        assert!(matches!(polled, Poll::Ready(Ok(()))));
    }
    let text = String::from_utf8_lossy(buf.filled());
    assert!(
        text.starts_with("HTTP/1.1 101 \r\nUpgrade: websocket\r\n"),
        "{text}"
    );
    assert!(buf.filled().ends_with(b"\r\n\r\n\x81\x00HTTP"));
}

#[test]
fn old_servers_answer_without_a_head() {
    let at_default_port = HeadLimits {
        old_http: OldHttp::Accepted,
        ..LIMITS
    };
    for body in ["<html>old</html>", "abc", "SSH-2.0-OpenSSH_9\r\n"] {
        for piece in [1, 3, 100] {
            let (text, error) = response("GET", at_default_port, body.as_bytes(), piece);
            assert_eq!((text, error), (format!("HTTP/1.0 200 \r\n\r\n{body}"), None));
        }
        assert_eq!(get(body.as_bytes()).1, Some(HeadError::NotHttp));
    }
    let (text, error) = get(b"ICY 200 OK\r\nicy-name: x\r\n\r\nmusic");
    assert_eq!(error, None);
    assert!(text.ends_with("ICY 200 OK\r\nicy-name: x\r\n\r\nmusic"));
    assert_eq!(get(b""), (String::new(), None));
}

#[test]
fn the_end_of_a_plain_connection_ends_its_head() {
    becomes(b"HTTP/1.1 200 OK", "HTTP/1.1 200 \n\n");
    becomes(
        b"HTTP/1.1 302 X\r\nLocation: /x\r\n",
        "HTTP/1.1 302 \nLocation: /x\n\n",
    );
    let tls = HeadLimits {
        end_may_be_missing: false,
        ..LIMITS
    };
    for bytes in [&b"HTTP/1.1 200 OK\r\nA: b\r\n"[..], b"HT"] {
        assert_eq!(response("GET", tls, bytes, 5).1, Some(HeadError::Truncated));
    }
}

#[test]
fn heads_have_limits() {
    let many: String = (0..101).map(|number| format!("X-{number}: y\r\n")).collect();
    let long = format!("X: {}\r\n", "y".repeat(64 * 1024));
    for fields in [many, long] {
        for end in ["\r\n", ""] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{fields}{end}");
            let found = response("GET", LIMITS, bytes.as_bytes(), 1000).1;
            let is_complete = end.is_empty() && fields.len() < 2000;
            assert_eq!(found, Some(HeadError::TooLarge), "{is_complete}");
        }
    }
}

#[test]
fn bytes_that_nobody_asked_for_end_the_connection() {
    let mut reader = ResponseReader::new(Pieces(vec![b"HTTP/1.1 200 OK\r\n\r\n".to_vec()]), LIMITS);
    let mut bytes = [0; 100];
    let mut buf = ReadBuf::new(&mut bytes);
    let polled = Pin::new(&mut reader).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
    assert!(matches!(polled, Poll::Ready(Ok(()))) && buf.filled().is_empty());
    reader.expected().set(&Request::new(()));
    let polled = Pin::new(&mut reader).poll_read(&mut Context::from_waker(Waker::noop()), &mut buf);
    assert!(matches!(polled, Poll::Ready(Ok(()))) && buf.filled().is_empty());
}

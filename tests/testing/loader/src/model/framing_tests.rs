use proptest::prelude::*;

use super::*;

/// Result of parsing: each response's status and body, whether it was complete, and the state afterwards.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    responses: Vec<(u16, Vec<u8>, bool)>,
    keep_alive: bool,
    error: Option<FramingError>,
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let mut decoder = ResponseDecoder::default();
    let mut read = Read::default();
    let take = |read: &mut Read, part: Part, keep_alive: bool| match part {
        Part::Head(head) => read.responses.push((head.status.as_u16(), Vec::new(), false)),
        Part::Data(data) => read.responses.last_mut().unwrap().1.extend_from_slice(&data),
        Part::End => {
            read.responses.last_mut().unwrap().2 = true;
            read.keep_alive = keep_alive;
        }
    };
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.next() {
                Ok(Some(part)) => take(&mut read, part, decoder.keep_alive()),
                Ok(None) => break,
                Err(error) => {
                    read.error = Some(error);
                    return read;
                }
            }
        }
    }
    match decoder.close() {
        Ok(Some(part)) => take(&mut read, part, false),
        Ok(None) => {}
        Err(error) => read.error = Some(error),
    }
    read
}

fn whole(text: &str) -> Read {
    read([text.as_bytes()])
}

#[test]
fn every_framing_of_a_body_is_decoded() {
    let cases = [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            200,
            "abc",
            true,
        ),
        (
            "\r\nHTTP/1.1 200\r\ncontent-length: 3, 3\r\n\r\nabc",
            200,
            "abc",
            true,
        ),
        ("HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", 200, "abc", true),
        (
            "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
            200,
            "",
            false,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", 200, "x", false),
        (
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx",
            200,
            "x",
            true,
        ),
        (
            "HTTP/1.0 200 OK\r\n\r\nuntil the end",
            200,
            "until the end",
            false,
        ),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
            304,
            "",
            true,
        ),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
            404,
            "",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0A \r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n",
            200,
            "abc0123456789",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nrest",
            200,
            "rest",
            false,
        ),
    ];
    for (text, status, body, keep_alive) in cases {
        let expected = Read {
            responses: vec![(status, body.as_bytes().to_vec(), true)],
            keep_alive,
            error: None,
        };
        assert_eq!(whole(text), expected, "{text:?}");
    }
}

#[test]
fn invalid_responses_are_errors() {
    let head = "HTTP/1.1 200 OK\r\n";
    let long = format!("{head}x: {}\r\n\r\n", "y".repeat(MAX_HEAD));
    let many = format!("{head}{}\r\n", "x: y\r\n".repeat(MAX_HEADERS + 1));
    let cases = [
        ("nonsense\r\n\r\n".to_owned(), FramingError::Malformed),
        ("HTTP/1.1 2".to_owned(), FramingError::Truncated),
        (
            format!("{head}Content-Length: 5\r\n\r\nabc"),
            FramingError::Truncated,
        ),
        (
            format!("{head}Content-Length: 5, 6\r\n\r\n"),
            FramingError::ContentLength,
        ),
        (
            format!("{head}Content-Length: +5\r\n\r\n"),
            FramingError::ContentLength,
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nab"),
            FramingError::Truncated,
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n"),
            FramingError::Chunk,
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n-3\r\n"),
            FramingError::Chunk,
        ),
        (
            format!("{head}Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"),
            FramingError::Chunk,
        ),
        (
            format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{}",
                "1".repeat(MAX_CHUNK_LINE + 1)
            ),
            FramingError::Chunk,
        ),
        ("HTTP/1.1 101 Switching\r\n\r\n".to_owned(), FramingError::Upgrade),
        (
            "HTTP/1.1 100 Continue\r\n\r\n".repeat(MAX_INTERIM + 1),
            FramingError::Malformed,
        ),
        (long, FramingError::HeadTooLarge),
        (many, FramingError::HeadTooLarge),
    ];
    for (text, error) in cases {
        let start: String = text.chars().take(120).collect();
        assert_eq!(whole(&text).error, Some(error), "{start:?}");
    }
}

#[test]
fn a_truncated_status_line_is_an_error() {
    let mut decoder = ResponseDecoder::default();
    assert_eq!(decoder.close(), Ok(None));
    decoder
        .buffer()
        .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(decoder.next(), Ok(None));
    assert_eq!(decoder.close(), Err(FramingError::Truncated));
}

#[derive(Clone, Debug)]
enum Framing {
    Length,
    Chunks(usize),
}

fn response() -> impl Strategy<Value = (Framing, Vec<u8>)> {
    let framing = prop_oneof![Just(Framing::Length), (1..40_usize).prop_map(Framing::Chunks)];
    (framing, prop::collection::vec(any::<u8>(), 0..200))
}

fn written(responses: &[(Framing, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (framing, body) in responses {
        match framing {
            Framing::Length => {
                out.extend_from_slice(
                    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
                );
                out.extend_from_slice(body);
            }
            Framing::Chunks(size) => {
                out.extend_from_slice(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(*size) {
                    out.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    out.extend_from_slice(chunk);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
            }
        }
    }
    out
}

proptest! {
    #[test]
    fn responses_decode_equally_for_any_split(
        responses in prop::collection::vec(response(), 0..6),
        sizes in prop::collection::vec(1..50_usize, 1..20),
    ) {
        let bytes = written(&responses);
        let read = read(cut(&bytes, &sizes));
        let bodies: Vec<(u16, Vec<u8>, bool)> = responses.into_iter().map(|(_, body)| (200, body, true)).collect();
        prop_assert_eq!(read.responses, bodies);
        prop_assert_eq!(read.error, None);
    }

    #[test]
    fn damaged_responses_decode_equally_for_any_split(
        responses in prop::collection::vec(response(), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        sizes in prop::collection::vec(1..50_usize, 1..20),
    ) {
        let mut bytes = written(&responses);
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // A malformed start line may be detected before its end has arrived, so only complete responses are
        // compared.
        prop_assert_eq!(read(cut(&bytes, &sizes)).responses, read([bytes.as_slice()]).responses);
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..500), size in 1..50_usize) {
        read(cut(&bytes, &[size]));
        let mut answer = b"HTTP/1.1 200 OK\r\n".to_vec();
        answer.extend_from_slice(&bytes);
        read(cut(&answer, &[size]));
    }
}

fn cut<'a>(mut bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(*size));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

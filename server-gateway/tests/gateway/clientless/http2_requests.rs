//! Requests in HTTP/2 that two parsers could read differently are refused.
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longhaul_clientless::{RequestTarget, check_http2};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::secure::{Secure, start};
use crate::{
    origin::{full, serve},
    store::{numbered, reply},
};

const LIMIT: Duration = Duration::from_secs(60);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The statuses of the static table that the proxy answers (RFC 7541 appendix A).
const STATUS_200: u8 = 0x88;
const STATUS_400: u8 = 0x8c;
const STATUS_404: u8 = 0x8d;

pub(crate) type Fields<'a> = Vec<(&'a [u8], &'a [u8])>;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// First byte of the response's fields.
    Answered(u8),
    Reset,
    Closed,
}

/// A client that sends what it likes.
pub(crate) struct RawClient(pub(crate) TlsStream<TcpStream>);

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

pub(crate) fn headers(stream: u32, fields: &Fields<'_>, flags: u8) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        // Literals without index and without Huffman coding.
        block.push(0);
        for text in [name, value] {
            block.push(
                u8::try_from(text.len())
                    .ok()
                    .filter(|length| *length < 127)
                    .unwrap(),
            );
            block.extend_from_slice(text);
        }
    }
    frame(HEADERS, END_HEADERS | flags, stream, &block)
}

pub(crate) fn good(host: &str) -> Fields<'_> {
    vec![
        (b":method", b"GET"),
        (b":scheme", b"http"),
        (b":authority", host.as_bytes()),
        (b":path", b"/"),
    ]
}

impl RawClient {
    pub(crate) async fn new(secure: &Secure) -> Self {
        let mut stream = secure.connect(&[b"h2"]).await;
        stream
            .write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat())
            .await
            .unwrap();
        Self(stream)
    }

    async fn frame(&mut self) -> Option<(u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let [a, b, c, kind, _, stream @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((kind, u32::from_be_bytes(stream), payload))
    }

    /// Sends frames, and waits for what becomes of a stream.
    pub(crate) async fn fate(&mut self, frames: &[u8], of: u32) -> Fate {
        // The proxy may have ended the connection.
        let _reset = self.0.write_all(frames).await;
        let watching = async {
            while let Some((kind, stream, payload)) = self.frame().await {
                match kind {
                    HEADERS if stream == of => {
                        // The table's size may be set first.
                        let first = payload.iter().find(|byte| **byte & 0xe0 != 0x20);
                        return Fate::Answered(*first.unwrap());
                    }
                    RST_STREAM if stream == of => return Fate::Reset,
                    GOAWAY => return Fate::Closed,
                    _ => {}
                }
            }
            Fate::Closed
        };
        timeout(LIMIT, watching).await.unwrap()
    }
}

/// Names and fields of requests.
fn corpus(host: &str) -> Vec<(String, Fields<'_>)> {
    let mut corpus: Vec<(String, Fields<'_>)> = Vec::new();
    let mut add = |fields: Fields<'static>, more: &[(&'static [u8], &'static [u8])]| {
        let all = [&fields[..], more].concat();
        let name = all
            .iter()
            .map(|(name, value)| format!("{}={}; ", name.escape_ascii(), value.escape_ascii()));
        corpus.push((name.collect(), all));
    };
    for field in [
        (&b"host"[..], &b"other.test"[..]),
        (b"host", b"a.test:1"),
        (b"host", b"user@a.test"),
        (b"host", b""),
        (b"connection", b"close"),
        (b"connection", b"host"),
        (b"keep-alive", b"timeout=5"),
        (b"proxy-connection", b"keep-alive"),
        (b"transfer-encoding", b"chunked"),
        (b"upgrade", b"h2c"),
        (b"te", b"gzip"),
        (b"te", b"trailers, gzip"),
        (b"content-length", b"5"),
        (b"content-length", b"+0"),
        (b"content-length", b""),
        (b"content-length", b"0, 0"),
        (b"X-Upper", b"1"),
        (b"x name", b"1"),
        (b"x:name", b"1"),
        (b"", b"1"),
        (b"x", b"a\r\nb: c"),
        (b"x", b"a\nb"),
        (b"x", b"a\0b"),
        (b"x", b" padded"),
        (b"x", b"padded "),
        (b":unknown", b"1"),
        (b":status", b"200"),
        (b":path", b"/other"),
        (b":method", b"POST"),
        (b":protocol", b"websocket"),
    ] {
        add(vec![], &[field]);
    }
    add(vec![], &[(b"content-length", b"0"), (b"content-length", b"0")]);
    add(vec![], &[(b"host", b"HOST"), (b"host", b"HOST")]);
    let mut corpus: Vec<(String, Fields<'_>)> = corpus
        .into_iter()
        .map(|(name, more)| {
            let more = more.into_iter().map(|(name, value)| match value {
                b"HOST" => (name, host.as_bytes()),
                _ => (name, value),
            });
            (name, good(host).into_iter().chain(more).collect())
        })
        .collect();
    for (replaced, values) in [
        (&b":method"[..], &[&b"G T"[..], b"", b"get\x01"][..]),
        (b":scheme", &[b"ftp", b"", b"https", b"file"]),
        (
            b":authority",
            &[
                b"user@a.test",
                b"a b",
                b"",
                b"a.test:99999",
                b"a.test:x",
                b"a.test/x",
            ],
        ),
        (
            b":path",
            &[b"", b"x", b"*", b"http://other.test/", b"/a b", b"/\xff"],
        ),
    ] {
        let without: Fields<'_> = good(host)
            .into_iter()
            .filter(|field| field.0 != replaced)
            .collect();
        corpus.push((format!("without {}", replaced.escape_ascii()), without.clone()));
        for value in values {
            let name = format!("{}={}", replaced.escape_ascii(), value.escape_ascii());
            corpus.push((name, [&[(replaced, *value)], &without[..]].concat()));
        }
    }
    let late = [&[(&b"x"[..], &b"1"[..])], &good(host)[..]].concat();
    corpus.push(("a field before the pseudo-header fields".to_owned(), late));
    let connect: Fields<'_> = vec![(b":method", b"CONNECT")];
    for more in [
        vec![],
        vec![(&b":authority"[..], &b"a.test"[..])],
        vec![(b":authority", b"user@a.test:443")],
        vec![(b":authority", b"a.test:443/x")],
        vec![(b":authority", b"a.test:443"), (b":path", b"/")],
        vec![(b":authority", b"a.test:443"), (b":scheme", b"http")],
        vec![
            (b":authority", b"a.test:443"),
            (b":scheme", b"http"),
            (b":path", b"/"),
        ],
        vec![(b":authority", b"a.test:443"), (b"host", b"other.test:443")],
        vec![(b":authority", b"a.test:443"), (b"content-length", b"0")],
        vec![
            (b":authority", b"a.test:443"),
            (b":scheme", b"http"),
            (b":path", b"/"),
            (b":protocol", b"websocket"),
        ],
    ] {
        corpus.push((format!("CONNECT {more:?}"), [&connect[..], &more].concat()));
    }
    corpus
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let secure = start().await;
    let (url, log) = numbered(&[]).await;
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let corpus = corpus(host);
    for (name, fields) in &corpus {
        let mut client = RawClient::new(&secure).await;
        let fate = client.fate(&headers(1, fields, END_STREAM), 1).await;
        let refused = [
            Fate::Answered(STATUS_400),
            Fate::Answered(STATUS_404),
            Fate::Reset,
            Fate::Closed,
        ];
        assert!(refused.contains(&fate), "{name}: {fate:?}");
    }
    assert_eq!(log.count(), 0);
    assert!(corpus.len() > 60);
    let mut client = RawClient::new(&secure).await;
    let fate = client.fate(&headers(1, &good(host), END_STREAM), 1).await;
    assert_eq!(fate, Fate::Answered(STATUS_200));
    assert_eq!(log.count(), 1);
}

#[tokio::test]
async fn a_body_of_another_length_than_announced_is_no_body() {
    let secure = start().await;
    let (told, mut ends) = tokio::sync::mpsc::unbounded_channel();
    let port = serve(move |request: Request<Incoming>| {
        let told = told.clone();
        async move {
            let is_complete = request.into_body().collect().await.is_ok();
            told.send(is_complete).unwrap();
            reply(200, &[], full(""))
        }
    })
    .await;
    let host = format!("a.test:{port}");
    let mut post = good(&host);
    post[0].1 = b"POST";
    post.push((b"content-length", b"5"));
    for (length, ends_with_data) in [(4, true), (6, true), (6, false)] {
        let mut client = RawClient::new(&secure).await;
        let flags = if ends_with_data { END_STREAM } else { 0 };
        let body = frame(DATA, flags, 1, &b"123456"[..length]);
        let fate = client.fate(&[headers(1, &post, 0), body].concat(), 1).await;
        assert!(matches!(fate, Fate::Reset | Fate::Closed), "{length}: {fate:?}");
    }
    let mut client = RawClient::new(&secure).await;
    let body = frame(DATA, END_STREAM, 1, b"12345");
    let fate = client.fate(&[headers(1, &post, 0), body].concat(), 1).await;
    assert_eq!(fate, Fate::Answered(STATUS_200));
    // The requests that failed may have reached the origin, but none of them whole.
    let mut complete = 0;
    while let Ok(is_complete) = ends.try_recv() {
        complete += u32::from(is_complete);
    }
    assert_eq!(complete, 1);
}

/// Requests as the library hands them out.
fn build(method: &str, uri: &str, fields: &[(String, Vec<u8>)]) -> Option<Request<()>> {
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = uri.parse::<Uri>().ok()?;
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        request
            .headers_mut()
            .append(name, HeaderValue::from_bytes(value).ok()?);
    }
    Some(request)
}

#[test]
fn mutated_requests_are_refused_or_mean_what_they_say() {
    let mut state = 11_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let hosts = [
        "a.test",
        "A.test:80",
        "a.test:8080",
        "[::1]:80",
        "user@a.test",
        "b.test",
    ];
    let names = [
        "host",
        "cookie",
        "content-length",
        "te",
        "x",
        "connection",
        "upgrade",
    ];
    let values = [
        "a.test",
        "a.test:8080",
        "1",
        "0",
        "trailers",
        " 1",
        "close",
        "b=2",
    ];
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let method = ["GET", "POST", "CONNECT", "OPTIONS"][random(4)];
        let host = hosts[random(hosts.len())];
        let path = ["/", "/x?y", "*", "/\u{e4}", ""][random(5)];
        let uri = if method == "CONNECT" {
            host.to_owned()
        } else {
            format!("{}://{host}{path}", ["http", "https", "HTTP", "ftp"][random(4)])
        };
        let fields: Vec<_> = (0..random(4))
            .map(|_| (names[random(7)].to_owned(), values[random(8)].as_bytes().to_vec()))
            .collect();
        let has_body = random(2) == 0;
        let Some(request) = build(method, &uri, &fields) else {
            continue;
        };
        let told = request.headers().get("host").cloned();
        let Ok(head) = check_http2(request, has_body) else {
            refused += 1;
            continue;
        };
        accepted += 1;
        assert!(!uri.contains("user@"), "{uri}");
        assert!(head.headers.get_all("cookie").iter().count() <= 1);
        for name in ["connection", "upgrade"] {
            assert!(!head.headers.contains_key(name), "{name}");
        }
        match head.target {
            RequestTarget::Origin(target) => {
                assert!(uri.to_ascii_lowercase().starts_with("http://"), "{uri}");
                if let Some(told) = told {
                    let told = told.to_str().unwrap().trim_end_matches(":80").to_owned();
                    assert_eq!(told, target.host_field(), "{uri}");
                }
            }
            RequestTarget::Tunnel(..) => assert_eq!(method, "CONNECT"),
            RequestTarget::Proxy(_) => assert!(uri.starts_with("https://"), "{uri}"),
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} {refused}");
}

//! Responses as clients read them.
use std::io::Read as _;

use longhaul_codec::ContentCoding;
use longhaul_gateway_core::config::settings;
use longhaul_types::ContentHash;
use longhaul_webcache::BodyReader;
use tokio::{
    io::{AsyncReadExt as _, DuplexStream, duplex},
    sync::{Semaphore, oneshot},
};

use super::{
    super::{encoding::AppliedCoding, tests::Proxy},
    *,
};

const CLIENT: PublicKey = PublicKey::from_bytes([1; 32]);

/// A writer, and what its client reads from.
fn writer(proxy: &Proxy) -> (Writer<DuplexStream>, DuplexStream) {
    let (stream, client) = duplex(64 * 1024);
    let writer = Writer {
        stream,
        shared: Arc::clone(&proxy.shared),
        ahead: Arc::default(),
        urgency: Arc::default(),
        stall: Duration::from_secs(60),
    };
    (writer, client)
}

async fn exchange(answer: Answer, version: Version, is_head: bool) -> Exchange {
    Exchange {
        answer: PendingAnswer::Ready(Box::new(answer)),
        version,
        is_head,
        keeps_alive: version == Version::HTTP_11,
        asked: None,
        limits: Some(CLIENT),
        places: Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap(),
    }
}

/// A response whose body is read piece by piece.
fn streamed(body: &'static [u8], is_coded: bool) -> Answer {
    let mut answer = Answer::text(StatusCode::OK, "");
    answer
        .headers
        .insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    answer.body = AnswerBody::Stream(BodyReader::of_bytes(
        Bytes::from_static(body),
        ContentHash::of(body),
    ));
    answer.coding = is_coded.then_some(AppliedCoding {
        coding: ContentCoding::Gzip { padding: 0 },
        share: CLIENT,
    });
    answer
}

/// Head, and body, of a response; and true if the connection may be used further.
async fn written(proxy: &Proxy, answer: Answer, version: Version, is_head: bool) -> (String, Vec<u8>, bool) {
    let (mut writer, mut client) = writer(proxy);
    let goes_on = writer
        .exchange(exchange(answer, version, is_head).await)
        .await
        .unwrap();
    drop(writer);
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).await.unwrap();
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let body = bytes.split_off(end);
    (String::from_utf8(bytes).unwrap(), body, goes_on)
}

#[tokio::test]
async fn responses_without_a_body_have_none_on_the_wire() {
    let proxy = Proxy::new(|flags| flags);
    let text = |status| Answer::text(status, "hello");
    for (answer, is_head) in [
        (text(StatusCode::OK), true),
        (text(StatusCode::NO_CONTENT), false),
        (text(StatusCode::NOT_MODIFIED), false),
        (streamed(b"hello", false), true),
        (streamed(b"hello", true), true),
    ] {
        let length = answer.headers.get(header::CONTENT_LENGTH).cloned();
        let (head, body, goes_on) = written(&proxy, answer, Version::HTTP_11, is_head).await;
        assert!(body.is_empty() && goes_on, "{head}");
        assert!(!head.contains("transfer-encoding"), "{head}");
        // Its length is that of the body of a GET.
        assert_eq!(head.contains("content-length: 5\r\n"), length.is_some(), "{head}");
    }
}

#[tokio::test]
async fn a_body_of_a_known_length_ends_with_it() {
    let proxy = Proxy::new(|flags| flags);
    for version in [Version::HTTP_11, Version::HTTP_10] {
        for answer in [Answer::text(StatusCode::OK, "hello"), streamed(b"hello", false)] {
            let (head, body, goes_on) = written(&proxy, answer, version, false).await;
            assert!(head.contains("content-length: 5\r\n"), "{head}");
            assert_eq!(body, b"hello");
            let is_kept = version == Version::HTTP_11;
            assert_eq!(
                (goes_on, !head.contains("connection: close")),
                (is_kept, is_kept),
                "{head}"
            );
        }
    }
    let mut empty = Answer::text(StatusCode::OK, "");
    empty.body = AnswerBody::None;
    let (head, body, _) = written(&proxy, empty, Version::HTTP_11, false).await;
    assert!(
        head.contains("content-length: 0\r\n") && body.is_empty(),
        "{head}"
    );
}

#[tokio::test]
async fn a_body_of_an_unknown_length_is_chunked_or_ends_with_the_connection() {
    let proxy = Proxy::new(|flags| flags);
    let decoded = |bytes: &[u8]| {
        let mut text = String::new();
        flate2::read::GzDecoder::new(bytes)
            .read_to_string(&mut text)
            .unwrap();
        text
    };
    let (head, body, goes_on) = written(&proxy, streamed(b"hello", true), Version::HTTP_11, false).await;
    assert!(
        head.contains("transfer-encoding: chunked\r\n") && !head.contains("content-length"),
        "{head}"
    );
    assert!(goes_on);
    let (mut decoder, mut wire, mut joined) = (
        super::super::chunked::ChunkedDecoder::default(),
        BytesMut::from(&body[..]),
        Vec::new(),
    );
    while let super::super::chunked::ChunkEvent::Data(bytes) = decoder.next(&mut wire).unwrap() {
        joined.extend_from_slice(&bytes);
    }
    assert!(wire.is_empty());
    assert_eq!(decoded(&joined), "hello");
    // HTTP/1.0 has no chunks.
    let (head, body, goes_on) = written(&proxy, streamed(b"hello", true), Version::HTTP_10, false).await;
    assert!(
        !head.contains("transfer-encoding") && !head.contains("content-length"),
        "{head}"
    );
    assert!(head.contains("connection: close\r\n") && !goes_on, "{head}");
    assert_eq!(decoded(&body), "hello");
}

#[tokio::test]
async fn a_body_that_is_cut_is_not_taken_for_a_complete_one() {
    // What is longer than the client may transfer is cut.
    static LONG: [u8; 2 * 1024 * 1024] = [7; 2 * 1024 * 1024];
    for (is_coded, version, expected) in [
        // The length, or the missing end of the chunks, shows it.
        (false, Version::HTTP_11, Ok(false)),
        (true, Version::HTTP_11, Ok(false)),
        // Only an end that is not clean shows it.
        (true, Version::HTTP_10, Err(io::ErrorKind::InvalidData)),
    ] {
        let proxy = Proxy::new(|flags| flags.with(&settings::CLIENTLESS_DAY_SIZE, "1MiB"));
        assert!(proxy.shared.count_down(CLIENT, 1024 * 1024).is_ok());
        let (mut writer, mut client) = writer(&proxy);
        let request = exchange(streamed(&LONG, is_coded), version, false).await;
        let written = writer.exchange(request).await.map_err(|error| error.kind());
        assert_eq!(written, expected, "{version:?} {is_coded}");
        drop(writer);
        let mut bytes = Vec::new();
        client.read_to_end(&mut bytes).await.unwrap();
        assert!(!bytes.ends_with(b"0\r\n\r\n"));
    }
}

#[tokio::test]
async fn a_client_that_is_gone_ends_the_connection_abruptly() {
    let proxy = Proxy::new(|flags| flags);
    for answer in [Answer::text(StatusCode::OK, "hello"), streamed(b"hello", false)] {
        let (mut writer, client) = writer(&proxy);
        drop(client);
        let gone = writer
            .exchange(exchange(answer, Version::HTTP_11, false).await)
            .await;
        assert_eq!(gone.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}

#[tokio::test]
async fn a_fetch_for_which_nobody_waits_ends() {
    let (running, ended) = oneshot::channel::<()>();
    let task = FetchTask(tokio::spawn(async move {
        let _running = running;
        std::future::pending().await
    }));
    tokio::task::yield_now().await;
    drop(task);
    // The sender is dropped with the task.
    assert!(ended.await.is_err());
}

//! How long heads and bodies are waited for, and how much is read.
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf},
    net::{TcpListener, TcpStream},
};

use super::*;
use crate::{
    access::Security,
    stream::{PacedStream, SecuredStream},
    tests::{LOCAL, Proxy, connection},
};

/// Size of the futures of a function with three arguments.
const fn size_of_future<A, B, C, F: Future>(_: fn(A, B, C) -> F) -> usize {
    size_of::<F>()
}

/// An idle connection has nothing of its requests, responses and tunnels: all of these have memory of their own.
#[test]
fn an_idle_connection_is_small() {
    let sizes = [
        size_of_future(serve::<PacedStream>),
        size_of_future(serve::<SecuredStream>),
    ];
    assert!(sizes.iter().all(|size| *size <= 4096), "{sizes:?}");
}

const IDLE: Duration = Duration::from_secs(200);

/// A reader, and its client.
async fn reader(proxy: &Proxy) -> (Reader<ReadHalf<PacedStream>>, TcpStream) {
    let (stream, client) = connection().await;
    // The other half is not needed: the connection lives as long as one of them.
    let (read, _write) = split(stream);
    let reader = Reader {
        stream: read,
        buffer: BytesMut::new(),
        heads: HeadReader::default(),
        interception: None,
        is_first: true,
        connection: proxy.connection(LOCAL),
        owner: None,
        admission: Arc::default(),
        places: Arc::new(Semaphore::new(MAX_AHEAD as usize)),
        ahead: Arc::default(),
        idle: IDLE,
    };
    (reader, client)
}

#[tokio::test]
async fn a_head_that_trickles_has_a_minute_from_its_first_byte() {
    let proxy = Proxy::new(|flags| flags);
    tokio::time::pause();
    let (mut reader, mut client) = reader(&proxy).await;
    let start = Instant::now();
    let ended = {
        let head = reader.head();
        tokio::pin!(head);
        // The first byte comes after a while.
        let mut ended = None;
        for byte in b"GET http://a.test/ HTTP/1.1".iter() {
            if let Ok(head) = timeout_at(Instant::now() + Duration::from_secs(7), &mut head).await {
                ended = Some(head);
                break;
            }
            client.write_all(&[*byte]).await.unwrap();
        }
        ended.unwrap()
    };
    assert!(ended.unwrap().is_none());
    assert_eq!(start.elapsed().as_secs(), 7 + HEAD_TIME.as_secs());
}

#[tokio::test]
async fn an_idle_connection_is_kept_while_responses_are_on_their_way() {
    let proxy = Proxy::new(|flags| flags);
    tokio::time::pause();
    // The place of the next request is taken already.
    for (places, idle_times) in [(1, 1), (2, 3), (32, 3)] {
        let (mut reader, _client) = reader(&proxy).await;
        let start = Instant::now();
        let responses = Arc::clone(&reader.places)
            .acquire_many_owned(places)
            .await
            .unwrap();
        let writing = async {
            let until = Instant::now() + IDLE * 5 / 2;
            let _passed = timeout_at(until, std::future::pending::<()>()).await;
            drop(responses);
        };
        let (head, elapsed) = {
            let reading = async {
                let head = reader.head().await.unwrap();
                (head, start.elapsed())
            };
            tokio::join!(reading, writing).0
        };
        assert!(head.is_none());
        assert_eq!(elapsed.as_secs(), IDLE.as_secs() * idle_times, "{places}");
    }
}

#[tokio::test]
async fn some_of_a_body_is_read_after_the_origin_has_stopped_reading_it() {
    const MIB: u64 = 1024 * 1024;
    let proxy = Proxy::new(|flags| flags);
    let limits = PublicKey::from_bytes([1; 32]);
    for (length, is_read) in [(MIB / 2, true), (4 * MIB, false)] {
        let (mut reader, mut client) = reader(&proxy).await;
        let sending = tokio::spawn(async move {
            let body = vec![7; usize::try_from(length).unwrap()];
            client.write_all(&body).await.unwrap();
            client.shutdown().await.unwrap();
            client
        });
        let (pieces, body) = RequestBody::new(BodyLength::Known(length));
        drop(body);
        let framing = BodyFraming::Known(length);
        assert_eq!(reader.body(framing, (pieces, limits)).await.unwrap(), is_read);
        let mut rest = Vec::new();
        reader.stream.read_to_end(&mut rest).await.unwrap();
        let left = (reader.buffer.len() + rest.len()) as u64;
        let expected = length.saturating_sub(MIB);
        assert!(left <= expected && left + MIB / 4 >= expected, "{left}");
        sending.await.unwrap();
    }
}

#[tokio::test]
async fn who_speaks_http_1_0_is_not_asked_for_a_body() {
    let origin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let host = format!("a.test:{}", origin.local_addr().unwrap().port());
    let answering = tokio::spawn(async move {
        let (mut stream, _) = origin.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"hello") {
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await
            .unwrap();
        String::from_utf8(request).unwrap().to_ascii_lowercase()
    });
    let proxy = Proxy::new(|flags| flags);
    let (stream, mut client) = connection().await;
    let peer = Peer {
        address: LOCAL,
        security: Security::Plain,
    };
    let arriving = Arriving {
        buffer: BytesMut::new(),
        interception: None,
    };
    let serving = tokio::spawn(serve(Arc::clone(&proxy.shared), (stream, arriving), peer));
    let request = format!(
        "POST http://{host}/ HTTP/1.0\r\nHost: {host}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello"
    );
    client.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let asked = answering.await.unwrap();
    assert!(!asked.contains("expect"), "{asked}");
    serving.await.unwrap();
}

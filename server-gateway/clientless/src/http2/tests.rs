//! What a client sees of a connection.
use bytes::Bytes;
use http::{Method, Request};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    net::TcpStream,
};

use super::{
    super::{
        access::Security,
        tests::{LOCAL, Proxy, connection},
    },
    *,
};

#[tokio::test]
async fn a_client_learns_the_limits_of_a_connection_at_its_start() {
    let (mut client, stream) = duplex(64 * 1024);
    client
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
        .await
        .unwrap();
    let mut frames = builder().handshake::<_, Bytes>(stream).await.unwrap();
    let serving = tokio::spawn(async move { frames.accept().await.is_none() });
    let mut head = [0; 9];
    client.read_exact(&mut head).await.unwrap();
    // SETTINGS (RFC 9113 section 6.5).
    assert_eq!(head[3], 4);
    let mut settings = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
    client.read_exact(&mut settings).await.unwrap();
    let value = |number: u16| {
        let mut found = settings
            .chunks(6)
            .filter(|setting| setting[..2] == number.to_be_bytes());
        found
            .next()
            .map(|setting| u32::from_be_bytes(setting[2..].try_into().unwrap()))
    };
    assert_eq!(value(3), Some(MAX_STREAMS));
    assert_eq!(value(4), Some(WINDOW));
    assert_eq!(value(5).unwrap_or(MAX_FRAME), MAX_FRAME);
    assert_eq!(value(6), Some(MAX_HEAD));
    drop(client);
    serving.await.unwrap();
}

/// Serves a connection of this machine.
async fn served(proxy: &Proxy) -> TcpStream {
    let (stream, client) = connection().await;
    let peer = Peer {
        address: LOCAL,
        security: Security::Tls,
    };
    tokio::spawn(serve(Arc::clone(&proxy.shared), stream, peer));
    client
}

#[tokio::test]
async fn a_response_to_head_has_the_fields_of_a_get_and_no_body() {
    let proxy = Proxy::new(|flags| flags);
    let handshake = h2::client::handshake(served(&proxy).await);
    let (mut requests, connection) = handshake.await.unwrap();
    let driving = tokio::spawn(connection);
    for (method, is_empty) in [(Method::GET, false), (Method::HEAD, true)] {
        let request = Request::builder()
            .method(method.clone())
            .uri("https://proxy.test/proxy.pac")
            .body(())
            .unwrap();
        let (response, _) = requests.send_request(request, true).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.status(), 200);
        let mut body = response.into_body();
        assert_eq!(body.is_end_stream(), is_empty, "{method}");
        let mut length = 0;
        while let Some(bytes) = body.data().await {
            length += bytes.unwrap().len();
        }
        assert_eq!(length == 0, is_empty, "{method}");
    }
    drop(requests);
    driving.await.unwrap().unwrap();
}

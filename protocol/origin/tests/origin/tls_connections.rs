//! TLS connections from their handshake to their end, with servers that look at them.
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use longhaul_origin::{OriginClient, OriginConfig};
use rustls::{HandshakeKind, ServerConfig};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    sync::mpsc,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use crate::rig::{
    LOCAL, Origin, config_of, get, text,
    tls::{Authority, Validity},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";

fn client(authority: &Authority, address: std::net::SocketAddr) -> OriginClient {
    OriginClient::new(OriginConfig {
        extra_ca: vec![authority.pem()],
        ..config_of(address)
    })
    .unwrap()
}

async fn head(stream: &mut TlsStream<TcpStream>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
}

/// An origin that answers one request on each connection, and tells how the connection began and whether it ended in
/// order.
async fn observed(config: ServerConfig) -> (Origin, mpsc::UnboundedReceiver<(HandshakeKind, bool)>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let (seen, observed) = mpsc::unbounded_channel();
    let origin = Origin::start(move |_, stream| {
        let (acceptor, seen) = (acceptor.clone(), seen.clone());
        async move {
            let mut stream = acceptor.accept(stream).await.unwrap();
            let kind = stream.get_ref().1.handshake_kind().unwrap();
            head(&mut stream).await;
            stream.write_all(ANSWER).await.unwrap();
            let end = stream.read_to_end(&mut Vec::new()).await;
            seen.send((kind, end.is_ok())).unwrap();
        }
    })
    .await;
    (origin, observed)
}

#[tokio::test]
async fn sessions_are_resumed_and_connections_end_in_order() {
    let authority = Authority::new();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (origin, mut observed) = observed(authority.server_of("site.test", &[version])).await;
        let client = client(&authority, origin.address);
        for expected in [
            HandshakeKind::Full,
            HandshakeKind::Resumed,
            HandshakeKind::Resumed,
        ] {
            let response = client.fetch(get("https://site.test/"), LOCAL).await.unwrap();
            assert_eq!(text(response).await.unwrap(), "ok");
            assert_eq!(observed.recv().await, Some((expected, true)), "{version:?}");
        }
    }
}

#[tokio::test]
async fn an_upload_arrives_whole_although_the_origin_reads_slowly() {
    let upload = Bytes::from(vec![7; 8 << 20]);
    let length = upload.len();
    let authority = Authority::new();
    let acceptor = TlsAcceptor::from(Arc::new(authority.server("site.test", Validity::Now, &[])));
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let client = client(&authority, listener.local_addr().unwrap());
    let serving = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        head(&mut stream).await;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.unwrap();
        stream.write_all(ANSWER).await.unwrap();
        body
    });
    let request = Request::put("https://site.test/").body(Full::new(upload.clone()));
    let response = client.fetch(request.unwrap(), LOCAL).await.unwrap();
    assert_eq!(text(response).await.unwrap(), "ok");
    assert!(serving.await.unwrap() == upload);
}

//! Origins that do not answer, stop, or read slowly.
use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use longhaul_origin::{BodyError, Fault, FetchError, OriginClient, OriginConfig, Timeouts};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpSocket,
    sync::mpsc,
};

use crate::rig::{LOCAL, Origin, client_of, config_of, get, read_head, text};

const SHORT: Duration = Duration::from_millis(200);

fn impatient(address: std::net::SocketAddr, timeouts: Timeouts) -> OriginClient {
    OriginClient::new(OriginConfig {
        timeouts,
        ..config_of(address)
    })
    .unwrap()
}

#[tokio::test]
async fn a_closed_port_refuses() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client_of(address)
        .fetch(get("http://site.test/"), LOCAL)
        .await
        .unwrap_err();
    assert_eq!(error, FetchError::Refused);
    assert_eq!(error.fault(), Fault::Origin);
}

#[tokio::test]
async fn a_black_hole_times_out() {
    // A listening socket with a full queue drops further SYNs.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let _filler = std::net::TcpStream::connect(address).unwrap();
    let client = impatient(
        address,
        Timeouts {
            connect: SHORT,
            ..Timeouts::default()
        },
    );
    let error = client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::ConnectTimeout);
    assert_eq!(
        client.connect_tcp("site.test", 443, LOCAL).await.unwrap_err(),
        FetchError::ConnectTimeout
    );
}

#[tokio::test]
async fn a_silent_origin_times_out() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            response_head: SHORT,
            ..Timeouts::default()
        },
    );
    let error = client.fetch(get("http://site.test/"), LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::ResponseTimeout);
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn an_origin_that_stops_midway_times_out() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            body_idle: SHORT,
            ..Timeouts::default()
        },
    );
    let response = client.fetch(get("http://site.test/"), LOCAL).await.unwrap();
    assert_eq!(text(response).await, Err(BodyError::Timeout));
}

#[tokio::test]
async fn a_slow_upload_is_not_the_origins_fault() {
    let origin = Origin::start(|_, mut stream| async move {
        read_head(&mut stream).await;
        let mut body = Vec::new();
        while !body.ends_with(b"0\r\n\r\n") {
            let mut buffer = [0; 64];
            let length = stream.read(&mut buffer).await.unwrap();
            body.extend(&buffer[..length]);
        }
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.write_all(&body).await.unwrap();
    })
    .await;
    let client = impatient(
        origin.address,
        Timeouts {
            response_head: SHORT / 4,
            ..Timeouts::default()
        },
    );
    let (sender, receiver) = mpsc::channel(1);
    let request = Request::post("http://site.test/")
        .body(ChannelBody(receiver))
        .unwrap();
    let fetch = tokio::spawn(async move { client.fetch(request, LOCAL).await });
    sender.send(Ok(Bytes::from_static(b"one"))).await.unwrap();
    // Several response timeouts pass while the source has no data.
    tokio::time::timeout(SHORT, std::future::pending::<()>())
        .await
        .unwrap_err();
    sender.send(Ok(Bytes::from_static(b"two"))).await.unwrap();
    drop(sender);
    let response = fetch.await.unwrap().unwrap();
    assert_eq!(text(response).await.unwrap(), "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_broken_upload_is_the_requests_fault() {
    let origin = Origin::start(|_, mut stream| async move {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    })
    .await;
    let (sender, receiver) = mpsc::channel(2);
    sender.send(Ok(Bytes::from("x"))).await.unwrap();
    sender
        .send(Err(std::io::Error::other("the browser went away")))
        .await
        .unwrap();
    let request = Request::post("http://site.test/")
        .body(ChannelBody(receiver))
        .unwrap();
    let error = client_of(origin.address).fetch(request, LOCAL).await.unwrap_err();
    assert_eq!(error, FetchError::Upload);
    assert_eq!(error.fault(), Fault::Request);
}

/// Body whose frames come from a channel.
pub(crate) struct ChannelBody(pub(crate) mpsc::Receiver<Result<Bytes, std::io::Error>>);

impl Body for ChannelBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        self.0
            .poll_recv(cx)
            .map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

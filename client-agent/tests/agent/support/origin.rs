//! An origin for direct fetches.
use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

/// Starts an origin that answers every connection with one response, whose body is the request line.
pub(crate) async fn origin() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let mut read = 0;
            while !request[..read].windows(4).any(|end| end == b"\r\n\r\n") {
                read += stream.read(&mut request[read..]).await.unwrap();
            }
            let line = String::from_utf8_lossy(&request[..read])
                .lines()
                .next()
                .unwrap()
                .to_owned();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{line}",
                line.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

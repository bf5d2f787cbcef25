//! A plain forward proxy (RFC 9110 section 7.3.3, RFC 9112 section 3.2) that connects every host to the local
//! origin.
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

pub(crate) struct ForwardProxy {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl ForwardProxy {
    /// Forwards http requests to `http` and tunnels to `https`.
    pub(crate) async fn start(http: SocketAddr, https: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(async move {
                    let _ = serve(stream, http, https).await;
                });
            }
        });
        Self {
            address,
            _tasks: tasks,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The origin accepts the absolute form, so only the first request of a connection is parsed.
async fn serve(mut browser: TcpStream, http: SocketAddr, https: SocketAddr) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if browser.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let connect = head.starts_with(b"CONNECT ");
    let mut origin = TcpStream::connect(if connect { https } else { http }).await?;
    if connect {
        browser
            .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
            .await?;
    } else {
        assert!(
            head.starts_with(b"GET http://"),
            "a proxy is asked in absolute form"
        );
        origin.write_all(&head).await?;
    }
    copy_bidirectional(&mut browser, &mut origin).await.map(drop)
}

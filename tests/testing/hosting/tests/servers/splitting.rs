use std::{net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use longhaul_hosting::{Destination, HostingOptions, SplittingProxy};
use longhaul_raw_client::RawClient;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::timeout,
};

use crate::client::{PATIENCE, fetch, loopback, server, until};

/// Without namespaces no connection is redirected: the proxy maps every address to which it is connected to
/// `origin`.
async fn proxy_to(origin: SocketAddr) -> Result<SplittingProxy> {
    let map = Arc::new(move |_| origin);
    Ok(SplittingProxy::start(&["0.0.0.0:0".parse()?], Destination::Mapped(map)).await?)
}

#[tokio::test]
async fn the_proxy_connects_to_the_dialled_address() -> Result<()> {
    let server = server(HostingOptions::default()).await?;
    let origin = server.hosting.plain()[0];
    let seen = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let map = Arc::new(move |dialled: SocketAddr| {
        log.lock().push(dialled);
        origin
    });
    let proxy = SplittingProxy::start(&["0.0.0.0:0".parse()?], Destination::Mapped(map)).await?;
    let port = proxy.addresses()[0].port();
    for address in ["127.0.0.7", "127.3.2.1"] {
        let dialled = SocketAddr::new(address.parse()?, port);
        let mut client = RawClient::connect(dialled).await?;
        for length in [10, 1_000_000] {
            assert_eq!(
                fetch(&mut client, &format!("/{length}")).await?.body.len(),
                length
            );
        }
        assert_eq!(seen.lock().pop(), Some(dialled));
    }
    let statistics = proxy.statistics();
    assert_eq!((statistics.connections, statistics.refused), (2, 0));
    assert!(statistics.bytes_down > 2_000_020 && statistics.bytes_up > 100);
    Ok(())
}

#[tokio::test]
async fn a_half_close_is_relayed_in_both_directions() -> Result<()> {
    let listener = TcpListener::bind(loopback()).await?;
    let proxy = proxy_to(listener.local_addr()?).await?;
    let mut client = TcpStream::connect((loopback().ip(), proxy.addresses()[0].port())).await?;
    let (mut origin, _) = listener.accept().await?;

    client.write_all(b"question").await?;
    client.shutdown().await?;
    let mut question = Vec::new();
    timeout(PATIENCE, origin.read_to_end(&mut question)).await??;
    assert_eq!(question, b"question");
    // The other direction is still open.
    let answer = vec![7; 3_000_000];
    let (mut received, expected) = (Vec::new(), answer.len());
    let sent = async {
        origin.write_all(&answer).await?;
        origin.shutdown().await
    };
    let (sent, read) = tokio::join!(sent, timeout(PATIENCE, client.read_to_end(&mut received)));
    sent?;
    assert_eq!(read??, expected);
    until("both connections close", || proxy.statistics().open == 0).await;
    let statistics = proxy.statistics();
    assert_eq!((statistics.bytes_up, statistics.bytes_down), (8, 3_000_000));
    Ok(())
}

#[tokio::test]
async fn a_connection_from_the_proxy_to_itself_is_reset() -> Result<()> {
    // The dialled address on this machine is the proxy itself.
    let proxy = SplittingProxy::start(&["0.0.0.0:0".parse()?], Destination::AsDialled).await?;
    let mut client = TcpStream::connect(("127.0.0.9", proxy.addresses()[0].port())).await?;
    let read = timeout(PATIENCE, client.read(&mut [0])).await?;
    assert_eq!(
        read.err().map(|error| error.kind()),
        Some(std::io::ErrorKind::ConnectionReset)
    );
    until("both connections close", || proxy.statistics().open == 0).await;
    let statistics = proxy.statistics();
    assert!(
        statistics.looped > 0 && statistics.connections < 10,
        "{statistics:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_refused_connection_to_the_origin_resets_the_client() -> Result<()> {
    let closed = TcpListener::bind(loopback()).await?.local_addr()?;
    let proxy = proxy_to(closed).await?;
    let mut client = TcpStream::connect((loopback().ip(), proxy.addresses()[0].port())).await?;
    let read = timeout(PATIENCE, client.read(&mut [0])).await?;
    assert_eq!(
        read.err().map(|error| error.kind()),
        Some(std::io::ErrorKind::ConnectionReset)
    );
    assert_eq!(proxy.statistics().refused, 1);
    Ok(())
}

#[tokio::test]
async fn a_reset_is_relayed() -> Result<()> {
    let listener = TcpListener::bind(loopback()).await?;
    let proxy = proxy_to(listener.local_addr()?).await?;
    let mut client = TcpStream::connect((loopback().ip(), proxy.addresses()[0].port())).await?;
    let (mut origin, _) = listener.accept().await?;
    client.write_all(b"x").await?;
    origin.read_exact(&mut [0]).await?;
    origin.set_zero_linger()?;
    drop(origin);
    let read = timeout(PATIENCE, client.read(&mut [0])).await?;
    assert_eq!(
        read.err().map(|error| error.kind()),
        Some(std::io::ErrorKind::ConnectionReset)
    );
    Ok(())
}

#[tokio::test]
async fn backpressure_of_the_client_reaches_the_origin() -> Result<()> {
    let listener = TcpListener::bind(loopback()).await?;
    let proxy = proxy_to(listener.local_addr()?).await?;
    let client = TcpStream::connect((loopback().ip(), proxy.addresses()[0].port())).await?;
    let (origin, _) = listener.accept().await?;
    // The kernel's buffers hold some megabytes at most; the proxy would have to buffer everything beyond
    // them.
    let chunk = vec![0; 64 * 1024];
    let mut taken = 0;
    for _ in 0..4096 {
        match origin.try_write(&chunk) {
            Ok(length) => taken += length,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let writable = timeout(std::time::Duration::from_millis(300), origin.writable()).await;
                if writable.is_err() {
                    break;
                }
            }
            Err(error) => return Err(error).context("the origin's connection"),
        }
    }
    assert!(taken < 64 * 1024 * 1024, "{taken} bytes were accepted");
    drop(client);
    Ok(())
}

//! An endless download during a page load, through the same system.
use std::{future::pending, io, net::SocketAddr, time::Duration};

use bytes::Bytes;
use longhaul_world::Namespace;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};

/// The host of the download.
pub(super) const HOST: &str = "bulk.longhaul.test";
/// Path that is fetched repeatedly.
pub(super) const PATH: &str = "/download";
/// Long enough that the start of its connections is negligible: 3 s at 45 Mbit/s, an hour on GPRS.
const SIZE: usize = 16 * 1024 * 1024;
/// Time for which the download uses the hop alone, so that its queue fills.
const AHEAD: Duration = Duration::from_secs(10);

/// Returns an incompressible body.
pub(super) fn body() -> Bytes {
    let mut bytes = vec![0; SIZE];
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut bytes);
    bytes.into()
}

/// A running download; it ends when dropped.
pub(super) struct Download {
    _stop: oneshot::Sender<()>,
}

/// Starts the download in the client's namespace and lets it fill the hop's queue. `proxy` is the browser's;
/// without one the download connects to the origin.
pub(super) async fn start(client: &Namespace, proxy: Option<SocketAddr>, origin: SocketAddr) -> Download {
    let (stop, stopped) = oneshot::channel::<()>();
    client
        .run(move || async move {
            tokio::spawn(async move {
                tokio::select! {
                    () = download(proxy, origin) => {}
                    _ = stopped => {}
                }
            });
            let _elapsed = timeout(AHEAD, pending::<()>()).await;
        })
        .await;
    Download { _stop: stop }
}

async fn download(proxy: Option<SocketAddr>, origin: SocketAddr) {
    loop {
        if let Err(error) = fetch(proxy, origin).await {
            tracing::debug!(%error, "the concurrent download restarts");
            // A pause after an error of the proxy.
            let _elapsed = timeout(Duration::from_secs(1), pending::<()>()).await;
        }
    }
}

async fn fetch(proxy: Option<SocketAddr>, origin: SocketAddr) -> io::Result<()> {
    let target = match proxy {
        Some(_) => format!("http://{HOST}{PATH}"),
        None => PATH.to_owned(),
    };
    let mut stream = TcpStream::connect(proxy.unwrap_or(origin)).await?;
    let request = format!("GET {target} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 64 * 1024];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

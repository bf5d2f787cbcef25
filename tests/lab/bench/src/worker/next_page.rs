//! The next page of a browser. Only then are the unused pushed bytes known.
use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// A separate site, so that the measured page's data cannot serve it.
pub(super) const HOST: &str = "elsewhere.longhaul.test";
/// Body of its response.
pub(super) const PAGE: &[u8] = b"<!doctype html><title>Elsewhere</title>";
/// Time limit: a few hundred bytes over the slowest link, after the data that remains in its queue.
const LIMIT: Duration = Duration::from_secs(60);

/// Navigates to it through the agent. Call it on the thread of the client's namespace.
///
/// # Errors
/// The agent does not answer.
pub(super) async fn navigate(proxy: SocketAddr) -> io::Result<()> {
    let request = format!(
        "GET http://{HOST}/ HTTP/1.1\r\nHost: {HOST}\r\nAccept: text/html,*/*;q=0.8\r\nUpgrade-Insecure-Requests: 1\r\nConnection: close\r\n\r\n"
    );
    let visit = async {
        let mut stream = TcpStream::connect(proxy).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut buffer = vec![0; 16 * 1024];
        while stream.read(&mut buffer).await? > 0 {}
        Ok(())
    };
    timeout(LIMIT, visit)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

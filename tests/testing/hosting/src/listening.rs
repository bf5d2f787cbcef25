//! Listeners and the connections that they accept.
use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

/// Error of opening a listener.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub(crate) struct ListenError {
    pub(crate) address: SocketAddr,
    pub(crate) source: io::Error,
}

/// Opens a listener and returns it with its address, which contains the port selected for port 0.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// Serves the connections of a listener, at most as many at a time as `turns` has permits. Never ends; its
/// connections end when it is dropped.
pub(crate) async fn accept<S, F>(listener: TcpListener, turns: Arc<Semaphore>, serve: S)
where
    S: Fn(TcpStream) -> F,
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // The error concerns one connection, or it passes when file descriptors are free again.
                tracing::debug!(%error, "a connection was not accepted");
                tokio::task::yield_now().await;
                continue;
            }
        };
        // After the accept: listeners share the permits, and a listener that waits for a client must not hold
        // one.
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
            return;
        };
        // A server writes whole responses, so delaying segments gains nothing (and Nagle's algorithm waits
        // for an acknowledgement, which costs a round trip of the slow link).
        let _ = stream.set_nodelay(true);
        let served = serve(stream);
        connections.spawn(async move {
            let _turn = turn;
            served.await;
        });
    }
}

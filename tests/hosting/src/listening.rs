//! Listeners and the connections they accept.
use std::{io, net::SocketAddr, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

/// A listener that could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub(crate) struct ListenError {
    pub(crate) address: SocketAddr,
    pub(crate) source: io::Error,
}

/// Opens a listener and says where it is, which matters for port 0.
pub(crate) async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let local = listener.local_addr().map_err(failed)?;
    Ok((listener, local))
}

/// Serves what the listener accepts, as many connections at a time as `turns` has permits. Never ends; what it
/// serves ends with it.
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
                // It is that of one connection, or passes when descriptors are free again.
                tracing::debug!(%error, "a connection was not accepted");
                tokio::task::yield_now().await;
                continue;
            }
        };
        // After the accept: listeners share turns, and one that waits for a client must not hold one.
        let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
            return;
        };
        // A server answers in whole responses: nothing is gained by waiting for more (and Nagle's algorithm waits
        // for an acknowledgement, which costs a round trip of the slow link).
        let _ = stream.set_nodelay(true);
        let served = serve(stream);
        connections.spawn(async move {
            let _turn = turn;
            served.await;
        });
    }
}

//! Accepts connections of a listener, up to a number at the same time.
use std::{future::Future, sync::Arc};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};

/// Serves each connection in a task of its own; while `limit` connections are open, further ones wait in the
/// system's queue. Dropping the future ends all connections.
pub async fn serve_connections<F>(listener: TcpListener, limit: usize, mut serve: impl FnMut(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(limit));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        // An accept error concerns one connection, or ends when file descriptors are available again.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let connection = serve(stream);
        connections.spawn(async move {
            let _permit = permit;
            connection.await;
        });
    }
}

//! A clock that only the test moves, while sockets work as they do.
use std::sync::mpsc;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::pause,
};

/// Stops the clock; it moves by itself again when this is dropped.
pub(crate) struct Frozen {
    _end: mpsc::Sender<()>,
}

/// Stops the clock. A paused clock does not move by itself as long as a blocking task runs.
pub(crate) fn freeze() -> Frozen {
    pause();
    let (end, ended) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    Frozen { _end: end }
}

/// Returns when all tasks have read what had arrived: sends messages over a connection of its own, which the same runtime
/// delivers after theirs.
pub(crate) async fn settle() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    for _ in 0..10 {
        near.write_u8(1).await.unwrap();
        far.read_u8().await.unwrap();
        far.write_u8(1).await.unwrap();
        near.read_u8().await.unwrap();
        tokio::task::yield_now().await;
    }
}

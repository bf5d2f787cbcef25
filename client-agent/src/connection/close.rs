//! The end of a connection after an answer.
use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::evictable_stream::EvictableStream;

/// Maximum bytes and time of reading after the last answer: if the connection were closed earlier, the system
/// would send RST and the client would lose the answer.
const LINGER_BYTES: usize = 8 * 1024 * 1024;
const LINGER_TIME: Duration = Duration::from_secs(2);

/// Closes a connection in such a way that the client can read the last answer.
pub(crate) async fn close_after_answer(stream: EvictableStream<TcpStream>) {
    let _late = timeout(LINGER_TIME, drain(stream)).await;
}

async fn drain(mut stream: EvictableStream<TcpStream>) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut buffer = vec![0; 16 * 1024];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => left = left.saturating_sub(read),
        }
    }
}

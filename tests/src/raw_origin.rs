//! An origin that answers with exactly these bytes: it closes behind each answer, as broken servers do, or keeps its
//! connections and tells them apart.
use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Requests with larger heads are not answered.
const MAX_HEAD: usize = 1 << 20;

/// Bytes of a body that are read behind the answer.
const MAX_UNREAD: u64 = 64 << 20;

/// A request on a connection that is kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// Number of the connection, from 0.
    pub connection: usize,
    /// The request's head as it came, without its empty line.
    pub head: &'a str,
}

impl Kept<'_> {
    /// The value of a field, if it is there.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        let (_, value) = lines.find(|(field, _)| field.eq_ignore_ascii_case(name))?;
        Some(value.trim())
    }

    /// Path and query.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// A running origin; it ends when dropped.
#[derive(Debug)]
pub struct RawOrigin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl RawOrigin {
    /// Starts an origin on a free loopback port. `answer` gets the request's path and returns the response's bytes.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a free port")?;
        let address = listener.local_addr()?;
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&heads), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &log, answer.as_ref()).await });
            }
        });
        Ok(Self { address, heads, task })
    }

    /// Starts an origin that keeps its connections and answers one request after the other on each, in the order in
    /// which they come. Requests must have no bodies, and answers must be framed.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start_kept(answer: impl Fn(Kept<'_>) -> Vec<u8> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("a free port")?;
        let address = listener.local_addr()?;
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&heads), Arc::new(answer));
        let task = tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move { serve_kept(stream, connection, &log, answer.as_ref()).await });
                connection += 1;
            }
        });
        Ok(Self { address, heads, task })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The heads of all requests so far, as they came.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().clone()
    }
}

impl Drop for RawOrigin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(mut stream: TcpStream, log: &Mutex<Vec<String>>, answer: &(impl Fn(&str) -> Vec<u8> + Sync)) {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    log.lock().push(head);
    // A client that goes away is its own business.
    let _gone = stream.write_all(&answer(&path)).await;
    let _gone = stream.shutdown().await;
    // To close with unread bytes resets the connection, and the client may lose the answer. A server whose answer counts
    // reads on for a while (RFC 9112 section 9.6).
    let mut rest = stream.take(MAX_UNREAD);
    let _gone = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
}

async fn serve_kept(
    mut stream: TcpStream,
    connection: usize,
    log: &Mutex<Vec<String>>,
    answer: &(impl Fn(Kept<'_>) -> Vec<u8> + Sync),
) {
    let mut held = Vec::new();
    loop {
        let end = held.windows(4).position(|window| window == b"\r\n\r\n");
        let Some(end) = end else {
            if held.len() > MAX_HEAD || stream.read_buf(&mut held).await.unwrap_or(0) == 0 {
                return;
            }
            continue;
        };
        let head: Vec<u8> = held.drain(..end + 4).collect();
        let head = String::from_utf8_lossy(&head[..end]).into_owned();
        let answer = answer(Kept {
            connection,
            head: &head,
        });
        log.lock().push(head);
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

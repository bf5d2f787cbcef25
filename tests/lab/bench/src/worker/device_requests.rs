//! Endless requests of another device during a page load, to the page's own host.
use std::{
    future::pending,
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use longhaul_world::Namespace;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::oneshot,
    time::timeout,
};

/// Path of the requests on the page's host.
pub(super) const PATH: &str = "/beside/";
/// Body of each response.
pub(super) const BODY: &[u8] = &[b'x'; 1024];
/// Number of concurrent requests: nearly all streams of a session.
const AT_A_TIME: usize = 240;
/// Time for which the other device uses the gateway alone.
const AHEAD: Duration = Duration::from_secs(3);

/// Running requests; they end when this is dropped.
pub(super) struct DeviceRequests {
    answered: Arc<AtomicU64>,
    _stop: oneshot::Sender<()>,
}

impl DeviceRequests {
    /// Starts to send requests to `host` in the gateway's namespace, through `proxy` or, without one, to
    /// `origin`.
    pub(super) async fn start(
        gateway: &Namespace,
        proxy: Option<SocketAddr>,
        origin: SocketAddr,
        host: String,
    ) -> Self {
        let (stop, stopped) = oneshot::channel::<()>();
        let answered = Arc::new(AtomicU64::new(0));
        let requests = Self {
            answered: Arc::clone(&answered),
            _stop: stop,
        };
        let target = match proxy {
            Some(_) => format!("http://{host}"),
            None => String::new(),
        };
        let asking = Asking {
            address: proxy.unwrap_or(origin),
            target,
            host,
            answered,
        };
        gateway
            .run(move || async move {
                let connections: Vec<_> = (0..AT_A_TIME)
                    .map(|number| tokio::spawn(asking.clone().without_end(number)))
                    .collect();
                tokio::spawn(async move {
                    let _dropped = stopped.await;
                    connections.iter().for_each(tokio::task::JoinHandle::abort);
                });
                let _elapsed = timeout(AHEAD, pending::<()>()).await;
            })
            .await;
        requests
    }

    /// Number of answered requests so far.
    pub(super) fn answered(&self) -> u64 {
        self.answered.load(Relaxed)
    }
}

/// Requests of one connection.
#[derive(Clone)]
struct Asking {
    address: SocketAddr,
    /// Prefix of the path.
    target: String,
    host: String,
    answered: Arc<AtomicU64>,
}

impl Asking {
    async fn without_end(self, connection: usize) {
        loop {
            if let Err(error) = self.ask(connection).await {
                tracing::debug!(%error, "a connection of the other device restarts");
                // A pause after an error of the proxy.
                let _elapsed = timeout(Duration::from_secs(1), pending::<()>()).await;
            }
        }
    }

    /// Sends requests one after the other on one connection.
    async fn ask(&self, connection: usize) -> io::Result<()> {
        let mut stream = BufReader::new(TcpStream::connect(self.address).await?);
        let mut body = Vec::new();
        for number in 0_u64.. {
            let Self { target, host, .. } = self;
            let request = format!("GET {target}{PATH}{connection}/{number} HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let length = length_of_answer(&mut stream).await?;
            body.clear();
            let read = (&mut stream).take(length).read_to_end(&mut body).await?;
            if read as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.answered.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}

/// Reads the head of a response and returns the length of its body.
async fn length_of_answer(stream: &mut BufReader<TcpStream>) -> io::Result<u64> {
    let (mut line, mut length, mut is_answer) = (String::new(), None, false);
    loop {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        is_answer |= text.starts_with("HTTP/1.1 200");
        if let Some((name, value)) = text.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok();
        }
    }
    let refused = || io::Error::other("the request was rejected");
    length.filter(|_| is_answer).ok_or_else(refused)
}

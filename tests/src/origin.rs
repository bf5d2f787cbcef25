//! A local origin that sends the responses of a test and records the requests.
use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use parking_lot::Mutex;

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// The body of an answer: whole or streamed; an error breaks the connection.
pub type AnswerBody = UnsyncBoxBody<Bytes, std::io::Error>;

/// A request as an origin received it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: String,
    /// Host from the Host field.
    pub host: String,
    /// Path and query.
    pub path: String,
    /// The request's fields.
    pub headers: http::HeaderMap,
    /// Where the connection came from.
    pub peer: SocketAddr,
}

/// A running origin; it ends when dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Origin {
    /// Starts an origin on a free loopback port. `answer` is called for each request, `admit` for each connection
    /// while it is open (to look at who made it).
    ///
    /// # Errors
    /// No port is free.
    pub async fn start<F, A>(
        tls: Option<Arc<ServerConfig>>,
        admit: impl Fn(SocketAddr) + Send + Sync + 'static,
        answer: F,
    ) -> Result<Self>
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<AnswerBody>> + Send + 'static,
    {
        Self::start_at(([127, 0, 0, 1], 0).into(), tls, admit, answer).await
    }

    /// The same at an address and port.
    ///
    /// # Errors
    /// The port is not free.
    pub async fn start_at<F, A>(
        address: SocketAddr,
        tls: Option<Arc<ServerConfig>>,
        admit: impl Fn(SocketAddr) + Send + Sync + 'static,
        answer: F,
    ) -> Result<Self>
    where
        F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response<AnswerBody>> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.context("a free port")?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            while let Ok((stream, peer)) = listener.accept().await {
                admit(peer);
                let (answer, log, tls) = (answer.clone(), Arc::clone(&log), tls.clone());
                tokio::spawn(async move { accept(stream, peer, tls, log, answer).await });
            }
        });
        Ok(Self { address, seen, task })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept<F, A>(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    log: Arc<Mutex<Vec<Seen>>>,
    answer: F,
) where
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    match tls {
        None => serve(stream, peer, log, answer).await,
        Some(config) => {
            if let Ok(stream) = TlsAcceptor::from(config).accept(stream).await {
                serve(stream, peer, log, answer).await;
            }
        }
    }
}

async fn serve<S, F, A>(stream: S, peer: SocketAddr, log: Arc<Mutex<Vec<Seen>>>, answer: F)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    F: Fn(Request<Incoming>) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Response<AnswerBody>> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let host = request
            .headers()
            .get(http::header::HOST)
            .and_then(|host| host.to_str().ok());
        let seen = Seen {
            method: request.method().to_string(),
            host: host.unwrap_or_default().to_owned(),
            path: request
                .uri()
                .path_and_query()
                .map(ToString::to_string)
                .unwrap_or_default(),
            headers: request.headers().clone(),
            peer,
        };
        log.lock().push(seen);
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    // A client that goes away is its own business.
    let _ended = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

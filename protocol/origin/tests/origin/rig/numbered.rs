//! Origins that answer with the number of the connection, over HTTP/1.1 or HTTP/2.
use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use longhaul_origin::{ConnectionOwner, Limits, OriginClient, OriginConfig};
use longhaul_types::PublicKey;
use tokio::{
    net::TcpStream,
    sync::{Semaphore, mpsc, watch},
    task::JoinHandle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{
    Origin, config_of, text,
    tls::{Authority, Validity},
};

pub(crate) const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
pub(crate) const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

/// Time after which an event that must come is missing. Tests that move the clock need more than two minutes.
const MISSING: Duration = Duration::from_secs(200);

/// Origin for `site.test` at all ports: with TLS and HTTP/2, with TLS and HTTP/1.1, or without TLS.
pub(crate) struct Numbered {
    pub(crate) origin: Origin,
    pub(crate) scheme: &'static str,
    authority: Authority,
    /// Numbers of the connections on which a request for `/hold` arrived, and of those whose handshake is not answered.
    arrived: mpsc::UnboundedReceiver<usize>,
    /// Numbers of the connections that have ended.
    ended: mpsc::UnboundedReceiver<usize>,
    hold: Arc<Semaphore>,
    closed: watch::Sender<Option<usize>>,
}

/// What the tasks of the connections share.
#[derive(Clone)]
struct Shared {
    acceptor: Option<TlsAcceptor>,
    /// First connection whose TLS handshake is not answered.
    silent_from: usize,
    arrived: mpsc::UnboundedSender<usize>,
    ended: mpsc::UnboundedSender<usize>,
    hold: Arc<Semaphore>,
    closed: watch::Receiver<Option<usize>>,
}

impl Numbered {
    pub(crate) async fn start(alpn: Option<&str>) -> Self {
        Self::silent_from(alpn, usize::MAX).await
    }

    /// Starts an origin that answers no handshake from this connection on.
    pub(crate) async fn silent_from(alpn: Option<&str>, silent_from: usize) -> Self {
        let authority = Authority::new();
        let acceptor = alpn.map(|alpn| {
            let config = authority.server("site.test", Validity::Now, &[alpn]);
            TlsAcceptor::from(Arc::new(config))
        });
        let ((arrived, arrivals), (ended, ends)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let (hold, (closed, closing)) = (Arc::new(Semaphore::new(0)), watch::channel(None));
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let shared = Shared {
            acceptor,
            silent_from,
            arrived,
            ended,
            hold: Arc::clone(&hold),
            closed: closing,
        };
        let origin = Origin::start(move |number, stream| shared.clone().serve(number, stream)).await;
        Self {
            origin,
            scheme,
            authority,
            arrived: arrivals,
            ended: ends,
            hold,
            closed,
        }
    }

    pub(crate) fn config(&self, limits: Limits) -> OriginConfig {
        self.config_for(self.origin.address, limits)
    }

    /// The same with the address of another origin.
    pub(crate) fn config_for(&self, address: SocketAddr, limits: Limits) -> OriginConfig {
        OriginConfig {
            extra_ca: vec![self.authority.pem()],
            limits,
            ..config_of(address)
        }
    }

    pub(crate) fn client(&self, limits: Limits) -> OriginClient {
        OriginClient::new(self.config(limits)).unwrap()
    }

    pub(crate) fn request(&self, port: u16, path: &str) -> Request<Full<Bytes>> {
        let url = format!("{}://site.test:{port}{path}", self.scheme);
        Request::get(url).body(Full::default()).unwrap()
    }

    /// A request that makes its connection private.
    pub(crate) fn private(&self, port: u16) -> Request<Full<Bytes>> {
        let mut request = self.request(port, "/");
        request.headers_mut().insert("cookie", "a=1".parse().unwrap());
        request
    }

    /// Starts a request that the origin answers when it is told to; returns the number of its connection.
    pub(crate) async fn held(
        &mut self,
        client: &OriginClient,
        owner: ConnectionOwner,
        port: u16,
    ) -> (usize, JoinHandle<String>) {
        let held = spawn(client, owner, self.request(port, "/hold"));
        (self.arrival().await, held)
    }

    /// Waits for a held request, or a handshake that is not answered.
    pub(crate) async fn arrival(&mut self) -> usize {
        timeout(MISSING, self.arrived.recv())
            .await
            .expect("a request arrives")
            .unwrap()
    }

    /// Waits for the end of a connection.
    pub(crate) async fn end(&mut self) -> usize {
        timeout(MISSING, self.ended.recv())
            .await
            .expect("a connection ends")
            .unwrap()
    }

    /// The connections that have ended since the last call.
    pub(crate) fn ends(&mut self) -> Vec<usize> {
        std::iter::from_fn(|| self.ended.try_recv().ok()).collect()
    }

    /// Answers held requests.
    pub(crate) fn release(&self, number: usize) {
        self.hold.add_permits(number);
    }

    /// Closes a connection, and waits for its end.
    pub(crate) async fn close(&mut self, number: usize) {
        self.closed.send(Some(number)).unwrap();
        assert_eq!(self.end().await, number);
    }
}

impl Shared {
    async fn serve(self, number: usize, stream: TcpStream) {
        if number >= self.silent_from {
            let _ = self.arrived.send(number);
            return std::future::pending().await;
        }
        let ended = self.ended.clone();
        match &self.acceptor {
            None => self.answer(number, TokioIo::new(stream)).await,
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    self.answer(number, TokioIo::new(stream)).await;
                }
            }
        }
        let _ = ended.send(number);
    }

    async fn answer<S>(&self, number: usize, stream: S)
    where
        S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
    {
        let service = service_fn(|request: Request<Incoming>| {
            let (hold, arrived) = (Arc::clone(&self.hold), self.arrived.clone());
            async move {
                if request.uri().path() == "/hold" {
                    let _ = arrived.send(number);
                    hold.acquire().await.unwrap().forget();
                }
                let mut response = Response::new(Full::<Bytes>::from(number.to_string()));
                if request.uri().path() == "/misdirected" && number == 0 {
                    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
                }
                Ok::<_, Infallible>(response)
            }
        });
        let builder = auto::Builder::new(TokioExecutor::new());
        let mut closed = self.closed.clone();
        tokio::select! {
            _ = builder.serve_connection(stream, service) => {}
            _ = closed.wait_for(|closed| *closed == Some(number)) => {}
        }
    }
}

/// Sends a request; returns the number of its connection.
pub(crate) async fn ask(
    client: &OriginClient,
    owner: ConnectionOwner,
    request: Request<Full<Bytes>>,
) -> String {
    let answered = async { text(client.fetch(request, owner).await.unwrap()).await.unwrap() };
    timeout(MISSING, answered).await.expect("an answer")
}

/// The same in a task.
pub(crate) fn spawn(
    client: &OriginClient,
    owner: ConnectionOwner,
    request: Request<Full<Bytes>>,
) -> JoinHandle<String> {
    let client = client.clone();
    tokio::spawn(async move { ask(&client, owner, request).await })
}

//! Origins: a real HTTP server, and a server that runs a script on each connection.
use std::{collections::BTreeMap, net::SocketAddr, pin::Pin, sync::Arc};

use parking_lot::Mutex;

use http::{HeaderMap, Request, Response, Version, header};
use http_body_util::Full;
use hyper::{body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use longhaul_loader::model::{ModelOptions, Route};
use longhaul_replay::{page::client_trust, tls::TestAuthority};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use crate::nameserver::NameServer;

/// A request as received by an origin.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) connection: usize,
    pub(crate) version: Version,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
}

type Answer = Arc<dyn Fn(&Request<Incoming>) -> Response<Bytes> + Send + Sync>;

/// A real HTTP/1 server for all names.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    pub(crate) names: NameServer,
    seen: Log,
    pub(crate) trust: Arc<ClientConfig>,
}

impl Origin {
    /// Answers over http with `answer`.
    pub(crate) async fn start(
        answer: impl Fn(&Request<Incoming>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Arc::new(answer), Side::Http).await
    }

    /// Answers over https.
    pub(crate) async fn start_https(
        answer: impl Fn(&Request<Incoming>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Arc::new(answer), Side::Https).await
    }

    /// Answers as a proxy that acts as every origin: http in absolute form, https in tunnels.
    pub(crate) async fn start_proxy(
        answer: impl Fn(&Request<Incoming>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::serve(Arc::new(answer), Side::Proxy).await
    }

    async fn serve(answer: Answer, side: Side) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Log::default();
        let authority = TestAuthority::new().unwrap();
        let trust = client_trust(&[authority.certificate().clone()]).unwrap();
        let acceptor = TlsAcceptor::from(authority.server().unwrap());
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            let mut connection = 0;
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let stream = Box::new(stream);
                let (answer, log, acceptor) = (Arc::clone(&answer), Arc::clone(&log), acceptor.clone());
                match side {
                    Side::Http => drop(tokio::spawn(talk(stream, connection, answer, log, None))),
                    Side::Https => drop(tokio::spawn(talk_tls(stream, acceptor, connection, answer, log))),
                    Side::Proxy => drop(tokio::spawn(talk(
                        stream,
                        connection,
                        answer,
                        log,
                        Some(acceptor),
                    ))),
                }
                connection += 1;
            }
        });
        Self {
            address,
            names: NameServer::start().await,
            seen,
            trust,
        }
    }

    /// Returns options for loading from this origin directly.
    pub(crate) fn options(&self) -> ModelOptions {
        let route = Route::Direct {
            resolver: self.names.address,
        };
        ModelOptions::new(route, Arc::clone(&self.trust))
    }

    /// Returns a URL of this origin under some name.
    pub(crate) fn url(&self, rest: &str) -> url::Url {
        let (scheme, rest) = rest.split_once("://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        format!("{scheme}://{host}:{}/{path}", self.address.port())
            .parse()
            .unwrap()
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().clone()
    }

    /// The requested paths so far.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.path).collect()
    }
}

#[derive(Clone, Copy)]
enum Side {
    Http,
    Https,
    Proxy,
}

type Log = Arc<Mutex<Vec<Seen>>>;

trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

/// Boxed, because the type is recursive: a tunnel contains the same kind of connection.
fn talk_tls(
    stream: Box<dyn Duplex>,
    acceptor: TlsAcceptor,
    connection: usize,
    answer: Answer,
    log: Log,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        if let Ok(stream) = acceptor.accept(stream).await {
            talk(Box::new(stream), connection, answer, log, None).await;
        }
    })
}

async fn talk(
    stream: Box<dyn Duplex>,
    connection: usize,
    answer: Answer,
    log: Log,
    tunnels: Option<TlsAcceptor>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let tunnel = tunnels
            .clone()
            .filter(|_| request.method() == http::Method::CONNECT);
        let response = if let Some(acceptor) = tunnel {
            let (answer, log) = (Arc::clone(&answer), Arc::clone(&log));
            tokio::spawn(async move {
                let stream = TokioIo::new(hyper::upgrade::on(request).await.unwrap());
                talk_tls(Box::new(stream), acceptor, connection, answer, log).await;
            });
            Response::default()
        } else {
            log.lock().push(Seen {
                connection,
                version: request.version(),
                path: request.uri().to_string(),
                headers: request.headers().clone(),
            });
            answer(&request)
        };
        async move { Ok::<_, std::convert::Infallible>(response.map(Full::new)) }
    });
    // The browser may close connections at any time.
    let serving = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let _ = serving.with_upgrades().await;
}

/// Returns a response with this media type.
pub(crate) fn typed(media_type: &str, body: impl Into<Bytes>) -> Response<Bytes> {
    Response::builder()
        .header(header::CONTENT_TYPE, media_type)
        .body(body.into())
        .unwrap()
}

pub(crate) fn status(status: u16) -> Response<Bytes> {
    Response::builder().status(status).body(Bytes::new()).unwrap()
}

pub(crate) fn redirect(to: &str) -> Response<Bytes> {
    let response = Response::builder().status(302).header(header::LOCATION, to);
    response.body(Bytes::from_static(b"moved")).unwrap()
}

/// Runs `script` on every connection, with its number.
pub(crate) async fn scripted<F: Future<Output = ()> + Send + 'static>(
    script: impl Fn(usize, Scripted) -> F + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for connection in 0.. {
            let Ok((stream, _)) = listener.accept().await else {
                return;
            };
            stream.set_nodelay(true).unwrap();
            tokio::spawn(script(connection, Scripted(BufReader::new(stream))));
        }
    });
    address
}

/// One connection of a scripted server.
pub(crate) struct Scripted(pub(crate) BufReader<TcpStream>);

impl Scripted {
    /// Returns the target of the next request; `None` if the browser has closed the connection.
    pub(crate) async fn request(&mut self) -> Option<String> {
        let mut target = None;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if line.is_empty() {
                return target;
            }
            target.get_or_insert_with(|| line.split(' ').nth(1).unwrap().to_owned());
        }
    }

    /// Sends bytes unchanged.
    pub(crate) async fn send(&mut self, bytes: &str) {
        let _ = self.0.get_mut().write_all(bytes.as_bytes()).await;
    }

    /// Sends a response that leaves the connection open.
    pub(crate) async fn answer(&mut self, body: &str) {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.send(&(head + body)).await;
    }
}

/// Returns the outcomes by path, for comparison.
pub(crate) fn outcomes(load: &longhaul_loader::PageLoad) -> BTreeMap<String, String> {
    let objects = load.objects.iter();
    objects
        .map(|object| (object.url.path().to_owned(), format!("{:?}", object.outcome)))
        .collect()
}

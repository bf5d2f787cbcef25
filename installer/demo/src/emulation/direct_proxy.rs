//! The HTTP proxy whose connections to origins cross the emulated hop without Longhaul.
use std::{
    collections::BTreeMap,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use parking_lot::Mutex;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{Either, Full};
use hyper::{
    body::Incoming, client::conn::http1 as client, server::conn::http1 as server, service::service_fn,
};
use hyper_util::rt::TokioIo;
use longhaul_netem::HopConfig;
use longhaul_replay::serve_connections;
use tokio::{
    io::{DuplexStream, copy_bidirectional, duplex},
    net::{TcpListener, TcpStream},
    sync::OnceCell,
    task::JoinSet,
};

use super::{Names, streams::DirectHop};

/// Maximum number of browser connections.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of stored names; a page has up to about 100 hosts.
const MAX_NAMES: usize = 4096;
/// Maximum number of header lines.
const MAX_HEADERS: usize = 512;
/// Buffer between HTTP and the hop: below the queues of the link, which should be the only ones.
const BUFFER: usize = 16 * 1024;
/// Bytes of a name lookup without headers: a query for a host such as `www.example.org`, and an answer with an
/// address (RFC 1035 section 4.1).
const LOOKUP: (usize, usize) = (33, 49);
/// Bytes of a TCP handshake's two packets without headers.
const CONNECT: (usize, usize) = (0, 0);
/// Fields that concern one connection (RFC 9110 section 7.6.1), and those of proxies.
const HOP_BY_HOP: [&str; 7] = [
    "connection",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
];

type Body = Either<Incoming, Full<Bytes>>;
type Sender = client::SendRequest<Incoming>;

/// A running proxy; it ends when dropped.
#[derive(Debug)]
pub(crate) struct DirectProxy {
    address: SocketAddr,
    network: Arc<Network>,
    _accept: JoinSet<()>,
}

/// The web, as seen from the near end of the hop.
#[derive(Debug)]
struct Network {
    hop: DirectHop,
    names: Names,
    known: Mutex<BTreeMap<String, Arc<OnceCell<()>>>>,
    connections: Mutex<JoinSet<()>>,
}

impl DirectProxy {
    /// Starts a proxy on a port of the loopback interface.
    ///
    /// # Errors
    /// No port is available.
    pub(crate) async fn start(config: HopConfig, names: Names) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let network = Arc::new(Network {
            hop: DirectHop::start(config),
            names,
            known: Mutex::default(),
            connections: Mutex::default(),
        });
        let mut accept = JoinSet::new();
        accept.spawn(serve(listener, Arc::clone(&network)));
        Ok(Self {
            address,
            network,
            _accept: accept,
        })
    }

    /// Address of the proxy.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bytes that origins have sent over the hop, without headers of TCP and IP.
    pub(crate) fn received(&self) -> u64 {
        self.network.hop.received()
    }

    /// Closes all connections to origins and forgets their names, as if the browser had just been started.
    pub(crate) fn restart(&self) {
        self.network.known.lock().clear();
        self.network.connections.lock().abort_all();
    }
}

async fn serve(listener: TcpListener, network: Arc<Network>) {
    serve_connections(listener, MAX_CONNECTIONS, |stream| {
        let _ = stream.set_nodelay(true);
        let network = Arc::clone(&network);
        async move {
            let origins = Arc::default();
            let service = service_fn(move |request| {
                let (network, origins) = (Arc::clone(&network), Arc::clone(&origins));
                async move { Ok::<_, Infallible>(answer(request, &network, &origins).await) }
            });
            let connection = server::Builder::new()
                .max_headers(MAX_HEADERS)
                .timer(hyper_util::rt::TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service)
                .with_upgrades();
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the direct proxy failed");
            }
        }
    })
    .await;
}

/// Idle connections to origins, by `HOST:PORT`. They belong to one connection of the browser, which has one request
/// at a time.
type Origins = Mutex<BTreeMap<String, Sender>>;

async fn answer(request: Request<Incoming>, network: &Arc<Network>, origins: &Origins) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        tunnel(request, network).await
    } else {
        forward(request, network, origins).await
    };
    answered.unwrap_or_else(|(status, reason)| {
        let mut response = Response::new(Either::Right(Full::from(reason)));
        *response.status_mut() = status;
        response
    })
}

async fn tunnel(
    request: Request<Incoming>,
    network: &Arc<Network>,
) -> Result<Response<Body>, (StatusCode, String)> {
    let target = request
        .uri()
        .authority()
        .and_then(|target| Some((target.host(), target.port_u16()?)));
    let (host, port) =
        target.ok_or_else(|| (StatusCode::BAD_REQUEST, "CONNECT needs HOST:PORT\n".to_owned()))?;
    let mut origin = network
        .connect(host, port)
        .await
        .map_err(|error| unreachable(host, &error))?;
    tokio::spawn(async move {
        if let Ok(browser) = hyper::upgrade::on(request).await {
            let _ = copy_bidirectional(&mut TokioIo::new(browser), &mut origin).await;
        }
    });
    Ok(Response::new(Either::Right(Full::default())))
}

async fn forward(
    mut request: Request<Incoming>,
    network: &Arc<Network>,
    origins: &Origins,
) -> Result<Response<Body>, (StatusCode, String)> {
    let uri = request.uri().clone();
    let (Some("http"), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        let reason = "this is an HTTP proxy: set it as such, and request http://HOST/PATH\n";
        return Err((StatusCode::BAD_REQUEST, reason.to_owned()));
    };
    let (host, port) = (authority.host(), authority.port_u16().unwrap_or(80));
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    *request.uri_mut() = target
        .parse()
        .map_err(|_| (StatusCode::BAD_REQUEST, "no valid path\n".to_owned()))?;
    remove_hop_by_hop(request.headers_mut());
    if let Ok(host) = authority.as_str().parse() {
        request.headers_mut().insert(header::HOST, host);
    }
    let key = format!("{host}:{port}");
    let kept = origins.lock().remove(&key).filter(Sender::is_ready);
    let mut sender = match kept {
        Some(sender) => sender,
        None => open(network, host, port)
            .await
            .map_err(|error| unreachable(host, &error))?,
    };
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| unreachable(host, &error))?;
    let (mut head, body) = response.into_parts();
    remove_hop_by_hop(&mut head.headers);
    origins.lock().insert(key, sender);
    Ok(Response::from_parts(head, Either::Left(body)))
}

fn unreachable(host: &str, error: &dyn std::error::Error) -> (StatusCode, String) {
    (
        StatusCode::BAD_GATEWAY,
        format!("{host} cannot be reached directly: {error}\n"),
    )
}

async fn open(network: &Arc<Network>, host: &str, port: u16) -> io::Result<Sender> {
    let stream = network.connect(host, port).await?;
    let (sender, connection) = client::Builder::new()
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

impl Network {
    /// Opens a connection as a browser would: a round trip for a new name, and one for the TCP handshake.
    async fn connect(&self, host: &str, port: u16) -> io::Result<DuplexStream> {
        self.look_up(host).await?;
        let address = self.names.resolve(host, port).await?;
        self.hop.round_trip(CONNECT.0, CONNECT.1).await?;
        let origin = TcpStream::connect(address).await?;
        let _ = origin.set_nodelay(true);
        let (near, far) = duplex(BUFFER);
        let mut connections = self.connections.lock();
        while connections.try_join_next().is_some() {}
        let carried = self.hop.carry(far, origin);
        connections.spawn(async move {
            let _broken = carried.await;
        });
        Ok(near)
    }

    /// Costs the round trip of a name lookup, once for each name; addresses need none.
    async fn look_up(&self, host: &str) -> io::Result<()> {
        let literal = host.trim_start_matches('[').trim_end_matches(']');
        if literal.parse::<std::net::IpAddr>().is_ok() {
            return Ok(());
        }
        let cell = {
            let mut known = self.known.lock();
            if known.len() >= MAX_NAMES {
                known.clear();
            }
            Arc::clone(known.entry(host.to_owned()).or_default())
        };
        cell.get_or_try_init(|| self.hop.round_trip(LOOKUP.0, LOOKUP.1))
            .await
            .copied()
    }
}

#[cfg(test)]
mod tests;

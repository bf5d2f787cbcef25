//! CONNECT: a tunnel of raw bytes to a host, multiplexed in the session.
//!
//! If a tunnel to the host worked recently, the browser gets its 200 at once and its first bytes (a
//! ClientHello) travel with `TunnelOpen`. For other hosts the 200 is sent only after the gateway has
//! connected, so that a failure can still be answered with an error page.
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use longhaul_driver::{End, Priority, SendStream};
use longhaul_http::target;
use longhaul_session::TunnelSecurity;
use longhaul_types::Pii;
use tokio::{
    io::{
        AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, copy_bidirectional, duplex,
        split,
    },
    time::{Instant, timeout},
};
use tracing::debug;

use crate::{
    counters::Counters,
    direct,
    fallback::FallbackClock,
    gateway::{Arrival, Exchange, GatewaySession, HopError, Need, ResponseStream, Timing},
    https,
    listener::ConnectionScope,
    pages::{BadRequest, Failure},
    request::{Context, ProxyBody, page_response},
};

/// Wait for the browser's first bytes before `TunnelOpen` is sent without them: in protocols where the server
/// sends first there are none.
const FIRST_BYTES: Duration = Duration::from_millis(50);
/// Lifetime of a tunnel after one direction has ended.
const HALF_CLOSED: Duration = Duration::from_secs(300);
/// Size of a read: one TLS record.
const BUFFER: usize = 16 * 1024;

/// Answers a CONNECT request with a response without body, and starts the tunnel.
pub(crate) async fn connect(
    context: &Arc<Context>,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    context.counters.requests.one();
    let (host, port) = match target::authority(request.uri()) {
        Ok(host_and_port) => host_and_port,
        Err(error) => return refuse(context, &Failure::Request(BadRequest::Target(error))),
    };
    let browser = hyper::upgrade::on(request);
    if context.https.accelerates(&host) {
        tokio::spawn(https::serve(
            Arc::clone(context),
            Arc::clone(scope),
            host,
            port,
            browser,
        ));
        return Response::new(ProxyBody::empty());
    }
    if context.working_hosts.contains(&host, port)
        && let Some((hop, Timing::Open)) = context.gateway.usable_now(Need::Open)
    {
        tokio::spawn(
            Optimistic {
                context: Arc::clone(context),
                scope: Arc::clone(scope),
                hop,
                host,
                port,
            }
            .run(browser),
        );
        return established(context);
    }
    let way = match open(context, &host, port, TunnelSecurity::Untouched).await {
        Ok(way) => way,
        Err(failure) => return refuse(context, &failure),
    };
    let (context_of_task, scope) = (Arc::clone(context), Arc::clone(scope));
    tokio::spawn(async move {
        let Ok(browser) = browser.await else {
            return;
        };
        scope.becomes_tunnel(false);
        let ended = match way {
            Way::Gateway(up, down) => relay(TokioIo::new(browser), up, down, &context_of_task.counters).await,
            Way::Direct(host) => relay_direct(TokioIo::new(browser), host, &context_of_task.counters).await,
        };
        debug!(?ended, "tunnel ended");
    });
    established(context)
}

/// Relays a connection whose browser already has its 200 and has sent the bytes `first`.
pub(crate) async fn carry<B>(
    context: &Arc<Context>,
    scope: &ConnectionScope,
    (host, port): (&str, u16),
    browser: B,
    first: Bytes,
) where
    B: AsyncRead + AsyncWrite + Unpin,
{
    scope.becomes_tunnel(!first.is_empty());
    context.counters.tunnels.one();
    let ended = match open(context, host, port, TunnelSecurity::Untouched).await {
        Ok(Way::Gateway(mut up, down)) => {
            context.counters.tunnel_bytes.add(first.len() as u64);
            match up.write(first).await {
                Ok(()) => relay(browser, up, down, &context.counters).await,
                Err(error) => Err(io::Error::other(error)),
            }
        }
        Ok(Way::Direct(mut stream)) => match stream.write_all(&first).await {
            Ok(()) => relay_direct(browser, stream, &context.counters).await,
            Err(error) => Err(error),
        },
        // Dropping `browser` closes its connection.
        Err(failure) => {
            context.counters.failures.one();
            debug!(?failure, "a tunnel failed");
            return;
        }
    };
    debug!(?ended, "tunnel ended");
}

fn established(context: &Context) -> Response<ProxyBody> {
    context.counters.tunnels.one();
    Response::new(ProxyBody::empty())
}

fn refuse(context: &Context, failure: &Failure) -> Response<ProxyBody> {
    context.counters.failures.one();
    debug!(?failure, "tunnel refused");
    page_response(&failure.page())
}

enum Way {
    Gateway(SendStream, ResponseStream),
    Direct(Box<dyn HostStream>),
}

/// A direct connection to a host, without the gateway.
trait HostStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> HostStream for S {}

/// Opens a tunnel in which the gateway terminates TLS towards the host, and returns it as one stream.
pub(crate) async fn secure(
    context: &Arc<Context>,
    host: &str,
    port: u16,
) -> Result<impl AsyncRead + AsyncWrite + Send + Unpin + use<>, Failure> {
    let way = open(context, host, port, TunnelSecurity::Tls).await?;
    context.counters.tunnels.one();
    let (near, far) = duplex(BUFFER);
    let counters = Arc::clone(&context.counters);
    tokio::spawn(async move {
        let ended = match way {
            Way::Gateway(up, down) => relay(far, up, down, &counters).await,
            Way::Direct(host) => relay_direct(far, host, &counters).await,
        };
        debug!(?ended, "tunnel ended");
    });
    Ok(near)
}

/// Opens the tunnel up to the host's TCP connection. This has no effect at the host and may be repeated.
async fn open(
    context: &Arc<Context>,
    host: &str,
    port: u16,
    security: TunnelSecurity,
) -> Result<Way, Failure> {
    let _demand = context.gateway.demand();
    let mut clock = FallbackClock::start(context.gateway.clone(), context.fallback);
    loop {
        tokio::select! {
            biased;
            (hop, _) = context.gateway.usable(Need::Open) => {
                if let Some(way) = open_in(context, &hop, &mut clock, (host, port, security)).await? {
                    return Ok(way);
                }
            }
            () = clock.due() => match open_direct(context, host, port, security).await {
                Ok(way) => return Ok(way),
                Err(error) if direct::is_offline(&error) => clock.failed(error),
                Err(error) => return Err(Failure::Direct(error)),
            },
            failure = clock.hopeless() => return Err(failure),
        }
    }
}

async fn open_direct(
    context: &Context,
    host: &str,
    port: u16,
    security: TunnelSecurity,
) -> Result<Way, longhaul_origin::FetchError> {
    debug!(host = ?Pii(host), "no gateway answers; the tunnel goes around it");
    let owner = longhaul_origin::ConnectionOwner::Local;
    let stream: Box<dyn HostStream> = match security {
        TunnelSecurity::Untouched => Box::new(context.direct.connect_tcp(host, port, owner).await?.stream),
        TunnelSecurity::Tls => Box::new(context.direct.connect_tls(host, port, owner).await?.stream),
    };
    context.counters.direct_requests.one();
    Ok(Way::Direct(stream))
}

/// Opens the tunnel in one session; returns `None` if the session is lost.
async fn open_in(
    context: &Arc<Context>,
    hop: &Arc<GatewaySession>,
    clock: &mut FallbackClock,
    (host, port, security): (&str, u16, TunnelSecurity),
) -> Result<Option<Way>, Failure> {
    let Some((mut exchange, up)) = send_open(hop, host, port, security, &[]).await? else {
        return Ok(None);
    };
    loop {
        tokio::select! {
            biased;
            arrival = exchange.arrival() => {
                let Ok(arrival) = arrival else {
                    return Ok(None);
                };
                let down = accepted(arrival)?;
                context.working_hosts.record(host, port);
                return Ok(Some(Way::Gateway(up, down)));
            }
            () = clock.due() => match open_direct(context, host, port, security).await {
                Ok(way) => return Ok(Some(way)),
                Err(error) if direct::is_offline(&error) => clock.failed(error),
                Err(error) => return Err(Failure::Direct(error)),
            },
        }
    }
}

/// Sends `TunnelOpen` with the browser's first bytes; returns `None` if the session is lost.
async fn send_open(
    hop: &Arc<GatewaySession>,
    host: &str,
    port: u16,
    security: TunnelSecurity,
    first: &[u8],
) -> Result<Option<(Exchange, SendStream)>, Failure> {
    let sent = async {
        let (exchange, mut wire) = hop.code_tunnel(host, port, security)?;
        wire.extend_from_slice(first);
        let up = hop
            .open(Priority::NORMAL, Timing::Open, wire.into(), End::Open)
            .await?;
        Ok((exchange, up))
    };
    match sent.await {
        Ok(sent) => Ok(Some(sent)),
        Err(HopError::Lost(_)) => Ok(None),
        Err(HopError::HeaderTooLarge) => Err(Failure::Request(BadRequest::TargetTooLong)),
        Err(HopError::Busy) => Err(Failure::Request(BadRequest::Overloaded)),
    }
}

fn accepted(arrival: Arrival) -> Result<ResponseStream, Failure> {
    match arrival {
        Arrival::Tunnel(down) => Ok(down),
        Arrival::Failed { reason, detail } => Err(Failure::Gateway { reason, detail }),
        Arrival::Head { .. } | Arrival::Promised { .. } | Arrival::Malformed => Err(Failure::Gateway {
            reason: longhaul_session::FailureReason::Malformed,
            detail: "the gateway's answer to a tunnel makes no sense".to_owned(),
        }),
    }
}

/// A tunnel whose browser already has its 200.
struct Optimistic {
    context: Arc<Context>,
    scope: Arc<ConnectionScope>,
    hop: Arc<GatewaySession>,
    host: String,
    port: u16,
}

impl Optimistic {
    async fn run(self, browser: hyper::upgrade::OnUpgrade) {
        let Ok(browser) = browser.await else {
            return;
        };
        let mut browser = TokioIo::new(browser);
        let mut first = BytesMut::with_capacity(BUFFER);
        if let Ok(Ok(0) | Err(_)) = timeout(FIRST_BYTES, browser.read_buf(&mut first)).await {
            return;
        }
        self.scope.becomes_tunnel(!first.is_empty());
        let opened = match send_open(
            &self.hop,
            &self.host,
            self.port,
            TunnelSecurity::Untouched,
            &first,
        )
        .await
        {
            Ok(Some((mut exchange, up))) => match exchange.arrival().await {
                Ok(arrival) => accepted(arrival).map(|down| Some((up, down))),
                Err(_) => Ok(None),
            },
            Ok(None) => Ok(None),
            Err(failure) => Err(failure),
        };
        self.context.counters.tunnel_bytes.add(first.len() as u64);
        match opened {
            Ok(Some((up, down))) => {
                self.context.working_hosts.record(&self.host, self.port);
                let ended = relay(browser, up, down, &self.context.counters).await;
                debug!(?ended, "tunnel ended");
            }
            // Dropping `browser` closes its connection; the next attempt gets an error page.
            failure => {
                debug!(?failure, "a tunnel to a host that worked lately failed");
                self.context.counters.failures.one();
                self.context.working_hosts.forget(&self.host, self.port);
            }
        }
    }
}

/// Relays bytes in both directions until both have ended. An error in one direction ends both.
async fn relay<B: AsyncRead + AsyncWrite>(
    browser: B,
    up: SendStream,
    down: ResponseStream,
    counters: &Counters,
) -> io::Result<()> {
    let (reader, writer) = split(browser);
    let up = relay_up(reader, up, counters);
    let down = relay_down(down, writer, counters);
    tokio::pin!(up, down);
    let rest = tokio::select! {
        ended = &mut up => {
            ended?;
            timeout(HALF_CLOSED, down).await
        }
        ended = &mut down => {
            ended?;
            timeout(HALF_CLOSED, up).await
        }
    };
    rest.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

async fn relay_up<B: AsyncRead + AsyncWrite>(
    mut browser: ReadHalf<B>,
    mut up: SendStream,
    counters: &Counters,
) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(BUFFER);
        if browser.read_buf(&mut buffer).await? == 0 {
            return up.finish().await.map_err(io::Error::other);
        }
        let bytes = buffer.split().freeze();
        counters.tunnel_bytes.add(bytes.len() as u64);
        up.write(bytes).await.map_err(io::Error::other)?;
    }
}

async fn relay_down<B: AsyncRead + AsyncWrite>(
    mut down: ResponseStream,
    mut browser: WriteHalf<B>,
    counters: &Counters,
) -> io::Result<()> {
    while let Some(bytes) = down.read().await.map_err(io::Error::other)? {
        let bytes: Bytes = bytes;
        counters.tunnel_bytes.add(bytes.len() as u64);
        browser.write_all(&bytes).await?;
    }
    browser.shutdown().await
}

async fn relay_direct<B: AsyncRead + AsyncWrite + Unpin>(
    mut browser: B,
    mut host: Box<dyn HostStream>,
    counters: &Counters,
) -> io::Result<()> {
    let (up, down) = copy_bidirectional(&mut browser, &mut host).await?;
    counters.tunnel_bytes.add(up + down);
    Ok(())
}

/// The hosts to which a tunnel was opened recently.
#[derive(Debug, Default)]
pub struct WorkingHosts(Mutex<BTreeMap<(String, u16), Instant>>);

impl WorkingHosts {
    /// Maximum number of hosts: several browsing sessions' worth, less than 100 KiB.
    const MAX: usize = 1024;
    /// Time for which a host counts as working.
    const LATELY: Duration = Duration::from_secs(600);

    fn record(&self, host: &str, port: u16) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= Self::MAX {
            hosts.retain(|_, since| since.elapsed() < Self::LATELY);
        }
        if hosts.len() >= Self::MAX {
            hosts.clear();
        }
        hosts.insert((host.to_owned(), port), Instant::now());
    }

    fn forget(&self, host: &str, port: u16) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&(host.to_owned(), port));
    }

    fn contains(&self, host: &str, port: u16) -> bool {
        let hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        hosts
            .get(&(host.to_owned(), port))
            .is_some_and(|since| since.elapsed() < Self::LATELY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_hosts_are_bounded_and_can_be_forgotten() {
        let hosts = WorkingHosts::default();
        for port in 1..=2000 {
            hosts.record("a.test", port);
        }
        assert!(hosts.contains("a.test", 2000));
        assert!(!hosts.contains("b.test", 2000));
        assert!(hosts.0.lock().unwrap().len() <= WorkingHosts::MAX);
        hosts.forget("a.test", 2000);
        assert!(!hosts.contains("a.test", 2000));
    }
}

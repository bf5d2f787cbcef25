//! TCP connections to hosts: name resolution, address guard, Happy Eyeballs.
#[cfg(test)]
mod tests;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::HeaderValue;
use longhaul_proxy::HttpProxy;
use longhaul_types::Pii;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;

use crate::{
    address_class::class_of, config::OriginConfig, dns::DnsResolver, error::FetchError, guard::Destination,
    nat64_discovery::Nat64Prefixes, own_addresses::CurrentGuard, owner::ConnectionOwner, resolve::ResolveMap,
    stats::OriginStats, target::Host,
};

/// Delay between attempts to connect to the addresses of a host (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Interval of TCP keep-alive probes, as in Chromium: address translators forget silent connections after some minutes,
/// and a silent origin may be gone.
const KEEP_ALIVE: Duration = Duration::from_secs(45);

/// A connection leads to a proxy, which forwards requests that name their host in absolute form (RFC 9112 section
/// 3.2.2).
#[derive(Clone, Debug)]
pub(crate) struct Forwarding {
    /// Value of `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Forwarding {
    fn by(proxy: &HttpProxy) -> Self {
        let value = proxy
            .authorization()
            .and_then(|text| HeaderValue::try_from(text).ok());
        Self {
            authorization: value.map(|mut value| {
                value.set_sensitive(true);
                value
            }),
        }
    }
}

/// Opens TCP connections to hosts.
pub(crate) struct Dialer {
    dns: Arc<DnsResolver>,
    guard: CurrentGuard,
    nat64: Option<Nat64Prefixes>,
    resolve: ResolveMap,
    proxy: Option<HttpProxy>,
    timeout: Duration,
    stats: Arc<OriginStats>,
}

impl Dialer {
    pub(crate) fn new(config: &OriginConfig, dns: Arc<DnsResolver>, stats: Arc<OriginStats>) -> Self {
        Self {
            dns,
            guard: CurrentGuard::new(config.guard.clone(), config.own_addresses.clone()),
            nat64: config.looks_through_nat64.then(Nat64Prefixes::new),
            resolve: config.resolve.clone(),
            proxy: config.proxy.clone(),
            timeout: config.timeouts.connect,
            stats,
        }
    }

    /// Connects to the first address of the host that answers, or through the proxy.
    pub(crate) async fn dial(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TcpStream, FetchError> {
        match self.proxy_for(host, port)? {
            Some(proxy) => self.opened(proxy.tunnel(&plain(host), port).await?),
            None => self.dial_directly(host, port, owner).await,
        }
    }

    /// Connects for plain HTTP. Proxies forward such requests; many permit CONNECT only to port 443.
    pub(crate) async fn dial_http(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<(TcpStream, Option<Forwarding>), FetchError> {
        match self.proxy_for(host, port)? {
            Some(proxy) => {
                let stream = self.opened(proxy.connect().await?)?;
                Ok((stream, Some(Forwarding::by(proxy))))
            }
            None => Ok((self.dial_directly(host, port, owner).await?, None)),
        }
    }

    /// The proxy, if it leads to this host. Addresses outside the public Internet are those of this network, where the
    /// proxy may not be, and names from the table are meant for this computer.
    fn proxy_for(&self, host: &Host, port: u16) -> Result<Option<&HttpProxy>, FetchError> {
        let Some(proxy) = &self.proxy else {
            return Ok(None);
        };
        if self.resolve.lookup(host, port).is_some() || host.is_localhost() {
            return Ok(None);
        }
        if let Host::Address(address) = host {
            if class_of(*address).is_some() {
                return Ok(None);
            }
            self.guard.known().check_destination(Destination {
                address: *address,
                port,
                is_literal: true,
            })?;
        }
        Ok(proxy.covers(&plain(host), port).then_some(proxy))
    }

    async fn dial_directly(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TcpStream, FetchError> {
        let addresses = self.addresses(host, port, owner).await?;
        let stream = timeout(self.timeout, connect_any(addresses))
            .await
            .unwrap_or(Err(FetchError::ConnectTimeout))?;
        self.opened(stream)
    }

    fn opened(&self, stream: TcpStream) -> Result<TcpStream, FetchError> {
        self.stats.connection_opened();
        let keep_alive = TcpKeepalive::new()
            .with_time(KEEP_ALIVE)
            .with_interval(KEEP_ALIVE);
        stream
            .set_nodelay(true)
            .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keep_alive))
            .map_err(|error| connect_failure(&error))?;
        Ok(stream)
    }

    /// Returns the permitted addresses of a host in the order of the attempts; never empty.
    pub(crate) async fn addresses(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        if let Some(entry) = self.resolve.lookup(host, port) {
            return Ok(vec![SocketAddr::new(entry.address, entry.port.unwrap_or(port))]);
        }
        let found = match host {
            Host::Address(address) => vec![*address],
            Host::Name(_) if host.is_localhost() => {
                vec![Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()]
            }
            Host::Name(name) => self.dns.lookup(name, owner).await?,
        };
        let guard = self.guard.current().await;
        let prefixes = match &self.nat64 {
            Some(known) if found.iter().any(IpAddr::is_ipv6) => known.current(&self.dns, owner).await,
            Some(_) | None => Arc::default(),
        };
        let mut permitted = Vec::with_capacity(found.len());
        let mut refusal = None;
        for address in found {
            let destination = Destination {
                address,
                port,
                is_literal: matches!(host, Host::Address(_)),
            };
            let checked = guard.check_destination(destination);
            match checked.and_then(|()| guard.check_translated(address, &prefixes)) {
                Ok(()) => permitted.push(address),
                Err(refused) => refusal = refusal.or(Some(refused)),
            }
        }
        if let (Some(refusal), true) = (refusal, permitted.is_empty()) {
            debug!(host = ?Pii(host), class = %refusal.class, "refused by the guard");
            return Err(FetchError::GuardRefused(refusal));
        }
        Ok(interleaved(&permitted)
            .into_iter()
            .map(|address| SocketAddr::new(address, port))
            .collect())
    }
}

/// A host without the brackets of an IPv6 address.
fn plain(host: &Host) -> String {
    match host {
        Host::Address(address) => address.to_string(),
        Host::Name(name) => name.to_string(),
    }
}

/// Interleaves IPv6 and IPv4 addresses, IPv6 first, each family in its given order (RFC 8305 section 4,
/// without history).
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut v6 = addresses.iter().filter(|address| address.is_ipv6());
    let mut v4 = addresses.iter().filter(|address| address.is_ipv4());
    let mut order = Vec::with_capacity(addresses.len());
    loop {
        let pair = [v6.next(), v4.next()];
        if pair == [None, None] {
            return order;
        }
        order.extend(pair.into_iter().flatten());
    }
}

/// Happy Eyeballs (RFC 8305 section 5): starts an attempt every [`ATTEMPT_DELAY`], or at once if all others
/// have failed, and returns the first established connection. Dropping the set ends the other attempts.
async fn connect_any(addresses: Vec<SocketAddr>) -> Result<TcpStream, FetchError> {
    let mut left = addresses.into_iter();
    let mut attempts = JoinSet::new();
    let mut worst = FetchError::Unreachable;
    let mut next_start = Instant::now();
    loop {
        if attempts.is_empty() || Instant::now() >= next_start {
            match left.next() {
                Some(address) => {
                    attempts.spawn(TcpStream::connect(address));
                    next_start = Instant::now() + ATTEMPT_DELAY;
                }
                None if attempts.is_empty() => return Err(worst),
                None => {}
            }
        }
        let has_more = left.len() > 0;
        tokio::select! {
            ended = attempts.join_next() => match ended {
                Some(Ok(Ok(stream))) => return Ok(stream),
                Some(Ok(Err(error))) => {
                    worst = more_telling(worst, connect_failure(&error));
                    // After a failed attempt the next one starts at once (RFC 8305 section 5).
                    next_start = Instant::now();
                }
                Some(Err(_)) => return Err(FetchError::Cancelled),
                None => {}
            },
            () = sleep_until(next_start), if has_more => {}
        }
    }
}

/// Returns the failure of two addresses that tells more about the host.
fn more_telling(a: FetchError, b: FetchError) -> FetchError {
    let telling = [
        FetchError::ConnectTimeout,
        FetchError::Reset,
        FetchError::Refused,
        FetchError::Resources,
    ];
    let rank = |error: &FetchError| {
        telling
            .iter()
            .position(|other| other == error)
            .map_or(0, |index| index + 1)
    };
    if rank(&b) > rank(&a) { b } else { a }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum is the library's and grows; all that is not named here means the same to us"
)]
fn connect_failure(error: &io::Error) -> FetchError {
    /// Too many open files in the process or in the system: the same numbers on Linux, the BSDs and macOS.
    const EMFILE: i32 = 24;
    const ENFILE: i32 = 23;
    use io::ErrorKind;

    match error.kind() {
        ErrorKind::ConnectionRefused => FetchError::Refused,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::NotConnected => {
            FetchError::Reset
        }
        ErrorKind::TimedOut => FetchError::ConnectTimeout,
        ErrorKind::AddrNotAvailable | ErrorKind::OutOfMemory => FetchError::Resources,
        _ if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) => FetchError::Resources,
        _ => FetchError::Unreachable,
    }
}

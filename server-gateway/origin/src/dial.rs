//! TCP connections to hosts: name resolution, address guard, Happy Eyeballs.
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use longhaul_types::Pii;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout},
};
use tracing::debug;

use crate::{
    config::OriginConfig,
    dns::DnsResolver,
    error::FetchError,
    guard::{Destination, Guard},
    owner::ConnectionOwner,
    resolve::ResolveMap,
    stats::OriginStats,
    target::Host,
};

/// Delay between attempts to connect to the addresses of a host (RFC 8305 section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Maximum number of addresses tried per host.
const MAX_ATTEMPTS: usize = 8;

/// Opens TCP connections to hosts.
pub(crate) struct Dialer {
    dns: Arc<DnsResolver>,
    guard: Guard,
    resolve: ResolveMap,
    timeout: Duration,
    stats: Arc<OriginStats>,
}

impl Dialer {
    pub(crate) fn new(config: &OriginConfig, dns: Arc<DnsResolver>, stats: Arc<OriginStats>) -> Self {
        Self {
            dns,
            guard: config.guard.clone(),
            resolve: config.resolve.clone(),
            timeout: config.timeouts.connect,
            stats,
        }
    }

    /// Connects to the first address of the host that answers.
    pub(crate) async fn dial(
        &self,
        host: &Host,
        port: u16,
        owner: ConnectionOwner,
    ) -> Result<TcpStream, FetchError> {
        let addresses = self.addresses(host, port, owner).await?;
        let stream = timeout(self.timeout, connect_any(addresses))
            .await
            .unwrap_or(Err(FetchError::ConnectTimeout))?;
        self.stats.connection_opened();
        stream
            .set_nodelay(true)
            .map_err(|error| connect_failure(&error))?;
        Ok(stream)
    }

    /// Returns the permitted addresses of a host in the order of the attempts; never empty.
    async fn addresses(
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
        let mut permitted = Vec::with_capacity(found.len());
        let mut refusal = None;
        for address in found {
            let destination = Destination {
                address,
                port,
                is_literal: matches!(host, Host::Address(_)),
            };
            match self.guard.check_destination(destination) {
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

/// Interleaves IPv6 and IPv4 addresses, IPv6 first, each family in its given order (RFC 8305 section 4,
/// without history).
fn interleaved(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let mut v6 = addresses.iter().filter(|address| address.is_ipv6());
    let mut v4 = addresses.iter().filter(|address| address.is_ipv4());
    let mut order = Vec::with_capacity(addresses.len());
    loop {
        let pair = [v6.next(), v4.next()];
        if pair == [None, None] {
            order.truncate(MAX_ATTEMPTS);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn address_families_alternate() {
        let mixed = addresses(&["1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1", "2606::2"]);
        let expected = addresses(&["2606::1", "1.1.1.1", "2606::2", "1.1.1.2", "1.1.1.3"]);
        assert_eq!(interleaved(&mixed), expected);
        assert_eq!(interleaved(&[]), Vec::<IpAddr>::new());
    }

    #[test]
    fn the_more_specific_failure_is_reported() {
        assert_eq!(
            more_telling(FetchError::Unreachable, FetchError::Refused),
            FetchError::Refused
        );
        assert_eq!(
            more_telling(FetchError::Refused, FetchError::Unreachable),
            FetchError::Refused
        );
    }
}

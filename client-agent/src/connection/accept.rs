//! Opening of ports, and acceptance of connections.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use longhaul_tcp_info::peer;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};
use tracing::{debug, warn};

use super::{
    connection_limit::{ConnectionLimiter, ConnectionLimits, ConnectionPermit},
    evictable_stream::EvictableStream,
};

/// Interval of the search for connections that take too long.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after the system failed to accept a connection, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Response on a connection for which there is no permit.
const AT_LIMIT_RESPONSE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Ports below this one need a permission.
const FIRST_FREE_PORT: u16 = 1024;

/// Errors of opening a listening port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program uses the port.
    #[error(
        "{what} {address} is in use by another program, perhaps another agent: stop it, or choose another port with \
         --{flag}"
    )]
    InUse {
        /// Description of the port's purpose.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
    },
    /// The user of the agent may not open a port below 1024.
    #[error(
        "{what} {address} is closed to this user: ports below 1024 need root or CAP_NET_BIND_SERVICE, which an agent \
         should not have; choose a port above 1023 with --{flag}"
    )]
    Privileged {
        /// Description of the port's purpose.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
    },
    /// The system refuses to open the port.
    #[error("{what} {address} cannot be opened: {source}; choose another one with --{flag}")]
    Refused {
        /// Description of the port's purpose.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Opens a listening socket; errors contain `what` and `flag`.
///
/// # Errors
/// The port is in use or not allowed.
pub async fn bind(
    address: SocketAddr,
    what: &'static str,
    flag: &'static str,
) -> Result<TcpListener, BindError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| BindError::of((what, flag), address, source))
}

impl BindError {
    fn of((what, flag): (&'static str, &'static str), address: SocketAddr, source: io::Error) -> Self {
        let kind = source.kind();
        if kind == io::ErrorKind::AddrInUse {
            Self::InUse { what, address, flag }
        } else if kind == io::ErrorKind::PermissionDenied && address.port() < FIRST_FREE_PORT {
            Self::Privileged { what, address, flag }
        } else {
            Self::Refused {
                what,
                address,
                flag,
                source,
            }
        }
    }
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: EvictableStream<TcpStream>,
    /// The local address.
    pub(crate) local: SocketAddr,
    /// The remote address.
    pub(crate) peer: SocketAddr,
    pub(crate) permit: Arc<ConnectionPermit>,
}

/// Accepts connections forever and passes each to `serve`, with a permit.
pub(crate) async fn accept<F>(listener: TcpListener, limits: ConnectionLimits, serve: impl Fn(Accepted) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    if !peer::reports_users() {
        warn!(
            "this system does not report the user of a connection: the agent serves all users of this machine as one \
             client, unless `listen.password-file` is set"
        );
    }
    let limiter = ConnectionLimiter::new(limits);
    let mut sweeps = interval(SWEEP_INTERVAL);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweeps.tick() => {
                limiter.sweep();
                continue;
            }
        };
        match accepted.and_then(|(stream, peer)| Ok((stream.local_addr()?, stream, peer))) {
            Ok((local, stream, peer)) => {
                let Some(permit) = limiter.take() else {
                    // Best effort: nothing waits for a client while all permits are taken.
                    let _best_effort = stream.try_write(AT_LIMIT_RESPONSE);
                    continue;
                };
                let permit = Arc::new(permit);
                let stream = EvictableStream::new(stream, Arc::clone(&permit));
                tokio::spawn(serve(Accepted {
                    stream,
                    local,
                    peer,
                    permit,
                }));
            }
            Err(error) => {
                debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_port_below_1024_wants_a_permission() {
        let text = |address: &str| {
            let denied = io::ErrorKind::PermissionDenied.into();
            BindError::of(("the proxy port", "listen"), address.parse().unwrap(), denied).to_string()
        };
        let low = text("127.0.0.1:80");
        assert!(
            low.starts_with("the proxy port 127.0.0.1:80 is closed to this user") && low.contains("--listen"),
            "{low}"
        );
        assert!(!text("127.0.0.1:8080").contains("1024"));
    }
}

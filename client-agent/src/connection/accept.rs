//! Opening of ports, and acceptance of connections.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};
use tracing::debug;

use super::{
    connection_limit::{Place, PlaceLimits, Places},
    evictable_stream::Watched,
};
use crate::access::prepare_peer_lookup;

/// Interval of the search for connections that take too long.
const SWEEP: Duration = Duration::from_secs(5);
/// Pause after the system failed to accept a connection, usually for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Response on a connection for which there is no place.
const NO_PLACE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 5\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Errors of opening a listening port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program uses the port.
    #[error(
        "{what} {address} is in use by another program, perhaps another agent: stop that, or choose another port with \
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
        source: std::io::Error,
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
    TcpListener::bind(address).await.map_err(|source| {
        if source.kind() == std::io::ErrorKind::AddrInUse {
            BindError::InUse { what, address, flag }
        } else {
            BindError::Refused {
                what,
                address,
                flag,
                source,
            }
        }
    })
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: Watched<TcpStream>,
    /// The local address.
    pub(crate) ours: SocketAddr,
    /// The remote address.
    pub(crate) peer: SocketAddr,
    pub(crate) place: Arc<Place>,
}

/// Accepts connections forever and passes each to `serve`, with one of the places.
pub(crate) async fn accept<F>(listener: TcpListener, limits: PlaceLimits, serve: impl Fn(Accepted) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    prepare_peer_lookup();
    let places = Places::new(limits);
    let mut sweeps = interval(SWEEP);
    sweeps.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = sweeps.tick() => {
                places.sweep();
                continue;
            }
        };
        match accepted.and_then(|(stream, peer)| Ok((stream.local_addr()?, stream, peer))) {
            Ok((ours, stream, peer)) => {
                let Some(place) = places.take() else {
                    // Best effort: nothing waits for a client while all places are taken.
                    let _best_effort = stream.try_write(NO_PLACE);
                    continue;
                };
                let place = Arc::new(place);
                let stream = Watched::new(stream, Arc::clone(&place));
                tokio::spawn(serve(Accepted {
                    stream,
                    ours,
                    peer,
                    place,
                }));
            }
            Err(error) => {
                debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

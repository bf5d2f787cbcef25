//! The port of the proxy.
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use longhaul_types::SecretKey;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tracing::{info, warn};

use super::{
    Clientless,
    access::{Access, AccessError, Denied},
    connection,
};
use crate::{
    admission::{clients::PasswordKey, state::StateDir},
    config::ClientlessConfig,
    gateway::Gateway,
};

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 2048;
/// Connections of one address at the same time. Browsers open up to 32 through a proxy.
const MAX_OF_ADDRESS: usize = 256;
/// Pause after an error of accepting, such as too many open files: the error would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Errors of the start of the proxy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientlessError {
    /// Nobody, or everybody, could use the proxy.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The port cannot be opened.
    #[error("[clientless] listen: {address} cannot be used: {source}; choose another port, or \"off\"")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// The open port.
#[derive(Debug)]
pub(crate) struct ClientlessListener {
    listener: TcpListener,
    local: SocketAddr,
    access: Access,
    config: ClientlessConfig,
}

/// Connections of each address.
#[derive(Debug, Default)]
struct Connections(Mutex<BTreeMap<IpAddr, usize>>);

/// The place of a connection among those of its address, until dropped.
struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl ClientlessListener {
    /// Opens the port, if it is configured.
    ///
    /// # Errors
    /// See [`ClientlessError`].
    pub(crate) async fn bind(
        config: &ClientlessConfig,
        state: &StateDir,
        secret: &SecretKey,
    ) -> Result<Option<Self>, ClientlessError> {
        let Some(address) = config.listen else {
            return Ok(None);
        };
        let access = Access::new(config, state, PasswordKey::derived_from(secret))?;
        let failed = |source| ClientlessError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        info!(address = %local, "clients without an agent may use the HTTP proxy");
        Ok(Some(Self {
            listener,
            local,
            access,
            config: config.clone(),
        }))
    }

    /// The local address.
    pub(crate) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Serves clients until the future is dropped, which ends their connections.
    pub(crate) async fn run(self, gateway: Arc<Gateway>) {
        let shared = Arc::new(Clientless::new(gateway, self.config, self.access));
        let connections = Arc::new(Connections::default());
        let mut tasks = JoinSet::new();
        let look = shared.access.look();
        tokio::pin!(look);
        loop {
            tokio::select! {
                () = &mut look => return,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => accept(&shared, &connections, &mut tasks, stream, peer),
                    Err(error) => {
                        warn!(%error, "the proxy accepts no connection");
                        sleep(ERROR_PAUSE).await;
                    }
                },
                Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            }
        }
    }
}

fn accept(
    shared: &Arc<Clientless>,
    connections: &Arc<Connections>,
    tasks: &mut JoinSet<()>,
    stream: TcpStream,
    peer: SocketAddr,
) {
    let address = peer.ip().to_canonical();
    if shared.access.is_silent(address) {
        shared.counters.denied(Denied::Silent.name());
        // Fails if the client has already closed, which is harmless.
        let _gone = stream.set_zero_linger();
        return;
    }
    // A connection beyond the limits is closed: its client tries again later.
    let place = (tasks.len() < MAX_CONNECTIONS).then(|| connections.enter(address));
    let Some(place) = place.flatten() else { return };
    let shared = Arc::clone(shared);
    tasks.spawn(async move {
        let _open = shared.counters.connection();
        // Small responses must not wait for the acknowledgement of earlier ones.
        let _delayed = stream.set_nodelay(true);
        connection::serve(Arc::clone(&shared), stream, address).await;
        drop(place);
    });
}

impl Connections {
    fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut connections = self.0.lock();
        let count = connections.entry(address).or_default();
        if *count >= MAX_OF_ADDRESS {
            return None;
        }
        *count += 1;
        Some(Place {
            connections: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut connections = self.connections.0.lock();
        if let Some(count) = connections.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.address);
            }
        }
    }
}

//! The admin port, on a loopback address.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use longhaul_gateway_core::port_error::PortError;
use longhaul_tcp_info::peer;
use tokio::{
    net::TcpListener,
    sync::Semaphore,
    task::JoinSet,
    time::{sleep, timeout},
};
use tower_service::Service as _;
use tracing::{debug, warn};

use super::access::may_connect;

/// Connections at the same time; further ones wait in the kernel's queue. Connections of other users count only until the
/// system has told their user.
const MAX_CONNECTIONS: usize = 32;
/// Longest time of a connection; programs open another one.
const CONNECTION_TIME: Duration = Duration::from_secs(60);
/// Size of the head of a request, and of the buffer of a connection.
const MAX_HEAD: usize = 16 * 1024;
/// Pause after a connection could not be accepted, for example because no file handle is free.
const PAUSE: Duration = Duration::from_millis(100);

/// The bound port.
#[derive(Debug)]
pub(crate) struct AdminPort {
    listener: TcpListener,
    address: SocketAddr,
}

impl AdminPort {
    /// Opens the port; `None` if the operator disabled it.
    ///
    /// # Errors
    /// The port cannot be opened.
    pub(crate) async fn bind(address: Option<SocketAddr>) -> Result<Option<Self>, PortError> {
        let Some(address) = address else {
            return Ok(None);
        };
        let failed = |source| PortError::tcp("admin.listen", address, source);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Some(Self { listener, address }))
    }

    /// Where it listens.
    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests until the task is aborted.
    pub(crate) async fn serve(self, router: Router) {
        let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                return;
            };
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "a connection to the admin port cannot be accepted");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            while connections.try_join_next().is_some() {}
            let router = router.clone();
            let address = self.address;
            connections.spawn(async move {
                if !may_connect(peer::find(address, peer).await) {
                    debug!(%peer, "a connection of another user to the admin port is refused");
                    return;
                }
                let service = service_fn(move |request: Request<Incoming>| router.clone().call(request));
                let served = http1::Builder::new()
                    .max_buf_size(MAX_HEAD)
                    .serve_connection(TokioIo::new(stream), service);
                if !matches!(timeout(CONNECTION_TIME, served).await, Ok(Ok(()))) {
                    debug!("a connection to the admin port was broken off");
                }
                drop(slot);
            });
        }
    }
}

//! Where browsers connect: an HTTP/1.1 forward proxy.
mod connection;
mod explain;
mod local;
mod scope;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http::{Method, Request, Response};
use hyper::{body::Incoming, service::service_fn};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tracing::debug;

pub(crate) use connection::{serve_http, serve_http1};
pub(crate) use local::script;
pub use scope::ConnectionScope;

use crate::{
    request::{self, Context, ProxyBody},
    tunnel,
};

/// Connections at a time. Chromium opens up to 225 tunnels and 99 connections; three browsers are served. One takes
/// below 200 KiB.
pub const MAX_CONNECTIONS: usize = 1024;
/// Pause after the system refused a connection, most often for want of file descriptors.
const ACCEPT_PAUSE: std::time::Duration = std::time::Duration::from_millis(100);

/// A port that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// Another program has it.
    #[error(
        "{what} {address} is in use by another program, perhaps another agent: stop that, or choose another port with \
         --{flag}"
    )]
    InUse {
        /// What listens there.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
    },
    /// The system refuses.
    #[error("{what} {address} cannot be opened: {source}; choose another one with --{flag}")]
    Refused {
        /// What listens there.
        what: &'static str,
        /// The address.
        address: SocketAddr,
        /// The flag that changes it.
        flag: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Opens a listening socket; `what` and `flag` name it in errors.
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

/// Accepts connections for ever and gives each to `serve`; at most [`MAX_CONNECTIONS`] at a time, more wait.
pub(crate) async fn accept<F>(listener: TcpListener, serve: impl Fn(TcpStream) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = serve(stream);
                tokio::spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(error) => {
                debug!(%error, "a connection could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves browsers for ever.
pub async fn serve(listener: TcpListener, context: Arc<Context>) {
    accept(listener, |stream| {
        let context = Arc::clone(&context);
        let scope = Arc::new(ConnectionScope::new());
        async move {
            let service = service_fn(|request| {
                let (context, scope) = (Arc::clone(&context), Arc::clone(&scope));
                async move { Ok::<_, Infallible>(answer(&context, &scope, request).await) }
            });
            serve_http(stream, service).await;
        }
    })
    .await;
}

async fn answer(
    context: &Arc<Context>,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    if *request.method() == Method::CONNECT {
        return tunnel::connect(context, request).await;
    }
    // In origin form, or in absolute form with the agent's own address, it is meant for the agent itself.
    if request
        .uri()
        .authority()
        .is_none_or(|authority| local::is_own(authority, context.proxy))
    {
        return local::answer(context, &request);
    }
    request::answer(context, scope, request).await
}

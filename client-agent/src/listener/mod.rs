//! The listener for browsers: an HTTP/1.1 forward proxy.
//!
//! Each connection takes one of the `places`. Before any byte is read, `peer` determines the connection's
//! user and `access` decides whether that user is served. The connection's requests carry its
//! [`ConnectionScope`].
mod access;
mod client;
mod connection;
mod explain;
mod local;
mod peer;
mod places;
mod scope;
mod watched;

use std::{convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use http::{HeaderMap, Method, Request, Response, header};
use http_body::Body as _;
use hyper::{body::Incoming, service::service_fn};
use tokio::{
    net::{TcpListener, TcpStream},
    time::{MissedTickBehavior, interval},
};
use tracing::debug;

pub(crate) use access::Denial;
pub use access::{Access, Passwords, PasswordsError};
pub use client::{Client, UserId};
pub(crate) use connection::{serve_http, serve_http1};
pub(crate) use local::script;
pub(crate) use places::{InUse, Owner, Place, PlaceLimits, Places};
pub use scope::ConnectionScope;
pub(crate) use watched::{LastingBody, Watched};

use crate::{
    pages::BadRequest,
    request::{self, Context, ProxyBody, page_response},
    tunnel,
};

/// Limits of connections, including tunnels. Chromium opens up to 225 tunnels and 99 connections, so six
/// browsers fit. One connection takes less than 200 KiB.
const PLACES: PlaceLimits = PlaceLimits {
    total: 2048,
    // Three browsers of one user. Two users cannot fill all places.
    per_owner: 1000,
    // Each connection exists only for the time of one answer.
    refused: 16,
};
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
    peer::prepare();
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

/// Serves browsers forever.
pub async fn serve(listener: TcpListener, context: Arc<Context>, access: Arc<Access>) {
    accept(listener, PLACES, |accepted| {
        serve_one(accepted, Arc::clone(&context), Arc::clone(&access))
    })
    .await;
}

async fn serve_one(accepted: Accepted, context: Arc<Context>, access: Arc<Access>) {
    let Accepted {
        stream,
        ours,
        peer,
        place,
    } = accepted;
    let user = match access.judge(ours, peer).await {
        Ok(user) => user,
        Err(denial) => return deny(stream, &place, denial).await,
    };
    let owner = user.map_or_else(|| Owner::Machine(peer.ip().to_canonical()), Owner::User);
    if !place.belongs_to(owner) {
        return deny(stream, &place, Denial::Crowded).await;
    }
    let scope = Arc::new(ConnectionScope::with_place(user, Arc::clone(&place)));
    drop(place);
    let service = service_fn(|request| {
        let (context, access, scope) = (Arc::clone(&context), Arc::clone(&access), Arc::clone(&scope));
        async move {
            let in_use = scope.begin();
            let response = answer(&context, &access, &scope, request).await;
            Ok::<_, Infallible>(response.map(|body| LastingBody::new(body, in_use)))
        }
    });
    serve_http(stream, service).await;
}

/// Answers any request with the reason of the denial, unless too many denied connections exist already.
async fn deny(stream: Watched<TcpStream>, place: &Place, denial: Denial) {
    debug!(?denial, "a client is not served");
    if !place.belongs_to(Owner::Refused) {
        return;
    }
    let service = service_fn(|_request: Request<Incoming>| async move {
        let in_use = Some(place.begin());
        Ok::<_, Infallible>(denial.answer().map(|body| LastingBody::new(body, in_use)))
    });
    serve_http(stream, service).await;
}

async fn answer(
    context: &Arc<Context>,
    access: &Access,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    let is_connect = *request.method() == Method::CONNECT;
    // A request in origin form, or in absolute form with the agent's own address, is for the agent itself.
    if !is_connect
        && request
            .uri()
            .authority()
            .is_none_or(|authority| local::is_own(authority, context.proxy))
    {
        return local::answer(context, &request);
    }
    let shown = access
        .authenticate(request.headers())
        .and_then(|name| match name {
            Some(name) if !scope.shows(&name) => Err(Denial::OtherPassword),
            Some(_) | None => Ok(()),
        });
    if let Err(denial) = shown {
        return denial.answer();
    }
    if !is_connect {
        // `request::answer` removes all `Proxy-*` fields, including the credential, and keeps the order of
        // the other fields.
        return request::answer(context, scope, request).await;
    }
    if has_body(&request) {
        return refuse_body();
    }
    tunnel::connect(context, scope, request).await
}

/// True if a request declares a body, even an empty one.
pub(crate) fn has_body(request: &Request<Incoming>) -> bool {
    announces_body(request.headers()) || !request.body().is_end_stream()
}

fn announces_body(headers: &HeaderMap) -> bool {
    let lengths = headers.get_all(header::CONTENT_LENGTH);
    headers.contains_key(header::TRANSFER_ENCODING)
        || lengths
            .iter()
            .any(|length| length.as_bytes().trim_ascii() != b"0")
}

/// Refuses a CONNECT request with a body (RFC 9110 section 9.3.6): its bytes belong neither to the tunnel nor
/// to another request.
fn refuse_body() -> Response<ProxyBody> {
    let mut response = page_response(&BadRequest::Malformed.page());
    response
        .headers_mut()
        .insert(header::CONNECTION, http::HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_an_empty_body_is_none() {
        let announces = |name: header::HeaderName, value: &'static str| {
            announces_body(&HeaderMap::from_iter([(name, HeaderValue::from_static(value))]))
        };
        assert!(!announces_body(&HeaderMap::new()));
        assert!(!announces(header::CONTENT_LENGTH, "0"));
        assert!(announces(header::CONTENT_LENGTH, "5"));
        assert!(announces(header::CONTENT_LENGTH, "0x5"));
        assert!(announces(header::TRANSFER_ENCODING, "chunked"));
    }
}

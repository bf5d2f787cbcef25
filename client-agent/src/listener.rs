//! The listener for browsers: an HTTP/1.1 forward proxy. Connections of other programs that begin with a byte of SOCKS go to
//! [`socks`].
//!
//! Each connection takes a permit (`connection`). Before any byte is read, `access` determines the connection's
//! user and decides whether that user is served. The connection's requests carry its [`ConnectionScope`].
mod local;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use http::{Method, Request, Response, header};
use hyper::{body::Incoming, service::service_fn};
use longhaul_http::target;
use tokio::net::{TcpListener, TcpStream};
use tracing::debug;

pub(crate) use local::script;

pub use crate::access::{Access, AccessRules, Client, Passwords, PasswordsError, UserId};
use crate::{
    access::Denial,
    connection::{
        Accepted, ConnectionLimits, ConnectionPermit, ConnectionScope, EvictableStream, InUseBody, Owner,
        accept, has_body, serve_http,
    },
    handles::Handles,
    https::Program,
    https_server,
    journal::NewRequest,
    pages::{BadRequest, Failure, Page, page_response},
    proxy_body::ProxyBody,
    request, socks, tunnel,
    upstream::{Asker, local::is_local_host},
};

/// Limits of connections, including tunnels. Chromium opens up to 225 tunnels and 99 connections, so six
/// browsers fit. One connection takes less than 200 KiB.
const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 2048,
    // Three browsers of one user. Two users cannot fill all permits.
    per_owner: 1000,
    // Each connection exists only for the time of one answer.
    refused: 16,
};
/// Serves browsers forever; `proxy` is the address of the listener for this machine.
pub async fn serve(listener: TcpListener, handles: Handles, access: AccessRules, proxy: SocketAddr) {
    accept(listener, LIMITS, |accepted| {
        serve_one(accepted, handles.clone(), access.clone(), proxy)
    })
    .await;
}

async fn serve_one(accepted: Accepted, handles: Handles, access: AccessRules, proxy: SocketAddr) {
    let Accepted {
        stream,
        local,
        peer,
        permit,
    } = accepted;
    let user = match access.current().check_peer(local, peer).await {
        Ok(user) => user,
        Err(denial) => return deny(stream, &permit, denial).await,
    };
    let owner = user.map_or_else(|| Owner::Machine(peer.ip().to_canonical()), Owner::User);
    if !permit.set_owner(owner) {
        return deny(stream, &permit, Denial::TooManyConnections).await;
    }
    let scope = Arc::new(ConnectionScope::with_permit(user, Arc::clone(&permit)));
    drop(permit);
    if stream.first_byte().await == Some(socks::VERSION) {
        return socks::serve(stream, &handles, &access.current(), scope).await;
    }
    let service = service_fn(|request| {
        let (handles, access, scope) = (handles.clone(), access.current(), Arc::clone(&scope));
        async move {
            let in_use = scope.begin();
            let response = answer(&handles, &access, &scope, proxy, request).await;
            Ok::<_, Infallible>(response.map(|body| InUseBody::new(body, in_use)))
        }
    });
    serve_http(stream, service).await;
}

/// Answers any request with the reason of the denial, unless too many denied connections exist already.
async fn deny(stream: EvictableStream<TcpStream>, permit: &ConnectionPermit, denial: Denial) {
    debug!(?denial, "a client is not served");
    if !permit.set_owner(Owner::Refused) {
        return;
    }
    if stream.first_byte().await == Some(socks::VERSION) {
        return socks::deny(stream).await;
    }
    let service = service_fn(|_request: Request<Incoming>| async move {
        let in_use = Some(permit.begin());
        Ok::<_, Infallible>(denial.to_response().map(|body| InUseBody::new(body, in_use)))
    });
    serve_http(stream, service).await;
}

async fn answer(
    handles: &Handles,
    access: &Access,
    scope: &Arc<ConnectionScope>,
    proxy: SocketAddr,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    let is_connect = *request.method() == Method::CONNECT;
    // A request in origin form, or in absolute form with the agent's own address, is for the agent itself.
    if !is_connect
        && request
            .uri()
            .authority()
            .is_none_or(|authority| local::is_own(authority, proxy))
    {
        return local::answer(proxy, &request);
    }
    let shown = access
        .check_user(scope.client().user())
        .and_then(|()| access.authenticate(request.headers()))
        .and_then(|name| match name {
            Some(name) if !scope.accepts_credential(&name) => Err(Denial::OtherPassword),
            Some(_) | None => Ok(()),
        });
    if let Err(denial) = shown {
        return denial.to_response();
    }
    if tunnel::is_websocket(&request) {
        return tunnel::upgrade_plain(&handles.upstream, &handles.counters, scope, request).await;
    }
    if !is_connect {
        // `request::answer` removes all `Proxy-*` fields, including the credential, and keeps the order of
        // the other fields.
        return request::answer(handles, scope, request).await;
    }
    if has_body(&request) {
        return refuse_body();
    }
    connect(handles, scope, request).await
}

/// Answers a CONNECT request: the agent terminates the TLS of accelerated hosts and opens tunnels to others.
async fn connect(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    handles.counters.requests.increment();
    let (host, port) = match target::authority(request.uri()) {
        Ok(host_and_port) => host_and_port,
        Err(error) => {
            let failure = Failure::Request(BadRequest::Target(error));
            return tunnel::refuse(&handles.counters, &failure);
        }
    };
    let https = &handles.acceleration.https;
    let asker = Asker::of(scope.client().user(), request.method(), request.headers());
    let is_local = asker.reaches_local_hosts() && is_local_host(&host);
    if !is_local && https.accelerates(&host) {
        let user_agent = request.headers().get(header::USER_AGENT);
        let user_agent = user_agent.and_then(|field| field.to_str().ok());
        let program = Program::new(scope.client().id(), user_agent);
        // Programs of protocols in which the server sends first have not sent a ClientHello earlier, either.
        if https.is_bypassed_for(&host, program.id(None)) {
            return open_tunnel(handles, scope, ((host, port), asker), request).await;
        }
        tokio::spawn(https_server::serve(
            handles.clone(),
            Arc::clone(scope),
            (host, port),
            program,
            hyper::upgrade::on(request),
        ));
        return Response::new(ProxyBody::empty());
    }
    open_tunnel(handles, scope, ((host, port), asker), request).await
}

/// Opens a tunnel; the journal gets those that fail.
async fn open_tunnel(
    handles: &Handles,
    scope: &Arc<ConnectionScope>,
    ((host, port), asker): ((String, u16), Asker),
    request: Request<Incoming>,
) -> Response<ProxyBody> {
    let url = format!("https://{host}:{port}/");
    let browser = hyper::upgrade::on(request);
    let destination = ((host, port), asker);
    let response = tunnel::connect(&handles.upstream, &handles.counters, scope, destination, browser).await;
    let Some(page) = response.extensions().get::<Page>() else {
        return response;
    };
    let recording = handles.journal.begin(NewRequest {
        client: scope.client().id(),
        method: &Method::CONNECT,
        url: &url,
        is_page: false,
        referrer: None,
        rate: None,
        rtt: None,
    });
    recording.failed(&page.title, page.whose);
    recording.answered(response.status(), response.headers());
    response.map(|body| body.recorded(recording.of_body()))
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

//! A server that shows the built-in site as loaded through one of the two proxies.
use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{Either, Empty, Full};
use hyper::{
    body::Incoming, client::conn::http1 as client, server::conn::http1 as server, service::service_fn,
};
use hyper_util::rt::TokioIo;
use longhaul_replay::serve_connections;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Mutex,
};

use crate::site::Site;

/// Maximum number of browser connections; a browser opens six.
const MAX_CONNECTIONS: usize = 64;
/// Request fields that are passed on. The others concern the view, or state what the browser stores.
const REQUEST_FIELDS: [header::HeaderName; 4] = [
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
    header::USER_AGENT,
];
/// Response fields that are passed on: without those by which the browser would store the response, because each
/// comparison is a first visit.
const RESPONSE_FIELDS: [header::HeaderName; 3] = [
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
];

type Body = Either<Incoming, Full<Bytes>>;
type Sender = client::SendRequest<Empty<Bytes>>;

/// Serves the built-in site at `own`, as `proxy` delivers it.
pub(super) async fn serve(listener: TcpListener, own: SocketAddr, proxy: SocketAddr) {
    serve_connections(listener, MAX_CONNECTIONS, |stream| {
        let _ = stream.set_nodelay(true);
        async move {
            // One connection to the proxy for each connection of the browser, so that the browser's limits apply.
            let kept = Arc::new(Mutex::new(None));
            let service = service_fn(move |request| {
                let kept = Arc::clone(&kept);
                async move {
                    let answered = answer(&request, own, proxy, &kept).await;
                    Ok::<_, Infallible>(answered.unwrap_or_else(|(status, reason)| failure(status, reason)))
                }
            });
            let connection = server::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to a view failed");
            }
        }
    })
    .await;
}

async fn answer(
    request: &Request<Incoming>,
    own: SocketAddr,
    proxy: SocketAddr,
    kept: &Mutex<Option<Sender>>,
) -> Result<Response<Body>, (StatusCode, String)> {
    if !names(request.headers(), own) {
        return Err((
            StatusCode::FORBIDDEN,
            "this port answers only under its own address\n".to_owned(),
        ));
    }
    if *request.method() != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned()));
    }
    let gone = |error: &dyn std::error::Error| {
        (
            StatusCode::BAD_GATEWAY,
            format!("{proxy} does not answer: {error}\n"),
        )
    };
    let mut kept = kept.lock().await;
    let mut sender = match kept.take().filter(Sender::is_ready) {
        Some(sender) => sender,
        None => connect(proxy).await.map_err(|error| gone(error.as_ref()))?,
    };
    let response = sender
        .send_request(translated(request, own)?)
        .await
        .map_err(|error| gone(&error))?;
    *kept = Some(sender);
    let (mut head, body) = response.into_parts();
    head.headers = selected(&head.headers, &RESPONSE_FIELDS);
    head.headers
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(Response::from_parts(head, Either::Left(body)))
}

async fn connect(proxy: SocketAddr) -> Result<Sender, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns the request to the proxy, for the built-in site instead of the view.
fn translated(
    request: &Request<Incoming>,
    own: SocketAddr,
) -> Result<Request<Empty<Bytes>>, (StatusCode, String)> {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", http::uri::PathAndQuery::as_str);
    let site = Site::URL.trim_end_matches('/');
    let uri: Result<Uri, _> = format!("{site}{path}").parse();
    let mut translated = Request::new(Empty::new());
    *translated.uri_mut() = uri.map_err(|_| (StatusCode::BAD_REQUEST, "no valid path\n".to_owned()))?;
    let mut headers = selected(request.headers(), &REQUEST_FIELDS);
    headers.insert(header::HOST, HeaderValue::from_static(Site::HOST));
    let referer = request
        .headers()
        .get(header::REFERER)
        .and_then(|value| value.to_str().ok());
    let referer = referer.and_then(|referer| referer.strip_prefix(&format!("http://{own}")));
    if let Some(Ok(referer)) = referer.map(|path| format!("{site}{path}").parse()) {
        headers.insert(header::REFERER, referer);
    }
    *translated.headers_mut() = headers;
    Ok(translated)
}

fn selected(headers: &HeaderMap, names: &[header::HeaderName]) -> HeaderMap {
    let fields = names
        .iter()
        .filter_map(|name| Some((name.clone(), headers.get(name)?.clone())));
    fields.collect()
}

/// True if a request names the server's own address: other sites must not reach it by names of their own.
pub(super) fn names(headers: &HeaderMap, own: SocketAddr) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    host == Some(own.to_string().as_str()) || host == Some(format!("localhost:{}", own.port()).as_str())
}

fn failure(status: StatusCode, reason: String) -> Response<Body> {
    let mut response = Response::new(Either::Right(Full::from(reason)));
    *response.status_mut() = status;
    response
}

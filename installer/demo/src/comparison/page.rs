//! The page with both loads.
use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use longhaul_replay::serve_connections;
use tokio::net::TcpListener;

use super::{ControlPort, document::document, view};
use crate::{emulation::DirectProxy, measurement::Comparison};

/// Maximum number of browser connections.
const MAX_CONNECTIONS: usize = 64;
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What the page says.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// Name and properties of the link.
    pub(crate) link: String,
    /// Address of the proxy without Longhaul.
    pub(crate) direct_proxy: SocketAddr,
    /// Address of the agent's proxy.
    pub(crate) longhaul_proxy: SocketAddr,
    /// The loads that the demonstration measured.
    pub(crate) measured: &'a Comparison,
}

/// The page's server.
#[derive(Debug)]
pub(super) struct Page {
    html: Bytes,
    policy: String,
    own: SocketAddr,
    direct: Arc<DirectProxy>,
    control: ControlPort,
}

impl Page {
    pub(super) fn new(
        contents: &Contents<'_>,
        views: &[SocketAddr],
        own: SocketAddr,
        direct: Arc<DirectProxy>,
        control: ControlPort,
    ) -> Self {
        let frames: Vec<_> = views.iter().map(|view| format!("http://{view}")).collect();
        Self {
            html: Bytes::from(document(contents, views).into_string()),
            policy: format!(
                "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src {}; \
                 frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
                frames.join(" ")
            ),
            own,
            direct,
            control,
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let headers = request.headers();
        if !view::names(headers, self.own) {
            return text(
                StatusCode::FORBIDDEN,
                "this port answers only under its own address\n",
            );
        }
        match (request.method(), request.uri().path()) {
            (&Method::GET, "/") => self.document(),
            (&Method::GET, "/page.css") => file("text/css; charset=utf-8", STYLE),
            (&Method::GET, "/page.js") => file("text/javascript; charset=utf-8", SCRIPT),
            (&Method::POST, "/start") => {
                let origin = headers
                    .get(header::ORIGIN)
                    .and_then(|origin| origin.to_str().ok());
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                if origin.and_then(|origin| origin.strip_prefix("http://")) != host {
                    return text(StatusCode::FORBIDDEN, "only this page may start a comparison\n");
                }
                self.start().await
            }
            (&Method::GET, _) => text(StatusCode::NOT_FOUND, "the page is /\n"),
            _ => text(StatusCode::METHOD_NOT_ALLOWED, "GET, or POST /start\n"),
        }
    }

    /// Makes both loads first visits again.
    async fn start(&self) -> Response<Full<Bytes>> {
        self.direct.restart();
        match self.control.forget_site().await {
            Ok(()) => text(StatusCode::OK, "ready\n"),
            Err(problem) => {
                let reason = format!("The agent cannot delete the page's data: {problem}");
                text(StatusCode::BAD_GATEWAY, &reason)
            }
        }
    }

    fn document(&self) -> Response<Full<Bytes>> {
        let mut response = file("text/html; charset=utf-8", "");
        *response.body_mut() = Full::new(self.html.clone());
        if let Ok(policy) = HeaderValue::from_str(&self.policy) {
            response
                .headers_mut()
                .insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

/// Serves the page.
pub(super) async fn serve(listener: TcpListener, page: Arc<Page>) {
    serve_connections(listener, MAX_CONNECTIONS, |stream| {
        let page = Arc::clone(&page);
        async move {
            let service = service_fn(move |request| {
                let page = Arc::clone(&page);
                async move { Ok::<_, Infallible>(page.answer(&request).await) }
            });
            let connection = http1::Builder::new()
                .timer(hyper_util::rt::TokioTimer::new())
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the comparison failed");
            }
        }
    })
    .await;
}

fn file(media_type: &'static str, contents: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(contents));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn text(status: StatusCode, contents: &str) -> Response<Full<Bytes>> {
    let mut response = file("text/plain; charset=utf-8", "");
    *response.status_mut() = status;
    *response.body_mut() = Full::from(contents.to_owned());
    response
}

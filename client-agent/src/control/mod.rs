//! The control port: status page, `/status.json`, `/proxy.pac`. Loopback only.
//!
//! Any web page can make the browser send requests to this port, so each request is judged: its `Host` must be this
//! port itself (a page that rebinds its own name to 127.0.0.1 sends its own name), and what is not GET or HEAD must
//! also come from this origin. The one thing that can be changed is the level of pictures.
mod status;

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, service::service_fn};
use tokio::{net::TcpListener, time::Instant};

use longhaul_protocol::session::ImageLevel;
pub use status::{HttpsStatus, SessionStatus, SparedHost, Status};

use crate::{
    dashboard,
    listener::{accept, script, serve_http},
    request::{Context, ProxyBody},
};

/// Where the level of pictures is changed.
pub(crate) const PICTURES: &str = "/pictures";

/// What the control port shows.
#[derive(Debug)]
pub struct Control {
    /// The agent's parts.
    pub context: Arc<Context>,
    /// The control port's own address.
    pub address: SocketAddr,
    /// The agent's start.
    pub started: Instant,
}

/// Serves the control port for ever.
pub async fn serve(listener: TcpListener, control: Arc<Control>) {
    accept(listener, |stream| {
        let control = Arc::clone(&control);
        async move {
            let service = service_fn(|request: Request<Incoming>| {
                let control = Arc::clone(&control);
                async move {
                    control.context.store.refresh_usage().await;
                    Ok::<_, Infallible>(control.answer(&request))
                }
            });
            serve_http(stream, service).await;
        }
    })
    .await;
}

impl Control {
    fn answer<B>(&self, request: &Request<B>) -> Response<ProxyBody> {
        let mut response = match admit(self.address, request) {
            Ok(()) => self.page(request),
            Err(refusal) => text(refusal.status(), refusal.to_string()),
        };
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        );
        headers.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        headers.insert(
            "cross-origin-resource-policy",
            HeaderValue::from_static("same-origin"),
        );
        response
    }

    fn page<B>(&self, request: &Request<B>) -> Response<ProxyBody> {
        let (media_type, body) = match request.uri().path() {
            "/" => ("text/html; charset=utf-8", dashboard::html(&self.status())),
            "/status.json" => match serde_json::to_string(&self.status()) {
                Ok(json) => ("application/json", json),
                Err(error) => return text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
            },
            "/proxy.pac" => return script(self.context.proxy),
            PICTURES => return self.set_pictures(request),
            _ => {
                return text(
                    StatusCode::NOT_FOUND,
                    "there are /, /status.json and /proxy.pac".to_owned(),
                );
            }
        };
        let mut response = Response::new(ProxyBody::full(Bytes::from(body)));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(dashboard::POLICY),
        );
        response
    }

    /// Changes the level of pictures to that of the query, and goes back to the status page.
    fn set_pictures<B>(&self, request: &Request<B>) -> Response<ProxyBody> {
        let name = request
            .uri()
            .query()
            .and_then(|query| query.strip_prefix("level="));
        let level = ImageLevel::ALL
            .into_iter()
            .find(|level| Some(level.name()) == name);
        let (Some(level), &Method::POST) = (level, request.method()) else {
            let how = format!("POST {PICTURES}?level=original, high, medium, low or text");
            return text(StatusCode::BAD_REQUEST, how);
        };
        self.context.pictures.set_level(level);
        let mut response = text(StatusCode::SEE_OTHER, "the level is changed".to_owned());
        response
            .headers_mut()
            .insert(header::LOCATION, HeaderValue::from_static("/"));
        response
    }

    /// How things stand; the cache's figures as they were shown last.
    pub fn status(&self) -> Status {
        Status::of(&self.context, self.address, self.started.elapsed())
    }
}

/// Why a request to the control port is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refusal {
    #[error("this port answers only under its own address")]
    Host,
    #[error("this port answers only its own pages")]
    Origin,
    #[error("there is nothing to change here: use GET, or POST /pictures")]
    Method,
}

impl Refusal {
    const fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

fn admit<B>(own: SocketAddr, request: &Request<B>) -> Result<(), Refusal> {
    let host = single(request.headers(), &header::HOST).ok_or(Refusal::Host)?;
    // A request in absolute form would be one to a proxy, which this port is not.
    if request.uri().authority().is_some() || !is_own_name(own, host) {
        return Err(Refusal::Host);
    }
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return Ok(());
    }
    let origin = single(request.headers(), &header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
    if !origin.is_some_and(|origin| is_own_name(own, origin)) {
        Err(Refusal::Origin)
    } else if *request.method() == Method::POST && request.uri().path() == PICTURES {
        Ok(())
    } else {
        Err(Refusal::Method)
    }
}

fn single<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        None
    } else {
        value.to_str().ok()
    }
}

fn is_own_name(own: SocketAddr, name: &str) -> bool {
    name == own.to_string() || name.eq_ignore_ascii_case(&format!("localhost:{}", own.port()))
}

fn text(status: StatusCode, words: String) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(Bytes::from(words + "\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        admit("127.0.0.1:3129".parse().unwrap(), &request.body(()).unwrap())
    }

    #[test]
    fn only_its_own_names_are_answered() {
        assert_eq!(judge("GET", "/", &[("host", "127.0.0.1:3129")]), Ok(()));
        assert_eq!(judge("HEAD", "/", &[("host", "LocalHost:3129")]), Ok(()));
        for host in [
            "evil.test:3129",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "127.0.0.1:3129.evil.test",
            "",
        ] {
            assert_eq!(judge("GET", "/", &[("host", host)]), Err(Refusal::Host), "{host}");
        }
        assert_eq!(judge("GET", "/", &[]), Err(Refusal::Host));
        let twice = [("host", "127.0.0.1:3129"), ("host", "evil.test")];
        assert_eq!(judge("GET", "/", &twice), Err(Refusal::Host));
        assert_eq!(
            judge("GET", "http://evil.test/", &[("host", "127.0.0.1:3129")]),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn foreign_pages_cannot_post() {
        let host = ("host", "127.0.0.1:3129");
        assert_eq!(judge("POST", "/", &[host]), Err(Refusal::Origin));
        assert_eq!(
            judge("POST", "/", &[host, ("origin", "http://evil.test")]),
            Err(Refusal::Origin)
        );
        assert_eq!(
            judge("DELETE", "/", &[host, ("origin", "null")]),
            Err(Refusal::Origin)
        );
        let own = ("origin", "http://127.0.0.1:3129");
        assert_eq!(judge("POST", "/", &[host, own]), Err(Refusal::Method));
        let pictures = "/pictures?level=low";
        assert_eq!(judge("POST", pictures, &[host]), Err(Refusal::Origin));
        assert_eq!(
            judge("POST", pictures, &[host, ("origin", "http://evil.test")]),
            Err(Refusal::Origin)
        );
        assert_eq!(judge("DELETE", pictures, &[host, own]), Err(Refusal::Method));
        assert_eq!(judge("POST", pictures, &[host, own]), Ok(()));
    }
}

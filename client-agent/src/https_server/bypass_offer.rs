//! The error page of a host with a key that the gateway's operator denies offers to open the host unaccelerated. The
//! browser then verifies the certificate itself, and the user decides as without Longhaul. (A certificate with a
//! defect needs no such page: the browser gets a tunnel and shows its own warning.)
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use longhaul_session::FailureReason;
use maud::html;
use tracing::debug;

use crate::{
    https::{BypassReason, Https},
    pages::Page,
    proxy_body::ProxyBody,
};

/// Path of the button's target, on the host itself; the host's secret follows.
const PATH: &str = "/.well-known/longhaul/unaccelerated/";

/// Returns the error page with the offer if the failure is a denied key.
pub(super) fn offer(
    https: &Https,
    host: &str,
    response: &Response<ProxyBody>,
) -> Option<Response<ProxyBody>> {
    let page: &Page = response.extensions().get()?;
    if page.reason != Some(FailureReason::TlsDeniedKey) {
        return None;
    }
    debug!("an accelerated host has a key that the operator denies");
    // The secret prevents other sites from triggering the button.
    let offer = html! {
        form method="post" action={ (PATH) (https.secret_of(host)) } {
            p { button { "Open this website unaccelerated" } }
            p { "The connection is then not accelerated, and this browser itself verifies the website's certificate." }
        }
    };
    Some(page.to_response_with(&offer).map(ProxyBody::full))
}

/// True if the button sends this request.
pub(super) fn is_request<B>(request: &Request<B>) -> bool {
    request.uri().path().starts_with(PATH)
}

/// Answers the request of the button.
pub(super) fn answer<B>(https: &Https, host: &str, request: &Request<B>) -> Option<Response<ProxyBody>> {
    let secret = request.uri().path().strip_prefix(PATH)?;
    let mut response = Response::new(ProxyBody::empty());
    debug!(method = %request.method(), "request of an error page's button");
    if *request.method() != Method::POST || secret != https.secret_of(host) {
        *response.status_mut() = StatusCode::FORBIDDEN;
        return Some(response);
    }
    https.bypass(host, BypassReason::UsersChoice);
    *response.status_mut() = StatusCode::SEE_OTHER;
    let back = page_path(host, request.headers()).unwrap_or(HeaderValue::from_static("/"));
    response.headers_mut().insert(header::LOCATION, back);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Some(response)
}

/// Returns the path of the page with the button.
fn page_path(host: &str, headers: &HeaderMap) -> Option<HeaderValue> {
    let page: Uri = headers.get(header::REFERER)?.to_str().ok()?.parse().ok()?;
    let path = page.path_and_query()?.as_str();
    let is_here = page.host() == Some(host) && path.starts_with('/') && !path.starts_with("//");
    HeaderValue::from_str(path).ok().filter(|_| is_here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_back_leads_to_the_same_host() {
        let back = |referer: &'static str| {
            let headers = HeaderMap::from_iter([(header::REFERER, HeaderValue::from_static(referer))]);
            page_path("a.test", &headers).map(|back| back.to_str().unwrap().to_owned())
        };
        assert_eq!(back("https://a.test/x?y=1").as_deref(), Some("/x?y=1"));
        assert_eq!(back("https://b.test/x"), None);
        assert_eq!(back("https://a.test//b.test/"), None);
        assert_eq!(back("nonsense"), None);
    }
}

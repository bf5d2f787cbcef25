//! The request to the cache for a predicted request of a browser.
use http::{HeaderMap, HeaderValue, Method, Request, header};
use longhaul_http::{coding, policy::Reload, request_context::CredentialsSecret};
use longhaul_page::Destination;
use longhaul_types::{ClientId, PublicKey};
use longhaul_webcache::{CacheRequest, Purpose, RequesterIdentity};
use url::Url;

/// Returns the request for the object at `url`, with the predicted fields of the browser's request. `who` is
/// the owner of the cache's private responses, `via` the value of `Via` that origins receive.
pub fn predicted_request(
    secret: &CredentialsSecret,
    who: (PublicKey, ClientId),
    url: &Url,
    browser: HeaderMap,
    via: Option<&HeaderValue>,
) -> Option<CacheRequest> {
    let mut headers = browser.clone();
    headers.remove(header::TE);
    coding::set_accept_encoding(&mut headers, url.path());
    if let Some(via) = via {
        headers.insert(header::VIA, via.clone());
    }
    let request = Request::builder().method(Method::GET).uri(url.as_str());
    let (mut parts, ()) = request.body(()).ok()?.into_parts();
    parts.headers = headers;
    let identity = RequesterIdentity::of(who, secret, &Method::GET, url.as_str(), &browser);
    Some(CacheRequest {
        identity,
        parts,
        browser,
        reload: Reload::None,
        purpose: Purpose::Predicted,
    })
}

/// Returns true if the response most likely differs for logged-in users, so that a request without cookies is
/// useless.
pub const fn is_personal(destination: Destination) -> bool {
    destination.is_document() || matches!(destination, Destination::Other)
}

//! The request for the origin, from a browser's request that an agent or a client without an agent sent.
use http::{
    HeaderMap, HeaderValue, Method, Uri, Version,
    header::{CONTENT_LENGTH, EXPECT, HOST, TE},
    request::Parts,
};
use longhaul_http::{
    coding, conditional,
    expectation::is_continue_expected,
    hop_by_hop,
    limits::HeaderLimits,
    method::{EARLY_DATA, EARLY_DATA_ONE},
};
use longhaul_origin::{FetchError, Target};
use longhaul_session::FailureReason;

use crate::failure::Failure;

/// Protection of a request against replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrived {
    /// Received in early data, which an attacker may have replayed.
    Early,
    /// Received after the handshake, or without one.
    Confirmed,
}

/// A browser's request, without its fields.
#[derive(Clone, Debug)]
pub struct RequestLine<'a> {
    /// The method.
    pub method: Method,
    /// The absolute URL.
    pub url: &'a str,
    /// True if a body follows.
    pub has_body: bool,
    /// How the request came.
    pub arrived: Arrived,
    /// Number of Longhaul proxies before the gateway in `Via`.
    pub proxies_before: usize,
}

/// A checked request.
#[derive(Debug)]
pub struct Prepared {
    /// The request for the origin.
    pub parts: Parts,
    /// The browser's own fields.
    pub browser: HeaderMap,
}

/// Checks a browser's request, and derives the request for the origin.
pub fn prepare(line: RequestLine<'_>, browser: HeaderMap) -> Result<Prepared, Failure> {
    HeaderLimits::default()
        .check_target(line.url)
        .map_err(|error| Failure::new(FailureReason::BadUrl, error))?;
    let uri: Uri = line
        .url
        .parse()
        .map_err(|_| Failure::new(FailureReason::BadUrl, "the request's URL is not valid"))?;
    check_port(&uri)?;
    if hop_by_hop::is_loop(&browser, line.proxies_before) {
        let detail = "the request has passed this gateway before: it goes in circles";
        return Err(Failure::new(FailureReason::TargetRefused, detail));
    }
    let (mut parts, ()) = http::Request::new(()).into_parts();
    parts.headers = origin_headers(&line, uri.path(), &browser);
    parts.method = line.method;
    parts.uri = uri;
    Ok(Prepared { parts, browser })
}

/// Refuses ports to which browsers send no requests, because servers of other protocols could obey them. The port is read
/// as the fetch reads it.
fn check_port(uri: &Uri) -> Result<(), Failure> {
    let target = Target::of(uri).map_err(FetchError::from)?;
    if longhaul_page::is_blocked_port(target.port) {
        let detail =
            "browsers send no requests to this port, because servers of other protocols could obey them";
        return Err(Failure::new(FailureReason::TargetRefused, detail));
    }
    Ok(())
}

fn origin_headers(line: &RequestLine<'_>, path: &str, browser: &HeaderMap) -> HeaderMap {
    let mut headers = browser.clone();
    hop_by_hop::strip_request(&mut headers);
    for name in [
        // Derived from the URL.
        HOST,
        // Trailers are not relayed.
        TE,
        // Derived from the actual body.
        CONTENT_LENGTH,
    ] {
        headers.remove(name);
    }
    if !line.has_body || !is_continue_expected(browser) {
        headers.remove(EXPECT);
    }
    if !line.has_body && [Method::POST, Method::PUT, Method::PATCH].contains(&line.method) {
        // RFC 9110 section 8.6: a request without content sends this field if its method anticipates content.
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    conditional::drop_meaningless_ranges(&line.method, &mut headers);
    coding::set_accept_encoding(&mut headers, path);
    if line.arrived == Arrived::Early {
        headers.insert(EARLY_DATA, EARLY_DATA_ONE);
    }
    hop_by_hop::append_via(&mut headers, Version::HTTP_11);
    headers
}

//! Checks of request heads: what two parsers could read differently is refused.
//!
//! The library refuses upper-case names, pseudo-header fields that are missing, repeated, behind others or not allowed
//! with CONNECT, and bodies of another length than announced.
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, COOKIE, HOST, TE, TRANSFER_ENCODING, UPGRADE},
};
use longhaul_http::{
    cookies,
    framing::{self, BodyLength, FramingError},
    limits::HeaderLimits,
    target::{self, Scheme, TargetError},
};

use crate::head::{HeadError, RequestHead, RequestTarget, check_host};

/// Fields that concern an HTTP/1.1 connection (RFC 9113 section 8.2.2).
const OF_CONNECTIONS: [HeaderName; 5] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Checks the head of a request. `has_body` is false if the stream ends with it.
///
/// # Errors
/// The request is rejected.
pub fn check<B>(request: Request<B>, has_body: bool) -> Result<RequestHead, HeadError> {
    let (parts, _) = request.into_parts();
    let (method, uri, mut headers) = (parts.method, parts.uri, parts.headers);
    if parts.extensions.get::<h2::ext::Protocol>().is_some() {
        return Err(HeadError::Malformed);
    }
    check_fields(&headers)?;
    let target = request_target(&method, &uri)?;
    check_host(Version::HTTP_2, &headers, &target)?;
    let body = body_length(&headers, has_body)?;
    if matches!(target, RequestTarget::Tunnel(..)) && headers.contains_key(CONTENT_LENGTH) {
        return Err(HeadError::TunnelBody);
    }
    if matches!(target, RequestTarget::Proxy(_)) {
        name_proxy(&uri, &mut headers)?;
    }
    if headers.get_all(COOKIE).iter().nth(1).is_some()
        && let Some(all) = cookies::joined(&headers)
    {
        // HTTP/2 may split cookies into several fields, which other versions interpret differently.
        let all =
            HeaderValue::from_maybe_shared(bytes::Bytes::from(all)).map_err(|_| HeadError::Malformed)?;
        headers.insert(COOKIE, all);
    }
    Ok(RequestHead {
        method,
        target,
        version: Version::HTTP_2,
        headers,
        body,
        keeps_alive: true,
    })
}

fn check_fields(headers: &HeaderMap) -> Result<(), HeadError> {
    if HeaderLimits::default().check(headers).is_err() {
        return Err(HeadError::TooLarge);
    }
    if OF_CONNECTIONS.iter().any(|name| headers.contains_key(name)) {
        return Err(HeadError::Malformed);
    }
    if headers.get_all(TE).iter().any(|value| value != "trailers") {
        return Err(HeadError::Malformed);
    }
    // RFC 9113 section 8.2.1.
    let is_padded = |value: &HeaderValue| {
        let is_space = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        is_space(value.as_bytes().first()) || is_space(value.as_bytes().last())
    };
    if headers.values().any(is_padded) {
        return Err(HeadError::Malformed);
    }
    Ok(())
}

fn request_target(method: &Method, uri: &Uri) -> Result<RequestTarget, HeadError> {
    if *method == Method::CONNECT {
        let (host, port) = target::authority(uri)?;
        return Ok(RequestTarget::Tunnel(host, port));
    }
    // Without an authority, the library removes the scheme.
    let scheme = uri.scheme_str().ok_or(HeadError::Host)?;
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    if !path.starts_with('/') || !path.is_ascii() {
        return Err(HeadError::Malformed);
    }
    if HeaderLimits::default().check_target(path).is_err() {
        return Err(HeadError::TooLarge);
    }
    if scheme.eq_ignore_ascii_case("https") {
        // This server itself: the proxy fetches nothing by https, which would only look secure.
        return Ok(RequestTarget::Proxy(path.to_owned()));
    }
    // RFC 9113 section 8.3.1: no user name.
    target::host_and_port(uri.authority().ok_or(HeadError::Host)?)?;
    let target = target::absolute(uri)?;
    if target.scheme != Scheme::Http {
        return Err(TargetError::UnsupportedScheme.into());
    }
    Ok(RequestTarget::Origin(target))
}

/// The length of the body. Without `Content-Length` it ends with the stream.
fn body_length(headers: &HeaderMap, has_body: bool) -> Result<BodyLength, HeadError> {
    match (framing::content_length(headers)?, has_body) {
        (None | Some(0), false) => Ok(BodyLength::None),
        (Some(_), false) => Err(FramingError::ContentLength.into()),
        (Some(length), true) => Ok(BodyLength::Known(length)),
        (None, true) => Ok(BodyLength::Chunked),
    }
}

/// Sets `Host` to the name by which the client reaches this proxy, which it must not contradict.
fn name_proxy(uri: &Uri, headers: &mut HeaderMap) -> Result<(), HeadError> {
    let authority = uri.authority().ok_or(HeadError::Host)?;
    let named = target::host_and_port(authority)?;
    if let Some(told) = headers.get(HOST) {
        let told = told.to_str().ok().and_then(|told| told.parse().ok());
        let told = told.ok_or(HeadError::Host)?;
        if target::host_and_port(&told)? != named {
            return Err(HeadError::Host);
        }
    }
    let value = HeaderValue::from_str(authority.as_str()).map_err(|_| HeadError::Host)?;
    headers.insert(HOST, value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_to_the_proxy_names_it_once_or_by_the_same_name() {
        let named = |host: Option<&'static str>| {
            let host = host.map(|host| (HOST, HeaderValue::from_static(host)));
            let mut headers = HeaderMap::from_iter(host);
            let uri = Uri::from_static("https://proxy.test:8443/proxy.pac");
            name_proxy(&uri, &mut headers).map(|()| headers[HOST].clone())
        };
        for host in [None, Some("proxy.test:8443"), Some("PROXY.test:8443")] {
            assert_eq!(named(host).unwrap(), "proxy.test:8443", "{host:?}");
        }
        for host in ["proxy.test", "proxy.test:443", "other.test:8443", "a b"] {
            assert_eq!(named(Some(host)), Err(HeadError::Host), "{host}");
        }
    }
}

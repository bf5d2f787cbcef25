//! Requests inside TLS as requests to a proxy: the absolute URL, and the fields that HTTP/2 splits.
use std::net::IpAddr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, header, uri::Scheme};
use hyper::body::Incoming;

/// The host of a connection.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

impl Host {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// True if a ClientHello with this server name is for this host. Only for an address may there be no name (RFC 6066
    /// section 3): without it the host may present another certificate and other contents.
    pub(super) fn is_named_by(&self, server_name: Option<&str>) -> bool {
        match server_name {
            Some(name) => name == self.name.trim_end_matches('.'),
            None => self.name.parse::<IpAddr>().is_ok(),
        }
    }

    pub(super) fn address(&self) -> (&str, u16) {
        (&self.name, self.port)
    }
}

/// Returns the requested URL. Requests for other hosts than the connection's are rejected (RFC 9110 section
/// 7.4).
pub(super) fn absolute(host: &Host, request: &Request<Incoming>) -> Result<Uri, StatusCode> {
    let authority_text = match request.uri().authority() {
        Some(authority) => authority.as_str().to_owned(),
        None => {
            let mut hosts = request.headers().get_all(header::HOST).iter();
            let authority_text = hosts
                .next()
                .and_then(|authority_text| authority_text.to_str().ok());
            let authority_text = authority_text
                .filter(|_| hosts.next().is_none())
                .ok_or(StatusCode::BAD_REQUEST)?;
            authority_text.to_owned()
        }
    };
    let authority: http::uri::Authority = authority_text.parse().map_err(|_| StatusCode::BAD_REQUEST)?;
    if authority.as_str().contains('@') {
        return Err(StatusCode::BAD_REQUEST);
    }
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    if !name.eq_ignore_ascii_case(&host.name) || authority.port_u16().unwrap_or(443) != host.port {
        return Err(StatusCode::MISDIRECTED_REQUEST);
    }
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority);
    parts
        .path_and_query
        .get_or_insert(http::uri::PathAndQuery::from_static("/"));
    Uri::from_parts(parts).map_err(|_| StatusCode::BAD_REQUEST)
}

/// Joins cookie fields: HTTP/2 may split cookies into several fields, which other versions interpret
/// differently (RFC 9113 section 8.2.3).
pub(super) fn join_cookies(headers: &mut HeaderMap) {
    let all: Vec<&[u8]> = headers
        .get_all(header::COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect();
    if all.len() < 2 {
        return;
    }
    if let Ok(joined) = HeaderValue::from_maybe_shared(Bytes::from(all.join(&b"; "[..]))) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_cookie_fields_become_one() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1", "b=2", "c=3"] {
            headers.append(header::COOKIE, HeaderValue::from_static(cookie));
        }
        join_cookies(&mut headers);
        assert_eq!(headers.get_all(header::COOKIE).iter().count(), 1);
        assert_eq!(headers[header::COOKIE], "a=1; b=2; c=3");
    }
}

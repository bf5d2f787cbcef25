//! The responses of the proxy port itself: the proxy script and a page that explains the port.
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header, uri::Authority};
use longhaul_http::{local_network::search_domains, pac};
use maud::{Markup, html};

use crate::{
    pages::{BadRequest, document, page_response},
    proxy_body::ProxyBody,
};

/// Where the network's search domains are. Other systems than Unix have none that a file tells.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// True if an authority is the agent's own proxy port: proxying such a request would cause a loop.
pub(super) fn is_own(authority: &Authority, proxy: SocketAddr) -> bool {
    if authority.port_u16().unwrap_or(80) != proxy.port() {
        return false;
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    match host.parse::<IpAddr>() {
        Ok(address) => address == proxy.ip() || address.is_loopback() || address.is_unspecified(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

/// Answers a request for the agent itself.
pub(super) fn answer<B>(proxy: SocketAddr, request: &Request<B>) -> Response<ProxyBody> {
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/proxy.pac") => script(proxy),
        (&Method::GET | &Method::HEAD, "/") => page(help(proxy)),
        _ => page_response(&BadRequest::NoSuchPage.page()),
    }
}

/// Returns the proxy script, uncompressed and with the media type that browsers require.
pub(crate) fn script(proxy: SocketAddr) -> Response<ProxyBody> {
    let domains = std::fs::read_to_string(RESOLV_CONF).map(|text| search_domains(&text));
    let script = pac::script(proxy, &domains.unwrap_or_default());
    let mut response = Response::new(ProxyBody::full(Bytes::from(script)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(pac::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

fn page(page: Markup) -> Response<ProxyBody> {
    let mut response = Response::new(ProxyBody::full(Bytes::from(page.into_string())));
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    response
}

fn help(proxy: SocketAddr) -> Markup {
    let main = html! {
        h1 { "This is the Longhaul agent's proxy" }
        p { "It is not a website: browsers load other websites through it. Set one of these in the browser:" }
        dl {
            dt { "Automatic proxy configuration URL (recommended)" }
            dd { code { "http://" (proxy) "/proxy.pac" } }
            dt { "HTTP proxy, also for HTTPS" }
            dd { code { (proxy) } }
            dt { "SOCKS 5, for programs that are no browsers (mail, ssh, git)" }
            dd { code { (proxy) } }
        }
        p { "With the first one, local addresses stay local, and pages still load when the agent is stopped." }
    };
    document("Longhaul agent", &main)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_own_address_is_known_in_all_spellings() {
        let proxy = "127.0.0.1:3128".parse().unwrap();
        for own in [
            "127.0.0.1:3128",
            "localhost:3128",
            "LOCALHOST:3128",
            "[::1]:3128",
            "0.0.0.0:3128",
        ] {
            assert!(is_own(&own.parse().unwrap(), proxy), "{own}");
        }
        for other in ["127.0.0.1", "127.0.0.1:8080", "a.test:3128", "192.168.0.1:3128"] {
            assert!(!is_own(&other.parse().unwrap(), proxy), "{other}");
        }
    }
}

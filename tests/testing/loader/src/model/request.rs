//! Requests with the fields of a browser.
use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use longhaul_replay::page::Destination;
use url::Url;

use super::options::{AcceptEncoding, Rules};

/// A `GET` request before serialisation.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) url: &'a Url,
    pub(super) destination: Destination,
    pub(super) referrer: Option<&'a Url>,
    pub(super) cookie: Option<String>,
    /// `If-None-Match` and `If-Modified-Since`.
    pub(super) conditions: HeaderMap,
}

/// Common data of all requests of a load.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    pub(super) rules: Rules,
    /// True if requests for http go to a proxy, in absolute form (RFC 9112 section 3.2.2).
    pub(super) proxied: bool,
    pub(super) accept_encoding: AcceptEncoding,
    pub(super) user_agent: &'a str,
}

impl Writer<'_> {
    /// Serialises the request.
    pub(super) fn write(&self, request: &Request<'_>) -> Bytes {
        let url = request.url;
        let to_proxy = self.proxied && url.scheme() == "http";
        let host = authority(url);
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(b"GET ");
        if to_proxy {
            out.extend_from_slice(b"http://");
            out.extend_from_slice(host.as_bytes());
        }
        out.extend_from_slice(url.path().as_bytes());
        if let Some(query) = url.query() {
            out.push(b'?');
            out.extend_from_slice(query.as_bytes());
        }
        let version: &[u8] = match self.rules {
            Rules::Http10 => b" HTTP/1.0\r\n",
            Rules::Persistent { .. } | Rules::Pipelined { .. } => b" HTTP/1.1\r\n",
        };
        out.extend_from_slice(version);
        let mut field = |name: &str, value: &[u8]| {
            for part in [name.as_bytes(), b": ", value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        };
        field("Host", host.as_bytes());
        field("User-Agent", self.user_agent.as_bytes());
        field("Accept", accept(request.destination).as_bytes());
        field("Accept-Language", b"en-US,en;q=0.5");
        field("Accept-Encoding", self.accept_encoding.field().as_bytes());
        if request.destination.is_document() {
            field("Upgrade-Insecure-Requests", b"1");
        }
        if let Some(referer) = request.referrer.and_then(|referrer| referer(referrer, url)) {
            field("Referer", referer.as_bytes());
        }
        if let Some(origin) = request
            .referrer
            .and_then(|referrer| origin(request.destination, referrer, url))
        {
            field("Origin", origin.as_bytes());
        }
        if let Some(cookie) = &request.cookie {
            field("Cookie", cookie.as_bytes());
        }
        for (name, value) in &request.conditions {
            field(name.as_str(), HeaderValue::as_bytes(value));
        }
        if self.rules != Rules::Http10 {
            field(
                if to_proxy {
                    "Proxy-Connection"
                } else {
                    "Connection"
                },
                b"keep-alive",
            );
        }
        out.extend_from_slice(b"\r\n");
        Bytes::from(out)
    }
}

/// Returns the `Accept` field, which differs by destination.
fn accept(destination: Destination) -> &'static str {
    match destination {
        Destination::Document | Destination::Frame => {
            "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"
        }
        Destination::Style | Destination::InactiveStyle => "text/css,*/*;q=0.1",
        Destination::Image | Destination::Icon => "image/webp,image/*,*/*;q=0.8",
        Destination::Script | Destination::Font | Destination::Manifest | Destination::Other => "*/*",
    }
}

/// Returns the host, with the port if it is not the scheme's default.
fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the `Origin` field: requests in mode `cors` to another origin have it (Fetch standard section
/// 3.2); Chromium's requests for fonts always have it.
fn origin(destination: Destination, referrer: &Url, target: &Url) -> Option<String> {
    let has_field = match destination {
        Destination::Font => true,
        Destination::Manifest => referrer.origin() != target.origin(),
        Destination::Document
        | Destination::Frame
        | Destination::Style
        | Destination::InactiveStyle
        | Destination::Script
        | Destination::Image
        | Destination::Icon
        | Destination::Other => false,
    };
    has_field.then(|| referrer.origin().ascii_serialization())
}

/// Returns the `Referer` field by the default policy `strict-origin-when-cross-origin` (Referrer Policy
/// section 3.7).
fn referer(referrer: &Url, target: &Url) -> Option<String> {
    if referrer.scheme() == "https" && target.scheme() == "http" {
        return None;
    }
    if referrer.origin() == target.origin() {
        return Some(referrer.to_string());
    }
    Some(format!("{}/", referrer.origin().ascii_serialization()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(rules: Rules, proxied: bool, url: &str, referrer: Option<&str>) -> String {
        let writer = Writer {
            rules,
            proxied,
            accept_encoding: AcceptEncoding::Gzip,
            user_agent: "test",
        };
        let referrer: Option<Url> = referrer.map(|referrer| referrer.parse().unwrap());
        let mut conditions = HeaderMap::new();
        conditions.insert("if-none-match", HeaderValue::from_static("\"v1\""));
        let request = Request {
            url: &url.parse().unwrap(),
            destination: Destination::Image,
            referrer: referrer.as_ref(),
            cookie: Some("a=b".to_owned()),
            conditions,
        };
        String::from_utf8(writer.write(&request).to_vec()).unwrap()
    }

    #[test]
    fn a_request_to_the_origin_has_the_fields_of_a_browser() {
        let text = written(
            Rules::persistent(2),
            false,
            "http://a.test:8080/i.png?x=1",
            Some("http://a.test:8080/dir/page"),
        );
        let expected = "GET /i.png?x=1 HTTP/1.1\r\nHost: a.test:8080\r\nUser-Agent: test\r\n\
            Accept: image/webp,image/*,*/*;q=0.8\r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate\r\n\
            Referer: http://a.test:8080/dir/page\r\nCookie: a=b\r\nif-none-match: \"v1\"\r\nConnection: keep-alive\r\n\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn target_form_and_version_depend_on_route_and_rules() {
        let proxied = written(
            Rules::persistent(6),
            true,
            "http://a.test/i.png",
            Some("http://b.test/page"),
        );
        assert!(
            proxied.starts_with("GET http://a.test/i.png HTTP/1.1\r\n"),
            "{proxied}"
        );
        assert!(proxied.contains("\r\nReferer: http://b.test/\r\n"), "{proxied}");
        assert!(
            proxied.ends_with("\r\nProxy-Connection: keep-alive\r\n\r\n"),
            "{proxied}"
        );
        let tunnelled = written(Rules::persistent(6), true, "https://a.test/i.png", None);
        assert!(
            tunnelled.starts_with("GET /i.png HTTP/1.1\r\nHost: a.test\r\n"),
            "{tunnelled}"
        );
        let old = written(Rules::Http10, false, "http://a.test/", Some("https://a.test/"));
        assert!(old.starts_with("GET / HTTP/1.0\r\n"), "{old}");
        assert!(!old.contains("keep-alive") && !old.contains("Referer"), "{old}");
    }
}

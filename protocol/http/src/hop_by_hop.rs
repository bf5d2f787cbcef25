//! Fields that concern a single connection and must not be forwarded (RFC 9110 section 7.6).
use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

use crate::list::members;

/// Pseudonym of agent and gateway in `Via`.
pub const PSEUDONYM: &str = "longhaul";

/// Maximum number of members of `Via` in a message. Longer chains of proxies are almost certainly loops.
pub const MAX_VIA: usize = 32;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Hop-by-hop fields, whether or not `Connection` names them.
static HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Fields that `Connection` cannot remove: without them a message changes its meaning, which has been
/// exploited against caches and access control.
static PROTECTED: [HeaderName; 9] = [
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::HOST,
    header::SET_COOKIE,
];

/// Removes the hop-by-hop fields of a request, including all `Proxy-*` fields. `TE` remains as `trailers` if
/// it contained that value.
pub fn strip_request(headers: &mut HeaderMap) {
    let trailers = members(headers, header::TE).any(|member| member.eq_ignore_ascii_case("trailers"));
    strip(headers);
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Removes the hop-by-hop fields of a response, including all `Proxy-*` fields, and `Alt-Svc`, which would
/// make the browser bypass the proxy (with QUIC, which does not use it).
pub fn strip_response(headers: &mut HeaderMap) {
    strip(headers);
    headers.remove(header::ALT_SVC);
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = members(headers, header::CONNECTION)
        .filter_map(|member| member.parse().ok())
        .filter(|name| !PROTECTED.contains(name))
        .collect();
    let proxy: Vec<HeaderName> = headers
        .keys()
        .filter(|name| name.as_str().starts_with("proxy-"))
        .cloned()
        .collect();
    for name in named.iter().chain(&proxy).chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

/// Returns the protocol to which the request asks to switch, if any (RFC 9110 section 7.8): `Upgrade` counts
/// only if `Connection` names it. Call it before [`strip_request`].
pub fn upgrade(headers: &HeaderMap) -> Option<&str> {
    let named = members(headers, header::CONNECTION).any(|member| member.eq_ignore_ascii_case("upgrade"));
    named.then(|| members(headers, header::UPGRADE).next()).flatten()
}

/// Appends this proxy to `Via` (RFC 9110 section 7.6.3); `received` is the HTTP version of the received
/// message.
pub fn append_via(headers: &mut HeaderMap, received: Version) {
    let member = match received {
        Version::HTTP_09 => "0.9 longhaul",
        Version::HTTP_10 => "1.0 longhaul",
        Version::HTTP_2 => "2 longhaul",
        Version::HTTP_3 => "3 longhaul",
        _ => "1.1 longhaul",
    };
    headers.append(header::VIA, HeaderValue::from_static(member));
}

/// Returns the number of occurrences of this proxy's pseudonym in `Via`. See [`is_loop`].
pub fn times_through(headers: &HeaderMap) -> usize {
    members(headers, header::VIA)
        .filter(|member| {
            let by = member.split_ascii_whitespace().nth(1);
            by.is_some_and(|by| by.eq_ignore_ascii_case(PSEUDONYM))
        })
        .count()
}

/// Returns true if a request loops: `Via` contains this proxy's pseudonym more than `earlier` times, or more
/// than [`MAX_VIA`] members. The agent passes 0, because no other end precedes it; the gateway passes 1.
pub fn is_loop(headers: &HeaderMap, earlier: usize) -> bool {
    times_through(headers) > earlier || members(headers, header::VIA).count() > MAX_VIA
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    fn names(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn hop_by_hop_fields_and_fields_named_in_connection_are_removed() {
        let mut headers = map(&[
            ("connection", "close, X-Private ,,bad name"),
            ("connection", "x-second"),
            ("x-private", "1"),
            ("x-second", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authorization", "Basic eA=="),
            ("proxy-authenticate", "Basic"),
            ("proxy-made-up", "1"),
            ("te", "gzip;q=0.5, Trailers"),
            ("trailer", "expires"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "*/*"),
            ("authorization", "Basic eA=="),
        ]);
        strip_request(&mut headers);
        assert_eq!(names(&headers), ["accept", "authorization", "te"]);
        assert_eq!(headers[header::TE], "trailers");
    }

    #[test]
    fn connection_cannot_remove_end_to_end_fields() {
        let mut headers = map(&[
            ("connection", "host, cookie, content-length, cache-control, close"),
            ("host", "a.test"),
            ("cookie", "a=1"),
            ("content-length", "3"),
            ("cache-control", "private"),
        ]);
        strip_request(&mut headers);
        assert_eq!(
            names(&headers),
            ["cache-control", "content-length", "cookie", "host"]
        );
    }

    #[test]
    fn responses_lose_alt_svc_but_keep_the_rest() {
        let mut headers = map(&[
            ("alt-svc", "h3=\":443\""),
            ("strict-transport-security", "max-age=1"),
            ("access-control-allow-origin", "*"),
            ("te", "trailers"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
        ]);
        strip_response(&mut headers);
        assert_eq!(
            names(&headers),
            [
                "access-control-allow-origin",
                "set-cookie",
                "strict-transport-security"
            ]
        );
        assert_eq!(headers.get_all(header::SET_COOKIE).iter().count(), 2);
    }

    #[test]
    fn upgrade_counts_only_if_connection_names_it() {
        let headers = map(&[("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")]);
        assert_eq!(upgrade(&headers), Some("websocket"));
        assert_eq!(upgrade(&map(&[("upgrade", "websocket")])), None);
    }

    #[test]
    fn via_is_appended_and_reveals_loops() {
        let mut headers = map(&[("via", "1.1 squid (longhaul 1.0), 1.0 other")]);
        assert_eq!(times_through(&headers), 0);
        append_via(&mut headers, Version::HTTP_11);
        assert_eq!(
            headers.get_all(header::VIA).iter().next_back().unwrap(),
            "1.1 longhaul"
        );
        assert!(is_loop(&headers, 0));
        assert!(!is_loop(&headers, 1));
        append_via(&mut headers, Version::HTTP_2);
        assert_eq!(times_through(&headers), 2);
        assert!(is_loop(&headers, 1));
        let mut many = HeaderMap::new();
        for _ in 0..=MAX_VIA {
            many.append(header::VIA, HeaderValue::from_static("1.1 x"));
        }
        assert!(is_loop(&many, 1));
    }

    #[test]
    fn via_names_the_version_of_the_message() {
        for (version, member) in [
            (Version::HTTP_09, "0.9 longhaul"),
            (Version::HTTP_10, "1.0 longhaul"),
            (Version::HTTP_11, "1.1 longhaul"),
            (Version::HTTP_2, "2 longhaul"),
            (Version::HTTP_3, "3 longhaul"),
        ] {
            let mut headers = HeaderMap::new();
            append_via(&mut headers, version);
            assert_eq!(headers[header::VIA], member);
        }
    }

    #[test]
    fn a_long_list_of_proxies_is_a_loop() {
        let mut headers = HeaderMap::new();
        for number in 0..=MAX_VIA {
            assert!(!is_loop(&headers, 0), "{number}");
            headers.append(header::VIA, HeaderValue::from_static("1.1 other"));
        }
        assert!(is_loop(&headers, 0));
    }
}

//! The direct way to hosts of this computer and of its own network: the gateway refuses their addresses and does not know
//! their names.
//!
//! Without an agent, a program of the user reaches such hosts, and so does the user's browser. A page of the Internet must not
//! reach them through the agent: browsers check the addresses of what they load directly (Local Network Access), and cannot
//! do so behind a proxy. So the request decides who asks, by fields that pages can neither set nor remove:
//!
//! * a program that is no browser reaches what it would reach by itself;
//! * a document of a local host reaches local hosts;
//! * a navigation that no page admits to is first answered with a page that no frame displays, and whose own request then
//!   comes from a local document: `pages/local_network.rs`;
//! * everybody else is served as if the host were public, and so refused.
//!
//! Only programs of the agent's own user on this computer are served: a connection of the agent is that user's. Its own ports
//! stay refused, by the guard of [`config`].
//!
//! Other names lead to local addresses for programs alone, once the gateway does not find them: an attacker can own such a
//! name, make it lead anywhere, and show a page under it (DNS rebinding).
use std::net::SocketAddr;

use http::{HeaderMap, HeaderName, Method, header};
use longhaul_http::{local_network::is_local_name, site::host_of_url};
use longhaul_origin::{Cidr, DnsServers, Host, OriginConfig, is_local};
use longhaul_session::FailureReason;

use super::direct;
use crate::access::UserId;

/// Settings of the client for local hosts. The network's own proxy leads to other hosts.
pub fn config(allow: &[Cidr], own: &[SocketAddr]) -> OriginConfig {
    let config = direct::config(allow, own, None);
    OriginConfig {
        dns: DnsServers::Library,
        guard: config.guard.permitting_local(),
        ..config
    }
}

/// Who sends a request, as far as it concerns the local network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A program that is no browser.
    Program,
    /// A document of a local host.
    LocalPage,
    /// A navigation without a requester: the user's, or that of a page which hides.
    Navigation,
    /// A page of another host, a browser that does not say for whom it asks, or a client of another user or computer.
    Foreign,
}

/// Fields that browsers send, and that their pages cannot remove.
static OF_BROWSERS: [HeaderName; 4] = [
    header::ACCEPT_LANGUAGE,
    header::ORIGIN,
    header::REFERER,
    header::UPGRADE_INSECURE_REQUESTS,
];

/// Words in `User-Agent` of browsers and of what they are made of.
const BROWSERS: [&str; 3] = ["mozilla", "cfnetwork", "webkit"];

impl Asker {
    /// Who sends this request; `user` is the operating-system user of the client on this computer.
    pub(crate) fn of(user: Option<UserId>, method: &Method, headers: &HeaderMap) -> Self {
        if user == Some(UserId::own()) {
            Self::of_fields(method, headers)
        } else {
            Self::Foreign
        }
    }

    fn of_fields(method: &Method, headers: &HeaderMap) -> Self {
        if !is_of_browser(headers) {
            return Self::Program;
        }
        let is_given = |name: &HeaderName| headers.contains_key(name);
        if [header::ORIGIN, header::REFERER].iter().any(is_given) {
            let are_local = [header::ORIGIN, header::REFERER]
                .iter()
                .flat_map(|name| headers.get_all(name))
                .all(|value| {
                    value
                        .to_str()
                        .ok()
                        .and_then(host_of_url)
                        .is_some_and(is_local_host)
                });
            return if are_local { Self::LocalPage } else { Self::Foreign };
        }
        let is_prefetch = ["purpose", "sec-purpose"]
            .iter()
            .any(|name| headers.contains_key(*name));
        let says = |name: &str, said: &str| headers.get(name).is_none_or(|value| value == said);
        // Browsers send these fields to few hosts of plain http; `none` means the user.
        let is_own = says("sec-fetch-site", "none") && says("sec-fetch-dest", "document");
        let is_navigation = headers
            .get(header::UPGRADE_INSECURE_REQUESTS)
            .is_some_and(|value| value == "1");
        if *method == Method::GET && is_navigation && is_own && !is_prefetch {
            Self::Navigation
        } else {
            Self::Foreign
        }
    }

    /// True if a request may go to a host that is local by its form.
    pub(crate) const fn reaches_local_hosts(self) -> bool {
        matches!(self, Self::Program | Self::LocalPage)
    }
}

fn is_of_browser(headers: &HeaderMap) -> bool {
    let agents = headers.get_all(header::USER_AGENT);
    let names_browser = agents.iter().any(|agent| {
        let agent = agent.as_bytes().to_ascii_lowercase();
        BROWSERS
            .iter()
            .any(|word| agent.windows(word.len()).any(|part| part == word.as_bytes()))
    });
    let has_security_field = headers.keys().any(|name| name.as_str().starts_with("sec-"));
    names_browser || has_security_field || OF_BROWSERS.iter().any(|name| headers.contains_key(name))
}

/// Returns true for a host that is local by its form: an address, in any notation, or a name that nobody outside of the local
/// network can own.
pub(crate) fn is_local_host(host: &str) -> bool {
    match Host::parse(host) {
        Ok(Host::Address(address)) => is_local(address),
        Ok(Host::Name(name)) => is_local_name(&name),
        Err(_) => false,
    }
}

/// Returns true for a name, which the local network may know.
pub(crate) fn is_name(host: &str) -> bool {
    matches!(Host::parse(host), Ok(Host::Name(_)))
}

/// Returns true if the gateway does not know a host that this computer's own name servers may know, or found an address that
/// is not for it.
pub(crate) const fn may_be_known_here(reason: FailureReason) -> bool {
    matches!(
        reason,
        FailureReason::DnsNotFound | FailureReason::DnsFailed | FailureReason::AddressRefused
    )
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn asker(method: Method, fields: &[(&'static str, &'static str)]) -> Asker {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        Asker::of_fields(&method, &headers)
    }

    const CHROMIUM: (&str, &str) = ("user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36");
    const UPGRADE: (&str, &str) = ("upgrade-insecure-requests", "1");

    #[test]
    fn programs_are_told_from_browsers() {
        for program in [
            "curl/7.88.1",
            "Wget/1.21.3",
            "Debian APT-HTTP/1.3 (2.6.1)",
            "Python-urllib/3.11",
            "git/2.39.5",
        ] {
            let fields = [("user-agent", program), ("accept", "*/*"), ("cookie", "a=b")];
            assert_eq!(asker(Method::POST, &fields), Asker::Program, "{program}");
        }
        assert_eq!(asker(Method::GET, &[]), Asker::Program);
        // A page may name another program where the browser lets it, and cannot remove the other fields.
        for field in [
            ("accept-language", "en"),
            ("sec-fetch-site", "cross-site"),
            ("sec-gpc", "1"),
            ("origin", "null"),
            ("referer", "http://evil.test/"),
            CHROMIUM,
        ] {
            assert_eq!(asker(Method::GET, &[field]), Asker::Foreign, "{field:?}");
        }
    }

    #[test]
    fn only_local_documents_and_bare_navigations_of_browsers_are_heard() {
        assert_eq!(asker(Method::GET, &[CHROMIUM, UPGRADE]), Asker::Navigation);
        assert_eq!(
            asker(Method::GET, &[CHROMIUM, UPGRADE, ("sec-gpc", "1")]),
            Asker::Navigation
        );
        for more in [
            ("purpose", "prefetch"),
            ("sec-purpose", "prefetch;prerender"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-dest", "iframe"),
            ("origin", "null"),
            ("referer", "http://evil.test/"),
            ("referer", "http://192.168.0.1.evil.test/"),
            ("referer", "http://192.168.0.1@evil.test/"),
        ] {
            assert_eq!(
                asker(Method::GET, &[CHROMIUM, UPGRADE, more]),
                Asker::Foreign,
                "{more:?}"
            );
        }
        assert_eq!(asker(Method::POST, &[CHROMIUM, UPGRADE]), Asker::Foreign);
        for local in [
            "http://192.168.0.1/x",
            "http://router.local/",
            "http://[fd00::1]:81/",
            "http://nas/",
        ] {
            assert_eq!(
                asker(Method::POST, &[CHROMIUM, ("referer", local)]),
                Asker::LocalPage,
                "{local}"
            );
        }
        let both = [
            CHROMIUM,
            ("origin", "http://evil.test"),
            ("referer", "http://192.168.0.1/"),
        ];
        assert_eq!(asker(Method::GET, &both), Asker::Foreign);
    }

    #[test]
    fn hosts_are_local_by_their_form() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0",
            "::1",
            "192.168.0.1",
            "fe80::1",
            "printer.local",
            "nas",
            "x.localhost.",
        ] {
            assert!(is_local_host(host), "{host}");
        }
        for host in [
            "1.1.1.1",
            "169.254.169.254",
            "64:ff9b::a00:1",
            "a.test",
            "fritz.box",
            "a..local",
            "",
        ] {
            assert!(!is_local_host(host), "{host}");
        }
    }
}

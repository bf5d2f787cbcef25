//! A look for a captive portal: the question to the gateway, and a second opinion from a public host.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use http::StatusCode;
use longhaul_http::captive_portal::{self, NONCE_LENGTH};
use longhaul_types::Invite;
use tokio::{net::lookup_host, time::timeout};
use url::Url;

use super::{
    super::carriers::host,
    http::{Answer, get},
};
use crate::trouble::LoginPage;

/// Time for one question, with the lookup of the name.
const QUESTION_TIME: Duration = Duration::from_secs(4);
/// Maximum number of addresses of a name that are tried.
const MAX_ADDRESSES: usize = 2;
/// What the second opinion asks, unless the settings name another page: Firefox asks the same in each new network.
const PUBLIC_HOST: &str = "detectportal.firefox.com";
const PUBLIC_PATH: &str = "/success.txt";
const PUBLIC_ANSWER: &[u8] = b"success";
/// RFC 6585 section 6: Network Authentication Required.
const LOGIN_REQUIRED: StatusCode = StatusCode::NETWORK_AUTHENTICATION_REQUIRED;

/// `[portal]`: how the agent looks for captive portals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalSettings {
    /// `portal.port`: TCP port of the gateway for the question. Default [`PortalSettings::DEFAULT_PORT`].
    pub port: u16,
    /// `portal.check`: who is asked if the gateway has no such port. Default [`PortalCheck::Public`].
    pub check: PortalCheck,
}

impl PortalSettings {
    /// The port of HTTP, which portals answer.
    pub const DEFAULT_PORT: u16 = 80;
}

impl Default for PortalSettings {
    fn default() -> Self {
        Self {
            port: Self::DEFAULT_PORT,
            check: PortalCheck::default(),
        }
    }
}

/// Who is asked if the gateway has no port for the question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PortalCheck {
    /// The host that Firefox asks.
    #[default]
    Public,
    /// Nobody.
    Off,
    /// This page, which answers 204 without a portal.
    Url(Url),
}

/// Result of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The network passes plain HTTP.
    Open,
    /// The network answers in the place of other hosts.
    Portal(LoginPage),
    /// Nothing answers, or nothing that says anything.
    Silent,
}

/// What else is known when a look is made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circumstances {
    /// The gateway has announced that it answers questions on this port.
    pub(super) announced_port: Option<u16>,
    /// No session was open in this network yet: then a public host may be asked.
    pub(super) is_new_network: bool,
}

/// Looks for a portal before the gateway of `invite`.
pub(super) async fn look(settings: &PortalSettings, invite: &Invite, known: Circumstances) -> Verdict {
    let mut nonce = [0; NONCE_LENGTH];
    if getrandom::fill(&mut nonce).is_err() {
        return Verdict::Silent;
    }
    let name = host(invite.address());
    let path = captive_portal::question(&invite.gateway(), &nonce);
    let (answer, is_here) = ask(name, settings.port, &path).await;
    let expected = captive_portal::answer(&invite.gateway(), &nonce);
    let first = judge(&page_of(name, settings.port, &path), answer.as_ref(), |answer| {
        answer.status == StatusCode::OK && answer.body == expected.as_bytes()
    });
    let is_known = known.announced_port == Some(settings.port);
    match first {
        Judged::Genuine => return Verdict::Open,
        Judged::Foreign(page) if is_known => return Verdict::Portal(page),
        // Without an answer there is no portal, if the gateway is known to answer.
        Judged::Nothing if is_known => return Verdict::Silent,
        Judged::Foreign(_) | Judged::Odd | Judged::Nothing | Judged::Login(_) => {}
    }
    let second = match &settings.check {
        // A gateway on this computer has no network before it.
        PortalCheck::Public if known.is_new_network && !is_here => public_opinion().await,
        PortalCheck::Url(url) if known.is_new_network => opinion_of(url).await,
        PortalCheck::Public | PortalCheck::Off | PortalCheck::Url(_) => Judged::Nothing,
    };
    match (second, first) {
        (Judged::Genuine, _) => Verdict::Open,
        (Judged::Login(page) | Judged::Foreign(page), _) | (_, Judged::Login(page)) => Verdict::Portal(page),
        (Judged::Odd | Judged::Nothing, _) => Verdict::Silent,
    }
}

async fn public_opinion() -> Judged {
    let (answer, _) = ask(PUBLIC_HOST, PortalSettings::DEFAULT_PORT, PUBLIC_PATH).await;
    let asked = page_of(PUBLIC_HOST, PortalSettings::DEFAULT_PORT, PUBLIC_PATH);
    judge(&asked, answer.as_ref(), |answer| {
        answer.status == StatusCode::OK && answer.body.trim_ascii() == PUBLIC_ANSWER
    })
}

async fn opinion_of(url: &Url) -> Judged {
    let name = url.host_str().unwrap_or_default();
    let port = url.port().unwrap_or(PortalSettings::DEFAULT_PORT);
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let (answer, _) = ask(name.trim_start_matches('[').trim_end_matches(']'), port, &path).await;
    judge(&Some(url.clone()), answer.as_ref(), |answer| {
        answer.status == StatusCode::NO_CONTENT
    })
}

/// Asks a host; also returns true if it is this computer.
async fn ask(name: &str, port: u16, path: &str) -> (Option<Answer>, bool) {
    let mut is_here = false;
    let asking = async {
        let found = lookup_host((name, port)).await.ok()?;
        let addresses: Vec<SocketAddr> = found.take(MAX_ADDRESSES).collect();
        is_here = addresses.iter().all(|address| address.ip().is_loopback());
        let name = name_in_url(name);
        let host = match port {
            PortalSettings::DEFAULT_PORT => name,
            _ => format!("{name}:{port}"),
        };
        get(&addresses, &host, path).await
    };
    let answer = timeout(QUESTION_TIME, asking).await.ok().flatten();
    (answer, is_here)
}

/// A host as in a URL: an IPv6 address has brackets there.
fn name_in_url(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        Ok(IpAddr::V4(_)) | Err(_) => name.to_owned(),
    }
}

/// The page that was asked for; `None` if its host has no name that a URL may have.
fn page_of(name: &str, port: u16, path: &str) -> Option<Url> {
    Url::parse(&format!("http://{}:{port}{path}", name_in_url(name))).ok()
}

/// What one answer shows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    /// The expected answer.
    Genuine,
    /// An answer that only a login page gives: a redirect to another host, or 511.
    Login(LoginPage),
    /// Another answer of a web server: a page, or a redirect to the same host.
    Foreign(LoginPage),
    /// An error of a web server, which says little.
    Odd,
    /// Nothing.
    Nothing,
}

fn judge(asked: &Option<Url>, answer: Option<&Answer>, is_genuine: impl Fn(&Answer) -> bool) -> Judged {
    let (Some(asked), Some(answer)) = (asked, answer) else {
        return Judged::Nothing;
    };
    if is_genuine(answer) {
        return Judged::Genuine;
    }
    let target = answer
        .location
        .as_ref()
        .and_then(|target| asked.join(target).ok());
    let target = target.filter(|target| ["http", "https"].contains(&target.scheme()));
    let leads_away = target
        .as_ref()
        .is_some_and(|target| target.host_str() != asked.host_str());
    let status = answer.status;
    let page = LoginPage::new(asked, target);
    if status == LOGIN_REQUIRED || status.is_redirection() && leads_away {
        Judged::Login(page)
    } else if status.is_success() || status.is_redirection() {
        Judged::Foreign(page)
    } else {
        Judged::Odd
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn judged(status: u16, location: Option<&str>) -> Judged {
        let asked = page_of("gw.test", 80, "/x");
        let answer = Answer {
            status: StatusCode::from_u16(status).unwrap(),
            location: location.map(str::to_owned),
            body: Bytes::from_static(b"<html>"),
        };
        judge(&asked, Some(&answer), |_| false)
    }

    #[test]
    fn a_login_page_is_told_from_another_server_and_from_an_error() {
        let login = |status, location| matches!(judged(status, location), Judged::Login(_));
        assert!(login(302, Some("http://login.hotel.test/?x")));
        assert!(login(307, Some("https://login.hotel.test/")));
        assert!(login(511, None));
        assert!(!login(302, Some("/login")) && !login(302, Some("javascript:alert(1)")) && !login(200, None));
        for (status, location) in [
            (200, None),
            (302, Some("/login")),
            (301, Some("https://gw.test/")),
        ] {
            assert!(
                matches!(judged(status, location), Judged::Foreign(_)),
                "{status} {location:?}"
            );
        }
        for status in [403, 404, 500, 502, 504] {
            assert_eq!(judged(status, None), Judged::Odd, "{status}");
        }
        assert_eq!(
            judge(&page_of("gw.test", 80, "/x"), None, |_| true),
            Judged::Nothing
        );
        let Judged::Login(page) = judged(302, Some("http://login.hotel.test/a?b")) else {
            panic!("a portal");
        };
        assert_eq!(page.address(), "http://login.hotel.test/a?b");
        assert_eq!(page.host(), Some("login.hotel.test"));
    }

    #[test]
    fn the_page_to_open_of_a_portal_that_does_not_redirect_has_no_secret() {
        let Judged::Foreign(page) = judged(200, None) else {
            panic!("a page");
        };
        assert_eq!(
            (page.address(), page.host()),
            ("http://gw.test/".to_owned(), None)
        );
    }

    #[test]
    fn addresses_are_written_as_in_urls() {
        let asked = page_of("2001:db8::1", 8080, "/x").unwrap();
        assert_eq!(asked.as_str(), "http://[2001:db8::1]:8080/x");
        assert_eq!(name_in_url("192.0.2.1"), "192.0.2.1");
    }
}

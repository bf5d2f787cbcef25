//! Cookie jar of one page load (RFC 6265), which predicts the `Cookie` field of the browser's requests byte
//! for byte.
//!
//! A jar contains the cookies of the page's request and those that responses of this page load set. Only
//! same-site requests carry cookies: the document that makes the request, all its ancestors and all URLs of
//! the redirect chain are same-site with the target.
//!
//! Domain and path of a cookie of the page's request are unknown. Such a cookie is sent only to the page's
//! host, and only if every path that it can have matches ([`CookiePathObservations`]). If this is unknown for one cookie,
//! the request carries no cookie at all: the response is then the one without login, and not one for half of
//! a login.
mod cookie_path_observations;
mod date;
mod set_cookie;
mod site;
#[cfg(test)]
mod tests;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use longhaul_http::{
    cookies,
    site::{is_public_suffix, registrable_domain},
};
use longhaul_types::UnixTime;
use url::Url;

pub use self::{
    cookie_path_observations::CookiePathObservations,
    site::{is_same_site, is_trustworthy},
};
use self::{
    cookie_path_observations::Path,
    set_cookie::{Expiry, SameSite, SetCookie},
};
use crate::{RequestChain, predict::Browser};

/// Cookie jar of one page load.
#[derive(Clone, Debug)]
pub struct Jar {
    browser: Browser,
    cookies: Vec<Cookie>,
    /// Counter that replaces the creation time, by which cookies are ordered.
    next: u64,
}

/// Cookies of a predicted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// The `Cookie` field, if the request has one.
    Known(Option<HeaderValue>),
    /// The browser may send cookies that the request must not carry, because it is unknown whether they match
    /// its target.
    Withheld,
}

/// Initiator of a navigation of the browser's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Navigation {
    /// The user, or a document of the same site.
    SameSite,
    /// A document of another site, or unknown.
    CrossSite,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    domain: Domain,
    path: Path,
    secure: bool,
    /// Not sent with navigations that other sites start.
    strict: bool,
    expiry: Option<UnixTime>,
    created: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Domain {
    /// From the page's request: the true domain is this host or a parent domain; the jar uses only this host.
    Page {
        scheme: String,
        host: String,
        path: String,
    },
    /// This host only.
    Host(String),
    /// This domain and its subdomains.
    Below(String),
}

impl Jar {
    /// Creates the jar of a page load that begins with a request for `page` with the fields `request`.
    /// `cookie_paths` records to which other URLs the browser sends its cookies.
    pub fn new(page: &Url, request: &HeaderMap, cookie_paths: &CookiePathObservations) -> Self {
        let browser = Browser::of(request);
        let mut jar = Self {
            browser,
            cookies: Vec::new(),
            next: 0,
        };
        let host = page.host_str().unwrap_or_default();
        let whole = cookies::joined(request).unwrap_or_default();
        let pairs: Vec<_> = cookies::pairs(&whole).take(MAX_PAGE_COOKIES).collect();
        for ((name, value), path) in pairs.iter().zip(cookie_paths.paths(page, browser, &pairs)) {
            let domain = Domain::Page {
                scheme: page.scheme().to_owned(),
                host: host.to_owned(),
                path: page.path().to_owned(),
            };
            jar.push(Cookie {
                name: name.to_vec(),
                value: value.to_vec(),
                domain,
                path,
                secure: false,
                strict: false,
                expiry: None,
                created: 0,
            });
        }
        jar
    }

    /// Stores the cookies of a response's `Set-Cookie` fields. `chain` is the chain of the request, `None`
    /// for the navigation itself. Cookies of cross-site requests are ignored.
    pub fn store(&mut self, url: &Url, response: &HeaderMap, chain: Option<&RequestChain>, now: UnixTime) {
        if chain.is_some_and(|chain| !chain.is_same_site(url)) {
            return;
        }
        for field in response.get_all(header::SET_COOKIE) {
            if let Some(set) = set_cookie::parse(field.as_bytes()) {
                self.set(url, &set, now);
            }
        }
    }

    /// Returns the `Cookie` field that the browser sends with a document's request.
    pub fn cookies_for(&self, url: &Url, chain: &RequestChain, now: UnixTime) -> Cookies {
        if !chain.is_same_site(url) {
            return Cookies::Known(None);
        }
        self.field(url, now, |_| true)
    }

    /// Returns the `Cookie` field that the browser sends with a navigation of its window.
    pub fn cookies_of_navigation(&self, url: &Url, navigation: Navigation, now: UnixTime) -> Cookies {
        self.field(url, now, |cookie| {
            !cookie.strict || navigation == Navigation::SameSite
        })
    }

    /// Values of all cookies of the page load.
    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.cookies.iter().map(|cookie| cookie.value.as_slice())
    }

    fn field(&self, url: &Url, now: UnixTime, goes: impl Fn(&Cookie) -> bool) -> Cookies {
        let live = |cookie: &&Cookie| cookie.expiry.is_none_or(|expiry| expiry > now);
        let of_host = || {
            self.cookies
                .iter()
                .filter(live)
                .filter(|cookie| cookie.is_of(url))
        };
        if of_host().any(|cookie| cookie.may_be_for(url) && !cookie.is_for(url)) {
            return Cookies::Withheld;
        }
        let mut sent: Vec<&Cookie> = of_host()
            .filter(|cookie| cookie.is_for(url) && goes(cookie))
            .collect();
        // RFC 6265 section 5.4: longer paths first, then earlier creation.
        sent.sort_by_key(|cookie| (std::cmp::Reverse(cookie.path_length()), cookie.created));
        let mut field = Vec::new();
        for cookie in sent {
            if !field.is_empty() {
                field.extend_from_slice(b"; ");
            }
            field.extend_from_slice(&cookie.name);
            if !cookie.name.is_empty() {
                field.push(b'=');
            }
            field.extend_from_slice(&cookie.value);
        }
        if field.is_empty() {
            return Cookies::Known(None);
        }
        Cookies::Known(HeaderValue::from_bytes(&field).ok())
    }

    /// Stores a cookie (RFC 6265 section 5.3).
    fn set(&mut self, url: &Url, set: &SetCookie<'_>, now: UnixTime) {
        let Some(host) = url.host_str() else { return };
        let safe = is_trustworthy(url);
        let domain = match domain(url, host, set) {
            Scope::None => return,
            Scope::Host => Domain::Host(host.to_owned()),
            Scope::Below(domain) => Domain::Below(domain),
        };
        let path = set.path.map_or_else(|| default_path(url.path()), <[u8]>::to_vec);
        if set.secure && !safe
            || set.same_site == SameSite::None && !set.secure
            || !is_prefix_kept(set, &path)
        {
            return;
        }
        let expiry = match set.expiry {
            Expiry::Session => None,
            Expiry::At(time) => Some(time),
            Expiry::After(seconds) => Some(now + Duration::from_secs(seconds)),
        };
        let old = self
            .cookies
            .iter()
            .position(|cookie| cookie.is_replaced_by(set.name, &domain, &path, host));
        let old = old.map(|at| self.cookies.remove(at));
        if expiry.is_some_and(|expiry| expiry <= now) {
            return;
        }
        let cookie = Cookie {
            name: set.name.to_vec(),
            value: set.value.to_vec(),
            domain,
            path: Path::Exact(path),
            secure: set.secure,
            strict: set.same_site == SameSite::Strict,
            expiry,
            created: 0,
        };
        match old {
            // RFC 6265 keeps the creation time; Chromium does so only if the value is unchanged.
            Some(old) if self.browser != Browser::Chromium || old.value == cookie.value => {
                self.cookies.push(Cookie {
                    created: old.created,
                    ..cookie
                });
            }
            _ => self.add(cookie),
        }
    }

    fn add(&mut self, cookie: Cookie) {
        let of_host = |other: &&Cookie| other.domain.set_by() == cookie.domain.set_by();
        let full = self.cookies.iter().filter(of_host).count() >= MAX_OF_HOST;
        if !full && self.cookies.len() < MAX_COOKIES {
            self.push(cookie);
        }
    }

    fn push(&mut self, mut cookie: Cookie) {
        cookie.created = self.next;
        self.next += 1;
        self.cookies.push(cookie);
    }
}

impl Cookie {
    /// Returns true if the cookie's domain and scheme match a URL.
    fn is_of(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let by_domain = match &self.domain {
            Domain::Page {
                scheme, host: page, ..
            } => scheme == url.scheme() && host == page,
            Domain::Host(own) => host == own,
            Domain::Below(domain) => is_within(host, domain),
        };
        by_domain && (!self.secure || is_trustworthy(url))
    }

    /// Returns true if the path certainly matches a URL of the cookie's host.
    fn is_for(&self, url: &Url) -> bool {
        path_matches(url.path().as_bytes(), self.path.as_bytes())
    }

    /// Returns true if the path may match a URL of the cookie's host.
    fn may_be_for(&self, url: &Url) -> bool {
        match &self.path {
            Path::Exact(_) => self.is_for(url),
            // The true path may be `/`.
            Path::AtMost(_) => true,
        }
    }

    /// Path length by which cookies are ordered. An unknown path is most likely `/`.
    fn path_length(&self) -> usize {
        match &self.path {
            Path::Exact(path) => path.len(),
            Path::AtMost(_) => 1,
        }
    }

    /// Returns true if a cookie that `host` sets replaces this one. Domain and path of a cookie of the page's
    /// request are unknown; a cookie of the same name is most likely the same cookie.
    fn is_replaced_by(&self, name: &[u8], domain: &Domain, path: &[u8], host: &str) -> bool {
        let same_place = match &self.domain {
            Domain::Page {
                host: page,
                path: sent_to,
                ..
            } => {
                let reaches = match domain {
                    Domain::Below(domain) => is_within(page, domain),
                    Domain::Host(_) | Domain::Page { .. } => host == page,
                };
                reaches && path_matches(sent_to.as_bytes(), path)
            }
            Domain::Host(_) | Domain::Below(_) => self.domain == *domain && self.path.as_bytes() == path,
        };
        same_place && self.name == name
    }
}

impl Domain {
    /// Domain under which cookies set by responses are counted.
    fn set_by(&self) -> Option<&str> {
        match self {
            Self::Page { .. } => None,
            Self::Host(name) | Self::Below(name) => Some(name),
        }
    }
}

/// Domain scope of a cookie that a response sets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// The host may not set the cookie.
    None,
    /// The host that sets the cookie.
    Host,
    /// This domain and its subdomains.
    Below(String),
}

fn domain(url: &Url, host: &str, set: &SetCookie<'_>) -> Scope {
    let Some(domain) = &set.domain else {
        return Scope::Host;
    };
    let is_name = matches!(url.host(), Some(url::Host::Domain(_)));
    if domain == host && (!is_name || is_public_suffix(domain)) {
        return Scope::Host;
    }
    let is_site = || registrable_domain(domain) == registrable_domain(host);
    if !is_name || is_public_suffix(domain) || !is_within(host, domain) || !is_site() {
        return Scope::None;
    }
    Scope::Below(domain.clone())
}

/// Returns true if the cookie satisfies the requirements of its name prefix (RFC 6265bis section 4.1.3).
fn is_prefix_kept(set: &SetCookie<'_>, path: &[u8]) -> bool {
    // A cookie without a name could imitate a prefix in its value.
    let name = if set.name.is_empty() { set.value } else { set.name };
    let name = name.to_ascii_lowercase();
    if name.starts_with(b"__host-") {
        return !set.name.is_empty()
            && set.secure
            && set.domain.is_none()
            && set.path.is_some()
            && path == b"/";
    }
    if name.starts_with(b"__secure-") {
        return !set.name.is_empty() && set.secure;
    }
    true
}

/// Default path (RFC 6265 section 5.1.4).
fn default_path(path: &str) -> Vec<u8> {
    match path.rfind('/') {
        Some(at) if at > 0 => path.as_bytes()[..at].to_vec(),
        _ => b"/".to_vec(),
    }
}

/// Path match (RFC 6265 section 5.1.4).
fn path_matches(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

/// Domain match (RFC 6265 section 5.1.3), for names.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Maximum number of cookies per host that responses set; RFC 6265 section 6.1 requires at least this number.
/// Cookies of the page's request do not count.
const MAX_OF_HOST: usize = 50;
/// Maximum number of cookies of all hosts of a page load.
const MAX_COOKIES: usize = 300;
/// Maximum number of cookies taken from the page's request: browsers store up to 180 per site, so no browser
/// sends more.
const MAX_PAGE_COOKIES: usize = 200;

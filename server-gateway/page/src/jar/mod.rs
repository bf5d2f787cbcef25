//! The cookies of one page load (RFC 6265), to predict the `Cookie` field of the browser's requests byte for byte.
//!
//! A jar lives for one page load of one device and knows two things: the cookies that came with the request for the
//! page, and what the responses of this page load have set since. Cookies go out with same-site requests only: the
//! document that makes the request, all documents around it and all URLs on the way are of the target's site.
//!
//! Of a cookie that came with the page's request, domain and path are not known. It goes to the page's host only, and
//! only where every path that it can have lets it go ([`Sightings`]). A request with a cookie of which that cannot be
//! told carries none at all: the response is then one that anybody gets, and not one for half of a login.
mod date;
mod set_cookie;
mod sightings;
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

use self::{
    set_cookie::{Expiry, SameSite, SetCookie},
    sightings::Path,
};
pub use self::{
    sightings::Sightings,
    site::{is_same_site, is_trustworthy},
};
use crate::{Cause, predict::Browser};

/// The cookies of one page load.
#[derive(Clone, Debug)]
pub struct Jar {
    browser: Browser,
    cookies: Vec<Cookie>,
    /// Stands for the time of creation, by which cookies are ordered.
    next: u64,
}

/// The cookies of a predicted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookies {
    /// Its `Cookie` field, if it has one.
    Known(Option<HeaderValue>),
    /// The browser may send some that the request must not carry, as it is not known whether they are for its target.
    Withheld,
}

/// How a navigation of the browser's window came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Navigation {
    /// By its user, or by a document of the same site.
    SameSite,
    /// By a document of another site, or one that is not known.
    CrossSite,
}

#[derive(Clone, Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    domain: Domain,
    path: Path,
    secure: bool,
    /// Not for navigations that other sites begin.
    strict: bool,
    expiry: Option<UnixTime>,
    created: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Domain {
    /// Came with the page's request: the true domain is this host or above, taken for this host alone.
    Page {
        scheme: String,
        host: String,
        path: String,
    },
    /// Only this host.
    Host(String),
    /// This domain and all below.
    Below(String),
}

impl Jar {
    /// The jar of a page load that begins with a request for `page`, which has these header fields. `sightings` know
    /// where else the browser sends its cookies.
    pub fn new(page: &Url, request: &HeaderMap, sightings: &Sightings) -> Self {
        let browser = Browser::of(request);
        let mut jar = Self {
            browser,
            cookies: Vec::new(),
            next: 0,
        };
        let host = page.host_str().unwrap_or_default();
        let whole = cookies::joined(request).unwrap_or_default();
        let pairs: Vec<_> = cookies::pairs(&whole).take(MAX_PAGE_COOKIES).collect();
        for ((name, value), path) in pairs.iter().zip(sightings.paths(page, browser, &pairs)) {
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

    /// Takes the `Set-Cookie` fields of a response to a request of this page load; `cause` is why a document made the
    /// request, none for the navigation itself. Those of other sites are not taken.
    pub fn store(&mut self, url: &Url, response: &HeaderMap, cause: Option<&Cause>, now: UnixTime) {
        if cause.is_some_and(|cause| !cause.is_same_site(url)) {
            return;
        }
        for field in response.get_all(header::SET_COOKIE) {
            if let Some(set) = set_cookie::parse(field.as_bytes()) {
                self.set(url, &set, now);
            }
        }
    }

    /// The `Cookie` field that the browser sends with a request of a document.
    pub fn cookies_for(&self, url: &Url, cause: &Cause, now: UnixTime) -> Cookies {
        if !cause.is_same_site(url) {
            return Cookies::Known(None);
        }
        self.field(url, now, |_| true)
    }

    /// The `Cookie` field that the browser sends with a navigation of its window.
    pub fn cookies_of_navigation(&self, url: &Url, navigation: Navigation, now: UnixTime) -> Cookies {
        self.field(url, now, |cookie| {
            !cookie.strict || navigation == Navigation::SameSite
        })
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
        // RFC 6265 section 5.4: longer paths first, then the older ones.
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

    /// RFC 6265 section 5.3.
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
            // RFC 6265 keeps the time of creation, Chromium only if the value stays the same.
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
    /// Whether it can go to a URL's host at all.
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

    /// Whether its path surely lets it go to a URL of its host.
    fn is_for(&self, url: &Url) -> bool {
        path_matches(url.path().as_bytes(), self.path.as_bytes())
    }

    /// Whether its path may let it go to a URL of its host.
    fn may_be_for(&self, url: &Url) -> bool {
        match &self.path {
            Path::Exact(_) => self.is_for(url),
            // Each path may in truth be `/`.
            Path::AtMost(_) => true,
        }
    }

    /// The length by which cookies are ordered. A path that is not known is most likely `/`.
    fn path_length(&self) -> usize {
        match &self.path {
            Path::Exact(path) => path.len(),
            Path::AtMost(_) => 1,
        }
    }

    /// Whether a cookie that `host` sets takes this one's place. Domain and path of a cookie that came with the
    /// page's request are not known; one of the same name is most likely the same.
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
    /// The name under which cookies that responses set are counted.
    fn set_by(&self) -> Option<&str> {
        match self {
            Self::Page { .. } => None,
            Self::Host(name) | Self::Below(name) => Some(name),
        }
    }
}

/// Where a cookie goes that a response sets.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    /// The host may not set it.
    None,
    /// The host that set it.
    Host,
    /// This domain and all below.
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

/// The promises that names make (RFC 6265bis section 4.1.3), kept.
fn is_prefix_kept(set: &SetCookie<'_>, path: &[u8]) -> bool {
    // Without a name the value could pass for one.
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

/// RFC 6265 section 5.1.4.
fn default_path(path: &str) -> Vec<u8> {
    match path.rfind('/') {
        Some(at) if at > 0 => path.as_bytes()[..at].to_vec(),
        _ => b"/".to_vec(),
    }
}

/// RFC 6265 section 5.1.4.
fn path_matches(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

/// RFC 6265 section 5.1.3, for names.
fn is_within(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// RFC 6265 section 6.1 asks for at least this many. Those that came with the page's request are not counted.
const MAX_OF_HOST: usize = 50;
/// Of all hosts of a page load.
const MAX_COOKIES: usize = 300;
/// Browsers keep up to 180 of a site; a longer field is none of theirs.
const MAX_PAGE_COOKIES: usize = 200;

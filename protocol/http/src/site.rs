//! Schemeful sites (HTML Living Standard, "schemeful same site"): the unit that shares cookies and private
//! state.
//!
//! The registrable domain is determined by the Public Suffix List including its private section, as in
//! browsers: `a.github.io` and `b.github.io` are two sites. The list is compiled into the program and is as
//! old as the program. A newer suffix counts as an ordinary name, and the sites below it count as one site.
use std::{fmt, net::Ipv6Addr};

/// A scheme and a registrable domain.
///
/// Displayed as an origin without port: `https://site.test`. The order is arbitrary but stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemefulSite {
    scheme: String,
    domain: String,
}

impl SchemefulSite {
    /// Returns the site of a host under a scheme.
    ///
    /// For an IP address, a name of one label and a public suffix, the site's domain is the host itself. IPv6
    /// addresses may be in brackets. A final dot is part of the name, as in browsers.
    pub fn of(scheme: &str, host: &str) -> Self {
        Self {
            scheme: scheme.to_ascii_lowercase(),
            domain: registrable_domain(&host.to_ascii_lowercase()).to_owned(),
        }
    }

    /// Returns the site of a URL or of a serialised origin; `None` without a host, as for `null` and `data:`
    /// URLs.
    pub fn of_url(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim_ascii().split_once("://")?;
        if !is_scheme(scheme) {
            return None;
        }
        let authority = rest.split(['/', '\\', '?', '#']).next()?;
        let place = authority.rsplit('@').next()?;
        let host = if place.starts_with('[') {
            let end = place.find(']')?;
            place.get(..=end)?
        } else {
            place.split(':').next()?
        };
        is_host(host).then(|| Self::of(scheme, host))
    }

    /// Returns true for equal sites: equal schemes and equal registrable domains.
    pub fn is_same_site(&self, other: &Self) -> bool {
        self == other
    }

    /// The scheme, in lower case.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// The registrable domain, or the host if it has none.
    pub fn domain(&self) -> &str {
        &self.domain
    }
}

impl fmt::Display for SchemefulSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.domain)
    }
}

/// Returns the registrable domain of a host name in lower case, or the whole name if it has none.
pub fn registrable_domain(host: &str) -> &str {
    if is_address(host) {
        return host;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    // The list reads a name that ends with further dots without them: such a host is no name.
    let before =
        longhaul_public_suffix::registrable_domain(name).and_then(|domain| name.strip_suffix(domain));
    before.map_or(host, |before| &host[before.len()..])
}

/// Returns a host name and the names above it, the longest first: `a.b.c`, `b.c`, `c`.
pub fn names_above(host: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(host), |name| name.split_once('.').map(|(_, above)| above))
}

/// Returns the host of a URL or of a serialised origin, as it is written there: an IPv6 address without its brackets.
/// `None` without a host.
pub fn host_of_url(url: &str) -> Option<&str> {
    let (scheme, rest) = url.trim_ascii().split_once("://")?;
    if !is_scheme(scheme) {
        return None;
    }
    let authority = rest.split(['/', '\\', '?', '#']).next()?;
    let place = authority.rsplit('@').next()?;
    let host = match place.strip_prefix('[') {
        Some(address) => address.split_once(']')?.0,
        None => place.split(':').next()?,
    };
    (!host.is_empty()).then_some(host)
}

/// Returns true if anybody may register names below this name (in lower case), so that no cookie may cover
/// it. An unknown name of one label is a suffix.
pub fn is_public_suffix(name: &str) -> bool {
    !is_address(name) && longhaul_public_suffix::public_suffix(name).is_some_and(|suffix| suffix == name)
}

/// Returns true if a host is an IP address. By the URL standard, each name whose last label is a number is an
/// IPv4 address.
fn is_address(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
    is_number || host.starts_with('[') || host.parse::<Ipv6Addr>().is_ok()
}

fn is_scheme(scheme: &str) -> bool {
    let mut bytes = scheme.bytes();
    bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

/// Returns true for the hosts of serialised URLs: an ASCII name, or an address.
fn is_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    if let Some(address) = address {
        return address.parse::<Ipv6Addr>().is_ok();
    }
    !host.is_empty()
        && host
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_urls_and_the_names_above_them() {
        for (url, host) in [
            ("https://a.test/x", Some("a.test")),
            (" http://u:p@a.test:8080?x ", Some("a.test")),
            ("http://a.test\\@b.test/", Some("a.test")),
            ("https://[::1]:80/#", Some("::1")),
            ("https://[::1", None),
            ("https:///x", None),
            ("1x://a.test/", None),
            ("a.test/x", None),
        ] {
            assert_eq!(host_of_url(url), host, "{url}");
        }
        assert!(names_above("a.b.test").eq(["a.b.test", "b.test", "test"]));
        assert!(names_above("test").eq(["test"]));
    }

    #[test]
    fn registrable_domains_follow_the_public_suffix_list() {
        for (host, expected) in [
            ("site.test", "site.test"),
            ("a.site.test", "site.test"),
            ("x.y.a.co.uk", "a.co.uk"),
            ("a.co.uk", "a.co.uk"),
            ("co.uk", "co.uk"),
            ("me.github.io", "me.github.io"),
            ("www.me.github.io", "me.github.io"),
            ("github.io", "github.io"),
            // Exceptions and wildcards of the list.
            ("www.ck", "www.ck"),
            ("x.www.ck", "www.ck"),
            ("a.b.ck", "a.b.ck"),
            ("xn--p1ai", "xn--p1ai"),
            ("a.b.xn--p1ai", "b.xn--p1ai"),
            ("localhost", "localhost"),
            ("com", "com"),
            ("a.site.test.", "site.test."),
            ("", ""),
            (".", "."),
            ("..", ".."),
            ("10.0.0.1", "10.0.0.1"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
        ] {
            assert_eq!(registrable_domain(host), expected, "{host}");
        }
    }

    #[test]
    fn public_suffixes() {
        for name in ["com", "co.uk", "github.io", "test", "localhost", "a.ck"] {
            assert!(is_public_suffix(name), "{name}");
        }
        for name in ["site.test", "a.co.uk", "www.ck", "10.0.0.1", "[::1]", ""] {
            assert!(!is_public_suffix(name), "{name}");
        }
    }

    #[test]
    fn sites_have_schemes() {
        let same = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|url| SchemefulSite::of_url(url).unwrap());
            one.is_same_site(&other)
        };
        assert!(same("http://www.site.test/", "http://static.site.test:8080/x"));
        assert!(same("https://WWW.Site.TEST", "HTTPS://site.test/?q#f"));
        assert!(!same("http://site.test/", "https://site.test/"));
        assert!(!same("http://a.github.io/", "http://b.github.io/"));
        assert!(!same("http://site.test/", "http://other.test/"));
        assert!(!same("http://site.test/", "http://site.test./"));
        assert!(!same("http://10.0.0.1/", "http://11.0.0.1/"));
        assert!(same("http://10.0.0.1/", "http://10.0.0.1:81/"));
        assert!(same("http://[::1]/", "http://[::1]:81"));
    }

    #[test]
    fn urls_and_origins() {
        for (url, expected) in [
            ("https://a.site.test", Some("https://site.test")),
            ("https://user:pass@a.site.test:444/x@y", Some("https://site.test")),
            ("http://evil.test\\@site.test/", Some("http://evil.test")),
            ("http://evil.test?@site.test/", Some("http://evil.test")),
            ("http://evil.test#@site.test/", Some("http://evil.test")),
            (" http://site.test/ ", Some("http://site.test")),
            ("http://[::1]:80/", Some("http://[::1]")),
            ("chrome-extension://abcdef", Some("chrome-extension://abcdef")),
            ("null", None),
            ("", None),
            ("data:text/html,x", None),
            ("about:blank", None),
            ("://site.test", None),
            ("9p://site.test", None),
            ("http://", None),
            ("http:///x", None),
            ("http://[::1", None),
            ("http://[x]/", None),
            ("http://a b/", None),
            ("http://bücher.test/", None),
            ("file:///etc/passwd", None),
        ] {
            let site = SchemefulSite::of_url(url).map(|site| site.to_string());
            assert_eq!(site.as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn parts_are_in_lower_case() {
        let site = SchemefulSite::of("HTTPS", "A.Site.Test");
        assert_eq!((site.scheme(), site.domain()), ("https", "site.test"));
    }

    #[test]
    fn a_host_with_several_dots_at_its_end_has_no_registrable_domain() {
        for host in ["a.example.com..", "\u{103011}.com..", "..", "com..."] {
            assert_eq!(registrable_domain(host), host);
        }
        assert_eq!(registrable_domain("a.example.com."), "example.com.");
    }

    proptest::proptest! {
        #[test]
        fn no_input_panics(text in ".*") {
            let _ = SchemefulSite::of_url(&text);
            let _ = SchemefulSite::of_url(&format!("http://{text}"));
            let site = SchemefulSite::of("http", &text);
            proptest::prop_assert_eq!(&SchemefulSite::of("http", site.domain()), &site);
        }
    }
}

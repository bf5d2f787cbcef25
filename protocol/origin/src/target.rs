//! Targets of requests: scheme, host and port, parsed from a URL as browsers do (WHATWG URL standard).
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

use http::{Uri, uri::PathAndQuery};

use crate::error::BadUrl;

/// Maximum length of a domain name in text form (RFC 1035 section 2.3.4, without the root's length byte and
/// the final dot).
const MAX_NAME: usize = 253;
/// Maximum length of a label of a domain name (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;

/// Host in its canonical form.
///
/// All notations of an IPv4 address that browsers accept (`127.1`, `0x7f000001`, `2130706433`, `0177.0.0.1`)
/// become the same [`Host::Address`], so that none of them is taken for a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// An address literal.
    Address(IpAddr),
    /// A domain name: lower case, ASCII (IDNA), without the final dot.
    Name(String),
}

/// Origin of a request: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    /// Scheme of the origin.
    pub scheme: Scheme,
    /// Host of the origin.
    pub host: Host,
    /// The port; the scheme's default if the URL has none.
    pub port: u16,
}

/// Schemes of URLs that can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// `http`: no encryption.
    Http,
    /// `https`: TLS.
    Https,
}

impl Host {
    /// Parses a host of a URL or of a `CONNECT` request; IPv6 with or without brackets.
    ///
    /// # Errors
    /// [`BadUrl::Host`] if the host is invalid; [`BadUrl::NoHost`] if it is empty.
    pub fn parse(text: &str) -> Result<Self, BadUrl> {
        if text.is_empty() {
            return Err(BadUrl::NoHost);
        }
        if let Ok(v6) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Address(v6.into()));
        }
        if is_plain_name(text) {
            return Self::name(text);
        }
        match url::Host::parse(text).map_err(|_| BadUrl::Host)? {
            url::Host::Domain(name) => Self::name(&name),
            url::Host::Ipv4(v4) => Ok(Self::Address(v4.into())),
            url::Host::Ipv6(v6) => Ok(Self::Address(v6.into())),
        }
    }

    fn name(name: &str) -> Result<Self, BadUrl> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let labels_fit = name
            .split('.')
            .all(|label| !label.is_empty() && label.len() <= MAX_LABEL);
        if !labels_fit || name.len() > MAX_NAME {
            return Err(BadUrl::Host);
        }
        Ok(Self::Name(name.to_ascii_lowercase()))
    }

    /// Returns true if the name denotes this machine: `localhost` and all names below it (RFC 6761 section
    /// 6.3).
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Address(_) => false,
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

/// True for a name that has its final form and cannot be another notation of an address. Chromium looks such names up
/// even if IDNA has no decoding of them (`xn--a.test`), unlike the URL standard.
fn is_plain_name(text: &str) -> bool {
    let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next();
    let may_end_an_address = last.is_none_or(|label| label.starts_with(|c: char| c.is_ascii_digit()));
    !may_end_an_address && text.bytes().all(|byte| byte == b'.' || is_of_names(byte))
}

/// True for the characters of names that browsers look up: letters, digits, hyphens and underscores in any place.
pub(crate) const fn is_of_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

impl fmt::Display for Host {
    /// Formats the host as in a URL: IPv6 in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(v4)) => v4.fmt(f),
            Self::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Scheme {
    /// Port of a URL without explicit port.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl Target {
    /// Returns the target of an absolute URL.
    ///
    /// # Errors
    /// [`BadUrl`] if the URL is not acceptable.
    pub fn of(uri: &Uri) -> Result<Self, BadUrl> {
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            Some(_) => return Err(BadUrl::Scheme),
            None => return Err(BadUrl::NoHost),
        };
        let authority = uri.authority().ok_or(BadUrl::NoHost)?.as_str();
        if authority.contains('@') {
            return Err(BadUrl::UserInfo);
        }
        // Not `Uri::port`, which treats a number that is too large as no port.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            Some(_) | None => (authority, ""),
        };
        let port = match port {
            "" => scheme.default_port(),
            digits => longhaul_http::target::port(digits).ok_or(BadUrl::Port)?,
        };
        Ok(Self {
            scheme,
            host: Host::parse(host)?,
            port,
        })
    }

    /// Serializes the origin as in the `Origin` field (RFC 6454 section 6.2).
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme.as_str(), self.authority())
    }

    /// Returns the host, followed by the port if it is not the scheme's default.
    pub(crate) fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Returns the URL of a resource of this target, with the host in canonical form.
    pub(crate) fn uri(&self, path: Option<&PathAndQuery>) -> Result<Uri, BadUrl> {
        let path = path.cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        Uri::builder()
            .scheme(self.scheme.as_str())
            .authority(self.authority())
            .path_and_query(path)
            .build()
            .map_err(|_| BadUrl::Host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Result<Target, BadUrl> {
        Target::of(&url.parse::<Uri>().unwrap())
    }

    #[test]
    fn all_spellings_of_an_address_are_equal() {
        let metadata = Host::Address("169.254.169.254".parse().unwrap());
        for text in [
            "169.254.169.254",
            "2852039166",
            "0xa9fea9fe",
            "0xA9FEA9FE",
            "025177524776",
            "0xa9.0xfe.0xa9.0xfe",
            "0251.0376.0251.0376",
            "169.254.43518",
            "169.16689662",
            "169.254.169.254.",
            "%31%36%39.254.169.254",
            "\u{ff11}69.254.169.254",
            "169\u{3002}254\u{3002}169\u{3002}254",
        ] {
            assert_eq!(Host::parse(text), Ok(metadata.clone()), "{text}");
        }
        assert_eq!(Host::parse("127.1"), Host::parse("127.0.0.1"));
        for text in [
            "[::ffff:169.254.169.254]",
            "::ffff:a9fe:a9fe",
            "[0:0:0:0:0:ffff:a9fe:a9fe]",
        ] {
            assert_eq!(
                Host::parse(text),
                Ok(Host::Address("::ffff:169.254.169.254".parse().unwrap())),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_hosts_that_look_like_numbers_but_are_none() {
        for text in [
            "256.1.1.1",
            "1.2.3.4.5",
            "0xa9fea9fe0",
            "4294967296",
            "1.2.3.08",
            "a.0x1",
            "[fe80::1%25eth0]",
        ] {
            assert_eq!(Host::parse(text), Err(BadUrl::Host), "{text}");
        }
    }

    #[test]
    fn names_are_canonical() {
        let name = |text: &str| Ok(Host::Name(text.to_owned()));
        assert_eq!(Host::parse("WWW.Example.TEST."), name("www.example.test"));
        assert_eq!(Host::parse("b\u{fc}cher.test"), name("xn--bcher-kva.test"));
        for odd in [
            "under_score.test",
            "_dmarc.x.test",
            "-a.test",
            "a-.test",
            "-",
            "xn--a.test",
            "xn--.test",
            "xn--zn7c.test",
            "r3---sn-x.test",
            "1.2.3.test",
            &format!("{}.test", "x".repeat(63)),
        ] {
            assert_eq!(Host::parse(odd), name(odd), "{odd}");
        }
        let longest = format!("{}t", "x.".repeat(MAX_NAME / 2));
        for text in [&longest, &format!("{longest}.")] {
            assert_eq!(Host::parse(text), name(&longest));
        }
        assert_eq!(Host::parse(&format!("x{longest}")), Err(BadUrl::Host));
        assert_eq!(Host::parse(""), Err(BadUrl::NoHost));
        for text in [
            "a b",
            "a/b",
            "a..b",
            ".a",
            "a.test..",
            ".",
            "..",
            "a%00b",
            "a%2fb",
            "a@b",
            &"a".repeat(64),
            &"a.".repeat(140),
        ] {
            assert_eq!(Host::parse(text), Err(BadUrl::Host), "{text}");
        }
    }

    #[test]
    fn reads_urls() {
        let plain = target("http://A.test").unwrap();
        assert_eq!((plain.scheme, plain.port), (Scheme::Http, 80));
        assert_eq!(plain.uri(None).unwrap(), "http://a.test/");
        let full = target("https://a.test:8443/x?y").unwrap();
        assert_eq!((full.scheme, full.port), (Scheme::Https, 8443));
        assert_eq!(
            full.uri(Some(&PathAndQuery::from_static("/x?y"))).unwrap(),
            "https://a.test:8443/x?y"
        );
        assert_eq!(
            target("https://a.test:443/").unwrap().uri(None).unwrap(),
            "https://a.test/"
        );
        assert_eq!(
            target("http://[::1]:81/").unwrap().uri(None).unwrap(),
            "http://[::1]:81/"
        );
        assert_eq!(
            target("http://[::1]").unwrap().uri(None).unwrap(),
            "http://[::1]/"
        );
        assert_eq!(
            target("http://0x7f.1/").unwrap().uri(None).unwrap(),
            "http://127.0.0.1/"
        );
    }

    #[test]
    fn refuses_urls() {
        assert_eq!(target("ftp://a.test/"), Err(BadUrl::Scheme));
        assert_eq!(target("/relative"), Err(BadUrl::NoHost));
        assert_eq!(target("http://u:p@a.test/"), Err(BadUrl::UserInfo));
        assert_eq!(target("http://a.test:0/"), Err(BadUrl::Port));
        for odd in ["http://a.test:+25/", "http://[::1]:+25/"] {
            assert_eq!(target(odd), Err(BadUrl::Port), "{odd}");
        }
        assert_eq!(target("http://a.test:99999/"), Err(BadUrl::Port));
    }

    #[test]
    fn localhost_names_are_recognised() {
        for text in ["localhost", "LOCALHOST.", "a.localhost"] {
            assert!(Host::parse(text).unwrap().is_localhost(), "{text}");
        }
        assert!(!Host::parse("notlocalhost").unwrap().is_localhost());
    }
}

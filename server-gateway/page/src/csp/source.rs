//! Source expressions and their matching with URLs (Content Security Policy Level 3 section 6.7.2).
use std::collections::{BTreeMap, BTreeSet};

use url::Url;

/// Source list of one directive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    /// `*`
    is_any: bool,
    /// `'self'`
    is_own: bool,
    /// `https:`
    schemes: BTreeSet<String>,
    /// By host, so that a reference is compared only with the expressions that name its host.
    hosts: BTreeMap<String, Vec<HostSource>>,
    nonces: BTreeSet<String>,
    /// In the form `sha256-…`, in standard Base64.
    hashes: BTreeSet<String>,
    pub(super) strict_dynamic: bool,
    unsafe_inline: bool,
}

/// `https:`, or a host with what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    Scheme(String),
    /// The host is in lower case; `*` is any, and `.site.test` all subdomains of `site.test`.
    Host(String, HostSource),
}

/// `https://*.site.test:8080/path/`, without its host.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostSource {
    scheme: Option<String>,
    port: Option<String>,
    path: Option<String>,
}

impl Sources {
    /// Parses the value of a directive. As in browsers, an expression that is not understood matches nothing,
    /// and neither does `'none'`.
    pub(super) fn parse<'a>(tokens: impl Iterator<Item = &'a str>) -> Self {
        let mut sources = Self::default();
        for token in tokens {
            sources.add(token);
        }
        sources
    }

    fn add(&mut self, token: &str) {
        let lower = token.to_ascii_lowercase();
        let quoted = |text: &'_ str| -> Option<String> {
            let inner = text.strip_prefix('\'')?.strip_suffix('\'')?;
            Some(inner.to_owned())
        };
        match lower.as_str() {
            "*" => self.is_any = true,
            "'self'" => self.is_own = true,
            "'strict-dynamic'" => self.strict_dynamic = true,
            "'unsafe-inline'" => self.unsafe_inline = true,
            _ => {
                if let Some(inner) = quoted(token) {
                    self.add_quoted(&inner);
                } else {
                    self.add_source(Source::parse(&lower, token));
                }
            }
        }
    }

    fn add_source(&mut self, source: Option<Source>) {
        match source {
            Some(Source::Scheme(scheme)) => {
                self.schemes.insert(scheme);
            }
            Some(Source::Host(host, source)) => self.hosts.entry(host).or_default().push(source),
            None => {}
        }
    }

    fn add_quoted(&mut self, inner: &str) {
        let (kind, value) = inner.split_once('-').unwrap_or((inner, ""));
        match kind.to_ascii_lowercase().as_str() {
            "nonce" if !value.is_empty() => {
                self.nonces.insert(value.to_owned());
            }
            "sha256" | "sha384" | "sha512" => {
                self.hashes.insert(plain_base64(inner));
            }
            _ => {}
        }
    }

    /// Number of expressions.
    pub(super) fn len(&self) -> usize {
        let of_hosts: usize = self.hosts.values().map(Vec::len).sum();
        of_hosts + self.schemes.len() + self.nonces.len() + self.hashes.len()
    }

    /// Returns true if an expression matches a URL that is the target of `redirects` redirects.
    pub(super) fn match_url(&self, url: &Url, own: &Url, redirects: usize) -> bool {
        let scheme = url.scheme();
        self.is_any && matches!(scheme, "http" | "https")
            || self.is_own && is_own(url, own)
            || self.schemes.iter().any(|wanted| matches_scheme(wanted, scheme))
            || self
                .sources_of(url)
                .any(|source| source.matches(url, own, redirects))
    }

    /// The expressions whose host matches that of a URL.
    fn sources_of<'a>(&'a self, url: &'a Url) -> impl Iterator<Item = &'a HostSource> {
        let host = url.host_str().unwrap_or_default();
        let any = (!host.is_empty()).then_some("*");
        // A domain is not its own subdomain.
        let above = host.match_indices('.').filter(|(at, _)| *at > 0);
        let above = above.map(|(at, _)| &host[at..]);
        let names = std::iter::once(host).chain(any).chain(above);
        names.filter_map(|name| self.hosts.get(name)).flatten()
    }

    pub(super) fn has_nonce(&self, nonce: Option<&str>) -> bool {
        nonce.is_some_and(|nonce| self.nonces.contains(nonce))
    }

    /// Returns true if the list contains all hashes of an `integrity` attribute.
    pub(super) fn has_integrity(&self, integrity: Option<&str>) -> bool {
        let mut hashes = integrity.unwrap_or_default().split_ascii_whitespace().peekable();
        hashes.peek().is_some()
            && hashes.all(|hash| {
                let hash = hash.split('?').next().unwrap_or_default();
                self.hashes.contains(&plain_base64(hash))
            })
    }

    /// Returns true if inline content without nonce is allowed. Hashes, which could also allow it, are not
    /// computed here.
    pub(super) fn allow_inline(&self) -> bool {
        self.unsafe_inline && self.nonces.is_empty() && self.hashes.is_empty()
    }
}

/// Converts a hash to the standard alphabet of Base64; policies may use either alphabet.
fn plain_base64(hash: &str) -> String {
    let (kind, value) = hash.split_once('-').unwrap_or((hash, ""));
    format!(
        "{}-{}",
        kind.to_ascii_lowercase(),
        value.replace('-', "+").replace('_', "/")
    )
}

impl Source {
    /// Parses `token`; `lower` is the token in lower case.
    fn parse(lower: &str, token: &str) -> Option<Self> {
        if let Some(scheme) = lower.strip_suffix(':').filter(|scheme| is_scheme(scheme)) {
            return Some(Self::Scheme(scheme.to_owned()));
        }
        let (scheme, rest) = match token.split_once("://") {
            Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
            None => (None, token),
        };
        if scheme.as_deref().is_some_and(|scheme| !is_scheme(scheme)) {
            return None;
        }
        let (place, path) = match rest.find('/') {
            Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
            None => (rest, None),
        };
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !place.ends_with(']') => (host, Some(port.to_owned())),
            Some(_) | None => (place, None),
        };
        let is_port = |port: &String| port == "*" || longhaul_http::target::port(port).is_some();
        // A leading dot is no host; among the keys it stands for all subdomains.
        if host.starts_with('.') || !is_host(host) || !port.as_ref().is_none_or(is_port) {
            return None;
        }
        let path = path.map(|path| path.split(['?', '#']).next().unwrap_or_default().to_owned());
        let host = host.to_ascii_lowercase();
        let host = match host.strip_prefix('*') {
            Some(below) if !below.is_empty() => below.to_owned(),
            Some(_) | None => host,
        };
        let source = HostSource {
            scheme,
            port,
            path: path.filter(|path| path != "/"),
        };
        Some(Self::Host(host, source))
    }
}

impl HostSource {
    fn matches(&self, url: &Url, own: &Url, redirects: usize) -> bool {
        let scheme = self.scheme.as_deref().unwrap_or_else(|| own.scheme());
        // The path is not matched after redirects, so that the match does not reveal it.
        matches_scheme(scheme, url.scheme())
            && self.matches_port(url)
            && (redirects > 0 || self.matches_path(url.path()))
    }

    fn matches_port(&self, url: &Url) -> bool {
        let wanted = match self.port.as_deref() {
            None => return url.port().is_none(),
            Some("*") => return true,
            Some(port) => longhaul_http::target::port(port),
        };
        let port = url.port_or_known_default();
        wanted.is_some() && (wanted == port || wanted == Some(80) && port == Some(443))
    }

    fn matches_path(&self, path: &str) -> bool {
        match self.path.as_deref() {
            None | Some("") => true,
            Some(folder) if folder.ends_with('/') => path.starts_with(folder),
            Some(file) => path == file,
        }
    }
}

/// A scheme matches itself and its secure form.
fn matches_scheme(wanted: &str, scheme: &str) -> bool {
    wanted == scheme || wanted == "http" && scheme == "https"
}

/// Returns true for the policy's own origin, and for the same host with https if the ports are equal or both
/// default.
fn is_own(url: &Url, own: &Url) -> bool {
    url.origin() == own.origin()
        || url.host() == own.host()
            && url.scheme() == "https"
            && (url.port() == own.port() || url.port().is_none() && own.port().is_none())
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    text == "*"
        || !name.is_empty()
            && name.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'[' | b']' | b':')
            })
}

//! Sites: what shares cookies (HTML Living Standard, "same site"; RFC 6265bis section 5.2).
use url::{Host, Url};

/// Whether two URLs are of the same site: equal schemes and equal registrable domains.
pub fn is_same_site(one: &Url, other: &Url) -> bool {
    one.scheme() == other.scheme()
        && match (one.host(), other.host()) {
            (Some(Host::Domain(one)), Some(Host::Domain(other))) => {
                registrable_domain(one) == registrable_domain(other)
            }
            (Some(one), Some(other)) => one == other,
            _ => false,
        }
}

/// Whether browsers treat a URL as delivered safely (W3C Secure Contexts section 3.1): https, or this machine.
pub fn is_trustworthy(url: &Url) -> bool {
    url.scheme() == "https"
        || match url.host() {
            Some(Host::Domain(host)) => {
                let host = host.trim_end_matches('.');
                host == "localhost" || host.ends_with(".localhost")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
}

/// The part of a host name that its owner registered, or the whole name if it is a public suffix itself.
pub(super) fn registrable_domain(host: &str) -> &str {
    let Some((public, _)) = public_suffix(host) else {
        return host;
    };
    let owned = &host[..public.saturating_sub(1)];
    let start = owned.rfind('.').map_or(0, |dot| dot + 1);
    &host[start..]
}

/// Whether everybody may register names below this one, so that no cookie may span it.
pub(super) fn is_public_suffix(domain: &str) -> bool {
    !domain.contains('.') || SECOND_LEVEL.binary_search(&domain).is_ok()
}

/// Where the public suffix of a name begins, and the suffix; none if the name is nothing but one.
fn public_suffix(host: &str) -> Option<(usize, &str)> {
    let last = host.rfind('.')? + 1;
    let Some(second) = host[..last - 1].rfind('.').map(|dot| dot + 1) else {
        return (!is_public_suffix(host)).then(|| (last, &host[last..]));
    };
    let start = if is_public_suffix(&host[second..]) {
        second
    } else {
        last
    };
    Some((start, &host[start..]))
}

/// Common public suffixes of two labels, sorted. The full list of all suffixes is large and changes weekly; where
/// this one misses an entry, a cookie is predicted that the browser does not send, and the prediction is then not
/// used.
const SECOND_LEVEL: &[&str] = &[
    "ac.in",
    "ac.jp",
    "ac.kr",
    "ac.nz",
    "ac.uk",
    "ac.za",
    "appspot.com",
    "azurewebsites.net",
    "blogspot.com",
    "cloudfront.net",
    "co.at",
    "co.id",
    "co.il",
    "co.in",
    "co.jp",
    "co.ke",
    "co.kr",
    "co.nz",
    "co.th",
    "co.tz",
    "co.ug",
    "co.uk",
    "co.za",
    "co.zw",
    "com.ar",
    "com.au",
    "com.bd",
    "com.bo",
    "com.br",
    "com.cn",
    "com.co",
    "com.ec",
    "com.eg",
    "com.et",
    "com.gh",
    "com.gt",
    "com.hk",
    "com.kh",
    "com.lb",
    "com.ly",
    "com.mm",
    "com.mt",
    "com.mx",
    "com.my",
    "com.na",
    "com.ng",
    "com.ni",
    "com.np",
    "com.om",
    "com.pa",
    "com.pe",
    "com.pg",
    "com.ph",
    "com.pk",
    "com.pl",
    "com.pr",
    "com.pt",
    "com.py",
    "com.qa",
    "com.ru",
    "com.sa",
    "com.sg",
    "com.sv",
    "com.tn",
    "com.tr",
    "com.tw",
    "com.ua",
    "com.uy",
    "com.ve",
    "com.vn",
    "edu.au",
    "edu.br",
    "edu.cn",
    "edu.in",
    "edu.pk",
    "firebaseapp.com",
    "fly.dev",
    "github.io",
    "gitlab.io",
    "go.id",
    "go.jp",
    "go.ke",
    "go.kr",
    "go.th",
    "gob.ar",
    "gob.mx",
    "gob.pe",
    "gouv.fr",
    "gov.au",
    "gov.br",
    "gov.cn",
    "gov.in",
    "gov.pk",
    "gov.uk",
    "gov.za",
    "govt.nz",
    "herokuapp.com",
    "ne.jp",
    "net.au",
    "net.br",
    "net.cn",
    "net.in",
    "net.nz",
    "netlify.app",
    "nhs.uk",
    "onrender.com",
    "or.at",
    "or.id",
    "or.jp",
    "or.ke",
    "or.kr",
    "or.th",
    "org.ar",
    "org.au",
    "org.br",
    "org.cn",
    "org.in",
    "org.mx",
    "org.ng",
    "org.nz",
    "org.pk",
    "org.uk",
    "org.za",
    "pages.dev",
    "r2.dev",
    "sch.id",
    "sch.uk",
    "vercel.app",
    "web.app",
    "web.id",
    "workers.dev",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(SECOND_LEVEL.is_sorted());
    }

    #[test]
    fn registrable_domains() {
        for (host, expected) in [
            ("a.test", "a.test"),
            ("www.a.test", "a.test"),
            ("x.y.a.co.uk", "a.co.uk"),
            ("a.co.uk", "a.co.uk"),
            ("co.uk", "co.uk"),
            ("me.github.io", "me.github.io"),
            ("www.me.github.io", "me.github.io"),
            ("localhost", "localhost"),
            ("com", "com"),
            ("", ""),
            (".", "."),
            ("a..b", ".b"),
        ] {
            assert_eq!(registrable_domain(host), expected, "{host}");
        }
    }

    #[test]
    fn sites() {
        let same = |one: &str, other: &str| is_same_site(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(same("http://www.a.test/", "http://static.a.test:8080/x"));
        assert!(!same("http://a.test/", "https://a.test/"));
        assert!(!same("http://a.github.io/", "http://b.github.io/"));
        assert!(!same("http://10.0.0.1/", "http://11.0.0.1/"));
        assert!(same("http://10.0.0.1/", "http://10.0.0.1:81/"));
    }

    #[test]
    fn trustworthy_urls() {
        let trustworthy = |url: &str| is_trustworthy(&url.parse().unwrap());
        for url in [
            "https://a.test/",
            "http://localhost:1/",
            "http://x.localhost/",
            "http://127.9.9.9/",
            "http://[::1]/",
        ] {
            assert!(trustworthy(url), "{url}");
        }
        for url in ["http://a.test/", "http://localhost.test/", "http://10.0.0.1/"] {
            assert!(!trustworthy(url), "{url}");
        }
    }
}

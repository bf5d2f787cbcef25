//! Sites of URLs, within which cookies are shared (HTML Living Standard, "same site"; RFC 6265bis section
//! 5.2).
use longhaul_http::site::SchemefulSite;
use url::{Host, Url};

/// Returns true if two URLs are same-site: equal schemes and equal registrable domains.
pub fn is_same_site(one: &Url, other: &Url) -> bool {
    match (one.host_str(), other.host_str()) {
        (Some(host), Some(other_host)) => {
            SchemefulSite::of(one.scheme(), host).is_same_site(&SchemefulSite::of(other.scheme(), other_host))
        }
        _ => false,
    }
}

/// Returns true if browsers regard a URL as potentially trustworthy (W3C Secure Contexts section 3.1): https,
/// or this machine.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_site_follows_scheme_and_registrable_domain() {
        let same = |one: &str, other: &str| is_same_site(&one.parse().unwrap(), &other.parse().unwrap());
        assert!(same("http://www.a.test/", "http://static.a.test:8080/x"));
        assert!(!same("http://a.test/", "https://a.test/"));
        assert!(!same("http://a.github.io/", "http://b.github.io/"));
        assert!(!same("http://10.0.0.1/", "http://11.0.0.1/"));
        assert!(same("http://10.0.0.1/", "http://10.0.0.1:81/"));
        assert!(!same("data:text/html,x", "data:text/html,x"));
    }

    #[test]
    fn https_and_loopback_urls_are_trustworthy() {
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

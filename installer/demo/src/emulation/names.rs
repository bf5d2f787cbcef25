//! Addresses of origins for the direct proxy.
use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use crate::overrides::Override;

/// The overrides of the demonstration, then the system's resolver.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names(Vec<Override>);

impl Names {
    /// Later overrides take precedence over earlier ones with the same name.
    pub(crate) fn new(overrides: Vec<Override>) -> Self {
        Self(overrides)
    }

    /// Returns the address of a host.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub(super) async fn resolve(&self, host: &str, port: u16) -> io::Result<SocketAddr> {
        if let Some(address) = self.overridden(host, port) {
            return Ok(address);
        }
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut found = tokio::net::lookup_host((host, port)).await?;
        found
            .next()
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
    }

    /// The most specific name wins, as at the gateway: the host before a longer suffix, before a shorter one, before
    /// `*`; among equal ones, that with a port.
    fn overridden(&self, host: &str, port: u16) -> Option<SocketAddr> {
        let best = self
            .0
            .iter()
            .filter_map(|entry| Some((specificity(&entry.name, host, port)?, entry)))
            .max_by_key(|(specificity, _)| *specificity);
        let address = &best?.1.address;
        let with_port = address.parse::<SocketAddr>().ok();
        with_port.or_else(|| Some(SocketAddr::new(address.parse::<IpAddr>().ok()?, port)))
    }
}

/// Returns how specific a name is that denotes this host and port; `None` if it denotes others.
fn specificity(name: &str, host: &str, port: u16) -> Option<(usize, bool)> {
    let (pattern, wanted) = match name.rsplit_once(':') {
        Some((pattern, digits)) if name.parse::<IpAddr>().is_err() => {
            (pattern, Some(digits.parse::<u16>().ok()?))
        }
        Some(_) | None => (name, None),
    };
    if wanted.is_some_and(|wanted| wanted != port) {
        return None;
    }
    let length = match pattern.strip_prefix('*') {
        Some("") => 0,
        Some(suffix) => {
            let below = host.len() > suffix.len();
            (below && ends_with(host, suffix)).then_some(suffix.len())?
        }
        None => pattern.eq_ignore_ascii_case(host).then_some(usize::MAX)?,
    };
    Some((length, wanted.is_some()))
}

fn ends_with(host: &str, suffix: &str) -> bool {
    let at = host.len().saturating_sub(suffix.len());
    host.get(at..).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_override_wins() {
        let entries = [
            ("*", "10.0.0.1"),
            ("*:443", "10.0.0.2:8443"),
            ("*.test", "10.0.0.3"),
            ("*.a.test", "10.0.0.4"),
            ("www.a.test", "10.0.0.5"),
            ("www.a.test:80", "[::1]:81"),
            ("www.a.test:80", "[::1]:82"),
        ];
        let names = Names::new(
            entries
                .map(|(name, address)| Override {
                    name: name.to_owned(),
                    address: address.to_owned(),
                })
                .to_vec(),
        );
        for (host, port, expected) in [
            ("example.org", 80, "10.0.0.1:80"),
            ("example.org", 443, "10.0.0.2:8443"),
            ("b.test", 443, "10.0.0.3:443"),
            ("test", 80, "10.0.0.1:80"),
            ("X.A.test", 80, "10.0.0.4:80"),
            ("WWW.a.test", 8080, "10.0.0.5:8080"),
            ("www.a.test", 80, "[::1]:82"),
        ] {
            let found = names.overridden(host, port).map(|address| address.to_string());
            assert_eq!(found.as_deref(), Some(expected), "{host}:{port}");
        }
        assert_eq!(Names::default().overridden("a.test", 80), None);
    }

    #[tokio::test]
    async fn addresses_need_no_lookup() {
        let names = Names::default();
        assert_eq!(
            names.resolve("127.0.0.1", 80).await.unwrap().to_string(),
            "127.0.0.1:80"
        );
        assert_eq!(names.resolve("[::1]", 80).await.unwrap().to_string(), "[::1]:80");
    }
}

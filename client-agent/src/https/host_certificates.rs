//! The certificates that the agent presents to browsers, one per host, cached while they are fresh.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::Mutex;

use longhaul_types::UnixTime;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{NoServerSessionStorage, ProducesTickets, ResolvesServerCert},
    sign::{CertifiedKey, SingleCertAndKey},
};

use super::authority::{Authority, AuthorityError};

/// Maximum number of cached certificates: some days of browsing. One takes about 3 KiB.
const MAX: usize = 512;
/// Age at which a certificate is replaced, long before browsers consider it expired.
const FRESH: Duration = Duration::from_secs(5 * 24 * 3600);

/// The certificates and TLS configurations of this device.
#[derive(Debug)]
pub(super) struct HostCertificates {
    authority: Authority,
    /// Shared tickets, so that browsers resume their TLS sessions with any host.
    tickets: Arc<dyn ProducesTickets>,
    made: Mutex<BTreeMap<String, Leaf>>,
}

#[derive(Debug)]
struct Leaf {
    config: Arc<ServerConfig>,
    made: UnixTime,
}

impl HostCertificates {
    pub(super) fn new(authority: Authority) -> Result<Self, AuthorityError> {
        Ok(Self {
            authority,
            tickets: ring::Ticketer::new()?,
            made: Mutex::default(),
        })
    }

    pub(super) const fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Returns the TLS configuration for a host.
    pub(super) fn of(&self, host: &str, now: UnixTime) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut made = self.made.lock();
        let fresh = |leaf: &Leaf| {
            let age = now.since_epoch().checked_sub(leaf.made.since_epoch());
            age.is_some_and(|age| age < FRESH)
        };
        if let Some(leaf) = made.get(host).filter(|leaf| fresh(leaf)) {
            return Ok(Arc::clone(&leaf.config));
        }
        if made.len() >= MAX {
            made.clear();
        }
        // A key and a signature take a tenth of a millisecond.
        let config = Arc::new(self.config(self.authority.leaf(host, now)?)?);
        let leaf = Leaf {
            config: Arc::clone(&config),
            made: now,
        };
        made.insert(host.to_owned(), leaf);
        Ok(config)
    }

    fn config(&self, key: CertifiedKey) -> Result<ServerConfig, AuthorityError> {
        let resolver: Arc<dyn ResolvesServerCert> = Arc::new(SingleCertAndKey::from(key));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = Arc::clone(&self.tickets);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::UnixTime;

    use super::*;
    use crate::{state_dir::StateDir, wall_clock::now};

    #[test]
    fn each_host_has_one_certificate_while_it_is_fresh() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::new(home.path().to_owned());
        let (authority, _) = Authority::open_or_make(&state, now()).unwrap();
        let leaves = HostCertificates::new(authority).unwrap();
        let first = leaves.of("a.test", now()).unwrap();
        assert!(Arc::ptr_eq(&first, &leaves.of("a.test", now()).unwrap()));
        assert!(!Arc::ptr_eq(&first, &leaves.of("b.test", now()).unwrap()));
        let later = UnixTime::new(now().since_epoch() + FRESH);
        assert!(!Arc::ptr_eq(&first, &leaves.of("a.test", later).unwrap()));
        for host in ["127.0.0.1", "::1", "xn--bcher-kva.test", &"a".repeat(63)] {
            assert!(leaves.of(host, now()).is_ok(), "{host}");
        }
        assert!(leaves.of("b\u{fc}cher.test", now()).is_err());
    }
}

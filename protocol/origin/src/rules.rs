//! The settings of the client that may change while it runs.
use std::sync::Arc;

use tokio_rustls::TlsConnector;

use crate::{
    chains::Chains,
    config::{DnsServers, OriginConfig, OriginConfigError, Timeouts},
    dial::Dialer,
    dns::DnsResolver,
    stats::OriginStats,
    tls,
};

/// Settings in force, and what is made of them. An operation uses the same rules from its start to its end.
pub(crate) struct Rules {
    config: OriginConfig,
    pub(crate) dns: Arc<DnsResolver>,
    pub(crate) dialer: Dialer,
    pub(crate) tls: Tls,
    /// Grows with each change of the rules by which connections are opened: a pooled connection of an earlier
    /// generation may lead to an address or certificate that is no longer permitted.
    pub(crate) generation: u64,
}

/// TLS for fetches and tunnels.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) any_version: TlsConnector,
    /// Offers only HTTP/1.1.
    pub(crate) http1: TlsConnector,
    /// Completes chains that lack certificates.
    pub(crate) chains: Arc<Chains>,
}

impl Tls {
    fn new(config: &OriginConfig) -> Result<Self, OriginConfigError> {
        let (both, chains) = tls::client_config(&config.extra_ca, &config.deny_keys)?;
        let mut http1 = both.clone();
        http1.alpn_protocols = vec![b"http/1.1".to_vec()];
        let [any_version, http1] = [both, http1].map(|config| TlsConnector::from(Arc::new(config)));
        Ok(Self {
            any_version,
            http1,
            chains,
        })
    }
}

impl Rules {
    pub(crate) fn new(config: OriginConfig, stats: &Arc<OriginStats>) -> Result<Self, OriginConfigError> {
        let tls = Tls::new(&config)?;
        let dns = Arc::new(DnsResolver::new(&config, Arc::clone(stats)));
        Ok(Self::with(config, dns, tls, 0, stats))
    }

    /// Rules of other settings, except the limits, which stay. The DNS cache and the TLS sessions are kept
    /// where the settings are the same; the system's name servers are read again.
    pub(crate) fn changed(
        &self,
        config: OriginConfig,
        stats: &Arc<OriginStats>,
    ) -> Result<Self, OriginConfigError> {
        let (old, limits) = (&self.config, self.config.limits);
        let config = OriginConfig { limits, ..config };
        let same_tls = config.extra_ca == old.extra_ca && config.deny_keys == old.deny_keys;
        let tls = if same_tls {
            self.tls.clone()
        } else {
            Tls::new(&config)?
        };
        let same_dns = config.dns != DnsServers::System
            && config.dns == old.dns
            && config.timeouts.dns == old.timeouts.dns;
        let dns = if same_dns {
            Arc::clone(&self.dns)
        } else {
            Arc::new(DnsResolver::new(&config, Arc::clone(stats)))
        };
        let same_ways = same_tls
            && config.guard == old.guard
            && config.resolve == old.resolve
            && config.dns == old.dns
            && config.proxy == old.proxy;
        let generation = self.generation + u64::from(!same_ways);
        Ok(Self::with(config, dns, tls, generation, stats))
    }

    fn with(
        config: OriginConfig,
        dns: Arc<DnsResolver>,
        tls: Tls,
        generation: u64,
        stats: &Arc<OriginStats>,
    ) -> Self {
        Self {
            dialer: Dialer::new(&config, Arc::clone(&dns), Arc::clone(stats)),
            dns,
            tls,
            generation,
            config,
        }
    }

    pub(crate) const fn timeouts(&self) -> &Timeouts {
        &self.config.timeouts
    }
}

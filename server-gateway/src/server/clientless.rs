//! The ports of clients without an agent: those of `longhaul_clientless`, or nothing in a gateway that is built without the
//! feature `clientless`. Such a gateway refuses the settings that open these ports.
#[cfg(not(feature = "clientless"))]
pub(super) use absent::{ClientlessError, ClientlessListener, SharedPort};
#[cfg(feature = "clientless")]
pub(super) use longhaul_clientless::{ClientlessError, ClientlessListener, SharedPort};

#[cfg(not(feature = "clientless"))]
mod absent {
    use std::{
        future::{Ready, ready},
        iter,
        net::SocketAddr,
        sync::Arc,
    };

    use longhaul_carriers::{LinkUpgrades, PemIdentity};
    use longhaul_gateway_core::{
        admission::state::StateDir,
        config::{ClientlessConfig, DnsConfig},
        gateway::Gateway,
    };
    use longhaul_types::SecretKey;
    use rustls::ClientConfig;
    use tokio::sync::watch;

    /// A setting opens a port that this gateway does not have.
    #[derive(Debug, thiserror::Error)]
    #[error(
        "{setting}: this gateway is built without the proxy for clients without an agent; set {setting} to {off}"
    )]
    pub struct ClientlessError {
        setting: &'static str,
        off: &'static str,
    }

    /// The TLS port that agents and clients would share.
    pub(crate) struct SharedPort {
        /// Its address.
        pub(crate) address: SocketAddr,
        /// The links on it.
        pub(crate) upgrades: LinkUpgrades,
    }

    /// Ports that cannot exist.
    pub(crate) enum ClientlessListener {}

    impl ClientlessListener {
        /// Opens no port.
        ///
        /// # Errors
        /// A setting requests one.
        pub(crate) fn bind(
            (config, dns): (&ClientlessConfig, &DnsConfig),
            _state: &StateDir,
            _secret: &SecretKey,
            shared: Option<SharedPort>,
        ) -> Ready<Result<Option<Self>, ClientlessError>> {
            if let Some(SharedPort { address, upgrades }) = shared {
                drop((address, upgrades));
            }
            let off = "\"off\"";
            let settings = [
                ("clientless.listen", config.listen.is_some(), off),
                ("clientless.tls", config.tls.is_some(), off),
                ("clientless.transparent", !config.transparent.is_empty(), "[]"),
                ("dns.listen", dns.listen.is_some(), off),
            ];
            ready(match settings.into_iter().find(|(_, is_set, _)| *is_set) {
                Some((setting, _, off)) => Err(ClientlessError { setting, off }),
                None => Ok(None),
            })
        }

        pub(crate) const fn local_addr(&self) -> Option<SocketAddr> {
            match *self {}
        }

        pub(crate) const fn tls_addr(&self) -> Option<SocketAddr> {
            match *self {}
        }

        pub(crate) fn transparent_addrs(&self) -> iter::Empty<SocketAddr> {
            match *self {}
        }

        pub(crate) const fn dns_addr(&self) -> Option<SocketAddr> {
            match *self {}
        }

        pub(crate) fn watch_certificate(&self) -> Option<watch::Receiver<PemIdentity>> {
            match *self {}
        }

        pub(crate) fn check(
            &self,
            _gateway: Arc<Gateway>,
            _public: &str,
            _tls: Option<Arc<ClientConfig>>,
        ) -> Ready<Result<(), ClientlessError>> {
            match *self {}
        }

        pub(crate) fn run(self, _gateway: Arc<Gateway>) -> Ready<()> {
            match self {}
        }
    }
}

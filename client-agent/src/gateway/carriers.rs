//! The carriers of a session, as the settings permit.
use std::{net::SocketAddr, sync::Arc};

use longhaul_carriers::TlsCarrier;
use longhaul_driver::{Carrier, CarrierPlan, ReturnTimes};
use longhaul_types::Invite;

use crate::trouble::Trouble;

/// Protocols that carry the session to the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarrierSettings {
    /// `carrier`: carriers that the agent may use. Default [`Carriers::Auto`].
    pub carriers: Carriers,
    /// `carrier.tls-port`: TCP port of the gateway. Default [`longhaul_carriers::DEFAULT_PORT`].
    pub tls_port: u16,
}

impl Default for CarrierSettings {
    fn default() -> Self {
        Self {
            carriers: Carriers::default(),
            tls_port: longhaul_carriers::DEFAULT_PORT,
        }
    }
}

/// A choice of carriers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carriers {
    /// UDP, and TLS where UDP does not answer.
    #[default]
    Auto,
    /// Only UDP.
    Udp,
    /// Only TLS.
    Tls,
}

impl Carriers {
    /// Name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Tls => "tls",
        }
    }
}

/// Returns the carriers of a session with the gateway of `invite` at the UDP address `remote`. TLS uses the same
/// IP address.
pub(super) fn plan(
    settings: CarrierSettings,
    invite: &Invite,
    remote: SocketAddr,
) -> Result<CarrierPlan, Trouble> {
    let tls = || -> Result<Arc<dyn Carrier>, Trouble> {
        let address = SocketAddr::new(remote.ip(), settings.tls_port);
        let carrier = TlsCarrier::new(address, host(invite.address()), invite.gateway());
        let carrier = carrier.map_err(|error| Trouble::LocalError(error.to_string()))?;
        Ok(Arc::new(carrier))
    };
    Ok(match settings.carriers {
        Carriers::Auto => CarrierPlan::UdpThen(tls()?, ReturnTimes::default()),
        Carriers::Udp => CarrierPlan::Udp,
        Carriers::Tls => CarrierPlan::Link(tls()?),
    })
}

/// Host of `HOST:PORT`, without the brackets of an IPv6 address.
pub(super) fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_what_precedes_the_port() {
        assert_eq!(host("gw.example.org:4433"), "gw.example.org");
        assert_eq!(host("192.0.2.1:4433"), "192.0.2.1");
        assert_eq!(host("[2001:db8::1]:4433"), "2001:db8::1");
    }
}

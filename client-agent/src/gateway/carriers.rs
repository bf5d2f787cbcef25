//! The carriers of a session, as the settings permit.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

pub(super) use longhaul_carriers::KeyPin;
use longhaul_carriers::{CarrierError, LinkAttempt, TlsCarrier};
pub use longhaul_carriers::{Certificates, PinPolicy};
use longhaul_driver::{Carrier, CarrierPlan, ReturnTimes};
use longhaul_proxy::HttpProxy;
use longhaul_types::Invite;
use tokio::sync::watch;

use super::{gateway_session::GatewaySession, link_tracker::UdpBefore};
use crate::trouble::{Tried, Trouble};

/// Protocols that carry the session to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarrierSettings {
    /// `carrier`: carriers that the agent may use. Default [`Carriers::Auto`].
    pub carriers: Carriers,
    /// `carrier.tls-port`: TCP port of the gateway. Default [`longhaul_carriers::DEFAULT_PORT`].
    pub tls_port: u16,
    /// `carrier.proxy`: HTTP proxy for TLS, and for requests that are sent without the gateway. Default: that of the
    /// environment.
    pub proxy: Option<HttpProxy>,
    /// `carrier.pin`: the certificates of TLS, and what happens if one is not the gateway's. Default
    /// [`PinPolicy::Note`].
    pub certificates: Certificates,
}

impl CarrierSettings {
    /// The same settings for an agent with these ports, which are no proxy for it.
    #[must_use]
    pub fn without_own_ports(self, own: impl Into<Vec<u16>>) -> Self {
        let own = own.into();
        let proxy = self.proxy.filter(|proxy| !proxy.is_at(&own));
        Self {
            proxy: proxy.map(|proxy| proxy.not_at(own)),
            ..self
        }
    }

    /// The carriers over which the gateway is tried.
    pub(crate) const fn tried(&self) -> Tried {
        match self.carriers {
            Carriers::Auto => Tried::Both { port: self.tls_port },
            Carriers::Udp => Tried::Udp,
            Carriers::Tls => Tried::Tls { port: self.tls_port },
        }
    }

    /// The proxy for the carrier `tls` to the gateway of `invite`.
    pub(super) fn proxy_to(&self, invite: &Invite) -> Option<&HttpProxy> {
        let is_covered = |proxy: &&HttpProxy| proxy.covers(host(invite.address()), self.tls_port);
        self.proxy.as_ref().filter(is_covered)
    }

    /// True if the session runs over TLS that somebody on the way ends, and the settings do not permit that.
    pub(super) fn refuses(&self, session: &GatewaySession) -> bool {
        let is_required = self.certificates.policy() == PinPolicy::Require;
        is_required && session.stats().remote.is_none() && self.certificates.is_intercepted()
    }

    /// The carrier `tls` to the gateway of `invite`, which is at the address `ip` unless a proxy looks it up.
    pub(super) fn tls(&self, invite: &Invite, ip: IpAddr) -> Result<TlsCarrier, Trouble> {
        let address = SocketAddr::new(ip, self.tls_port);
        let carrier = TlsCarrier::new(address, host(invite.address()), invite.gateway());
        let carrier = carrier.map_err(|error| Trouble::LocalError(error.to_string()))?;
        let carrier = carrier.comparing(self.certificates.clone());
        Ok(carrier.through(self.proxy_to(invite).cloned()))
    }
}

/// The trouble that a failed attempt of the carrier `tls` shows; `None` if it shows nothing but silence.
pub(super) fn trouble_of(error: &CarrierError, tls_port: u16) -> Option<Trouble> {
    match error {
        CarrierError::Proxy(error) => Some(Trouble::Proxy(error.clone())),
        CarrierError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Some(Trouble::PortClosed(Tried::Tls { port: tls_port }))
        }
        CarrierError::Intercepted => Some(Trouble::Intercepted),
        CarrierError::Io(_) | CarrierError::Response(_) | CarrierError::TooSlow | CarrierError::Pump(_) => {
            None
        }
    }
}

impl Default for CarrierSettings {
    fn default() -> Self {
        Self {
            carriers: Carriers::default(),
            tls_port: longhaul_carriers::DEFAULT_PORT,
            proxy: None,
            certificates: Certificates::default(),
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

/// Returns the carriers of a session with the gateway of `invite` at the UDP address `remote`, and what becomes of the
/// attempts of TLS, which uses the same IP address. TLS starts together with UDP where UDP is doubtful,
/// and before it where UDP carried less.
pub(super) fn plan(
    settings: &CarrierSettings,
    carriers: Carriers,
    invite: &Invite,
    remote: SocketAddr,
    before: UdpBefore,
) -> Result<(CarrierPlan, watch::Receiver<LinkAttempt>), Trouble> {
    let tls = settings.tls(invite, remote.ip())?;
    let attempts = tls.attempts();
    let tls: Arc<dyn Carrier> = Arc::new(tls);
    let plan = match carriers {
        Carriers::Auto => match before {
            UdpBefore::Good => CarrierPlan::UdpThen(tls, ReturnTimes::default()),
            UdpBefore::Doubtful => CarrierPlan::UdpAnd(tls, ReturnTimes::default()),
            UdpBefore::Worse(time) => {
                let avoided = Some(time);
                let times = ReturnTimes {
                    avoided,
                    ..ReturnTimes::default()
                };
                CarrierPlan::LinkThenUdp(tls, times)
            }
        },
        Carriers::Udp => CarrierPlan::Udp,
        Carriers::Tls => CarrierPlan::Link(tls),
    };
    Ok((plan, attempts))
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

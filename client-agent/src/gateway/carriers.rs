//! The carriers of a session, as the settings permit.
use std::{io, net::SocketAddr, sync::Arc, time::Duration};

pub(super) use longhaul_carriers::KeyPin;
use longhaul_carriers::{CarrierError, LinkAttempt, QuicCarrier, TlsCarrier};
pub use longhaul_carriers::{Certificates, PinPolicy};
use longhaul_driver::{Carrier, CarrierPlan, ConnectionStats, LinkCarriers, ReturnTimes};
use longhaul_proxy::HttpProxy;
use longhaul_types::Invite;
use tokio::sync::watch;
use tracing::info;

use super::{address_order::at_port, gateway_session::GatewaySession};
use crate::trouble::{Tried, Trouble};

/// Protocols that carry the session to the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CarrierSettings {
    /// `carrier`: carriers that the agent may use. Default [`Carriers::AUTO`].
    pub carriers: Carriers,
    /// `carrier.tls-port`: TCP port of the gateway. Default [`longhaul_types::CARRIER_PORT`].
    pub tls_port: u16,
    /// `carrier.quic-port`: UDP port of the gateway for QUIC. Default [`longhaul_types::CARRIER_PORT`].
    pub quic_port: u16,
    /// `carrier.proxy`: HTTP proxy for TLS, and for requests that are sent without the gateway. Default: that of the
    /// environment.
    pub proxy: Option<HttpProxy>,
    /// `carrier.pin`: the certificates of TLS and QUIC, and what happens if one is not the gateway's. Default
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
        let Carriers { udp, tls, quic } = self.carriers;
        Tried {
            udp,
            tls: if tls { Some(self.tls_port) } else { None },
            quic: if quic { Some(self.quic_port) } else { None },
        }
    }

    /// The proxy for the carrier `tls` to the gateway of `invite`.
    pub(super) fn proxy_to(&self, invite: &Invite) -> Option<&HttpProxy> {
        let is_covered = |proxy: &&HttpProxy| proxy.covers(host(invite.address()), self.tls_port);
        self.proxy.as_ref().filter(is_covered)
    }

    /// True if the session runs over TLS or QUIC that somebody on the way ends, and the settings do not permit that.
    pub(super) fn refuses(&self, session: &GatewaySession) -> bool {
        let is_required = self.certificates.policy() == PinPolicy::Require;
        is_required && session.stats().remote.is_none() && self.certificates.is_intercepted()
    }

    /// The carrier `tls` to the gateway of `invite`, which is at these addresses unless a proxy looks it up.
    pub(super) fn tls(&self, invite: &Invite, at: &LinkAddresses) -> Result<TlsCarrier, Trouble> {
        let carrier = TlsCarrier::new(
            at_port(at.first, self.tls_port),
            host(invite.address()),
            invite.gateway(),
        );
        let carrier = carrier.map_err(|error| Trouble::LocalError(error.to_string()))?;
        let carrier = carrier.or_at(&at.others_at(self.tls_port), at.delay);
        let carrier = carrier.comparing(self.certificates.clone());
        Ok(carrier.through(self.proxy_to(invite).cloned()))
    }

    /// The carrier `quic` to the gateway of `invite`, which is at these addresses.
    pub(super) fn quic(&self, invite: &Invite, at: &LinkAddresses) -> Result<QuicCarrier, Trouble> {
        let carrier = QuicCarrier::new(at_port(at.first, self.quic_port), host(invite.address()));
        let carrier = carrier.map_err(|error| Trouble::LocalError(error.to_string()))?;
        let carrier = carrier.or_at(&at.others_at(self.quic_port), at.delay);
        Ok(carrier.comparing(self.certificates.clone()))
    }
}

/// The trouble that a failed attempt of the carrier `tls` shows; `None` if it shows nothing but silence.
pub(super) fn trouble_of(error: &CarrierError, tls_port: u16) -> Option<Trouble> {
    match error {
        CarrierError::Proxy(error) => Some(Trouble::Proxy(error.clone())),
        CarrierError::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Some(Trouble::PortClosed(Tried::tls(tls_port)))
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
            tls_port: longhaul_types::CARRIER_PORT,
            quic_port: longhaul_types::CARRIER_PORT,
            proxy: None,
            certificates: Certificates::default(),
        }
    }
}

/// A choice of carriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carriers {
    /// UDP.
    pub udp: bool,
    /// A WebSocket over TLS.
    pub tls: bool,
    /// QUIC.
    pub quic: bool,
}

impl Carriers {
    /// UDP, and the others where UDP does not answer.
    pub const AUTO: Self = Self {
        udp: true,
        tls: true,
        quic: true,
    };
    /// Only UDP.
    pub const UDP: Self = Self {
        udp: true,
        tls: false,
        quic: false,
    };
    /// Only TLS.
    pub const TLS: Self = Self {
        udp: false,
        tls: true,
        quic: false,
    };

    /// Names in the configuration.
    pub fn names(self) -> String {
        if self == Self::AUTO {
            return "auto".to_owned();
        }
        let names = [(self.udp, "udp"), (self.tls, "tls"), (self.quic, "quic")];
        let names: Vec<_> = names
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect();
        names.join(",")
    }

    /// True if UDP is one of several.
    pub(super) const fn has_udp_beside_others(self) -> bool {
        self.udp && (self.tls || self.quic)
    }
}

impl Default for Carriers {
    fn default() -> Self {
        Self::AUTO
    }
}

/// The carrier that brought an answer, or that a session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsedCarrier {
    /// UDP.
    Udp,
    /// A WebSocket over TLS.
    Tls,
    /// QUIC.
    Quic,
}

impl UsedCarrier {
    /// The carrier of a session. Only a path over UDP has an address, and of the others only TLS keeps the order.
    pub(crate) const fn of(stats: &ConnectionStats) -> Self {
        match (stats.remote, stats.is_ordered) {
            (Some(_), _) => Self::Udp,
            (None, true) => Self::Tls,
            (None, false) => Self::Quic,
        }
    }

    /// Name in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tls => "tls",
            Self::Quic => "quic",
        }
    }
}

/// What is known about a network that decides about the order of the carriers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// What earlier sessions have found out about UDP.
    pub(super) udp: UdpBefore,
    /// QUIC carried a session where UDP did not answer: it is tried before TLS.
    pub(super) has_used_quic: bool,
    /// The uplink is so slow that the acknowledgements of QUIC would take much of it.
    pub(super) is_uplink_slow: bool,
    /// A link may be tried where UDP seems to be limited: the user does not pay for each byte.
    pub(super) permits_trials: bool,
}

impl Known {
    /// Logs what it means for a session that may use UDP and these others.
    pub(super) fn explain(self, over: Carriers) {
        if !over.has_udp_beside_others() {
            return;
        }
        let first = if over.quic && (self.has_used_quic || !over.tls) {
            "QUIC"
        } else {
            "TLS"
        };
        match self.udp {
            UdpBefore::Good => {}
            UdpBefore::Doubtful => {
                info!("UDP did not answer in this network before: {first} starts together with UDP");
            }
            UdpBefore::Worse(_) => {
                info!("UDP carried less than {first} in this network before: {first} starts before UDP");
            }
        }
    }
}

/// What earlier sessions have found out about UDP in a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum UdpBefore {
    /// It works, or nothing is known.
    #[default]
    Good,
    /// It did not answer: the other carriers start together with it.
    Doubtful,
    /// It carried less than another carrier, and is avoided for this time.
    Worse(Duration),
}

/// The links of a session beside UDP, and what becomes of the attempts of the first of them.
type Links = (LinkCarriers, watch::Receiver<LinkAttempt>);

/// The addresses at which links are opened, in their order: those of UDP, each with the port of the carrier.
#[derive(Clone, Debug)]
pub(super) struct LinkAddresses {
    pub(super) first: SocketAddr,
    pub(super) others: Vec<SocketAddr>,
    /// Time between the attempts at two addresses.
    pub(super) delay: Duration,
}

impl LinkAddresses {
    fn others_at(&self, port: u16) -> Vec<SocketAddr> {
        self.others.iter().map(|other| at_port(*other, port)).collect()
    }
}

/// Returns the carriers of a session with the gateway of `invite` at these addresses, and what becomes of the attempts of
/// the first of those beside UDP. They start together with UDP where UDP is
/// doubtful, and before it where UDP carried less.
pub(super) fn plan(
    settings: &CarrierSettings,
    carriers: Carriers,
    invite: &Invite,
    at: &LinkAddresses,
    known: Known,
) -> Result<(CarrierPlan, watch::Receiver<LinkAttempt>), Trouble> {
    let Some((links, attempts)) = links(settings, carriers, invite, at, known)? else {
        return Ok((CarrierPlan::Udp, watch::channel(LinkAttempt::Pending).1));
    };
    let times = ReturnTimes {
        permits_trials: known.permits_trials,
        ..ReturnTimes::default()
    };
    let plan = match (carriers.udp, known.udp) {
        (true, UdpBefore::Good) => CarrierPlan::UdpThen(links, times),
        (true, UdpBefore::Doubtful) => CarrierPlan::UdpAnd(links, times),
        (true, UdpBefore::Worse(time)) => {
            let avoided = Some(time);
            CarrierPlan::LinksThenUdp(links, ReturnTimes { avoided, ..times })
        }
        (false, _) => CarrierPlan::Links(links, times),
    };
    Ok((plan, attempts))
}

/// Returns the carriers beside UDP to the gateway of `invite` at these addresses, in their order; `None` if there are none.
pub(super) fn links(
    settings: &CarrierSettings,
    carriers: Carriers,
    invite: &Invite,
    at: &LinkAddresses,
    known: Known,
) -> Result<Option<Links>, Trouble> {
    let mut links: Vec<(Arc<dyn Carrier>, watch::Receiver<LinkAttempt>)> = Vec::new();
    if carriers.tls {
        let tls = settings.tls(invite, at)?;
        let attempts = tls.attempts();
        links.push((Arc::new(tls), attempts));
    }
    let is_alone = !carriers.udp && !carriers.tls;
    if carriers.quic && (is_alone || !known.is_uplink_slow) {
        let quic = settings.quic(invite, at)?;
        let attempts = quic.attempts();
        links.push((Arc::new(quic), attempts));
    }
    if known.has_used_quic {
        links.reverse();
    }
    let mut links = links.into_iter();
    let Some((first, attempts)) = links.next() else {
        return Ok(None);
    };
    let links = links.fold(LinkCarriers::new(first), |links, (next, _)| links.then(next));
    Ok(Some((links, attempts)))
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
    fn choices_of_carriers_have_names() {
        let quic = Carriers {
            tls: false,
            ..Carriers::AUTO
        };
        let names = [Carriers::AUTO, Carriers::UDP, Carriers::TLS, quic].map(Carriers::names);
        assert_eq!(names, ["auto", "udp", "tls", "udp,quic"]);
    }

    #[test]
    fn the_host_is_what_precedes_the_port() {
        assert_eq!(host("gw.example.org:4433"), "gw.example.org");
        assert_eq!(host("192.0.2.1:4433"), "192.0.2.1");
        assert_eq!(host("[2001:db8::1]:4433"), "2001:db8::1");
    }
}

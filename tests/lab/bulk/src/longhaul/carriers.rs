//! The carriers of a session, as of agent and gateway.
use std::{net::SocketAddr, sync::Arc};

use longhaul_carriers::{PemIdentity, QuicCarrier, QuicListener, TlsCarrier, TlsListener};
use longhaul_driver::{CarrierPlan, LinkAcceptor, LinkCarriers, ReturnTimes};
use longhaul_types::PublicKey;

use super::Enrolment;
use crate::{
    error::{ServeError, TransferError},
    system::System,
};

/// Ports of a server's carriers.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarrierPorts {
    tls: u16,
    quic: u16,
}

/// A server's TLS and QUIC.
pub(super) struct CarrierListeners {
    tls: TlsListener,
    quic: QuicListener,
}

impl CarrierListeners {
    /// Listens at free ports of the address.
    pub(super) async fn bind(address: SocketAddr, gateway: PublicKey) -> Result<Self, ServeError> {
        let free = SocketAddr::new(address.ip(), 0);
        let identity = PemIdentity::self_signed("gateway.invalid")?;
        Ok(Self {
            tls: TlsListener::bind(free, identity.parse()?, gateway).await?,
            quic: QuicListener::bind(free, identity.parse()?, gateway)?,
        })
    }

    pub(super) const fn ports(&self) -> CarrierPorts {
        CarrierPorts {
            tls: self.tls.local_addr().port(),
            quic: self.quic.local_addr().port(),
        }
    }

    /// Opens links; never returns.
    pub(super) async fn run(self, links: LinkAcceptor) {
        tokio::join!(self.tls.run(links.clone()), self.quic.run(links));
    }
}

/// Carriers that a client's session uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UsedCarriers {
    /// UDP.
    Udp,
    /// TLS.
    Tls,
    /// QUIC.
    Quic,
    /// UDP, and TLS where UDP does not answer.
    UdpThenTls,
    /// UDP and TLS at the same time.
    UdpAndTls,
}

impl UsedCarriers {
    /// Returns the only carrier of a system; other systems than Longhaul have none.
    pub(crate) const fn of(system: System) -> Self {
        match system {
            System::LonghaulTls => Self::Tls,
            System::LonghaulQuic => Self::Quic,
            System::Longhaul
            | System::Cubic
            | System::Bbr
            | System::Quinn
            | System::QuinnTuned
            | System::QuinnBbr => Self::Udp,
        }
    }

    /// Returns the choice for a session with the server.
    pub(super) fn plan(
        self,
        server: SocketAddr,
        enrolment: &Enrolment,
    ) -> Result<CarrierPlan, TransferError> {
        let at = |port| SocketAddr::new(server.ip(), port);
        let (host, times) = (server.ip().to_string(), ReturnTimes::default());
        let tls = || {
            let carrier = TlsCarrier::new(at(enrolment.ports.tls), &host, enrolment.gateway)?;
            Ok::<_, TransferError>(LinkCarriers::new(Arc::new(carrier)))
        };
        Ok(match self {
            Self::Udp => CarrierPlan::Udp,
            Self::Tls => CarrierPlan::Links(tls()?, times),
            Self::Quic => {
                let carrier = QuicCarrier::new(at(enrolment.ports.quic), &host)?;
                CarrierPlan::Links(LinkCarriers::new(Arc::new(carrier)), times)
            }
            Self::UdpThenTls => CarrierPlan::UdpThen(tls()?, times),
            Self::UdpAndTls => CarrierPlan::UdpAnd(tls()?, times),
        })
    }
}

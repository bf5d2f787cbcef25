//! What a connection needs before it is served: a place among the others, the options of its socket, and its pace.
use std::{net::IpAddr, sync::Arc};

use longhaul_gateway_core::connections::{Place, Standing};

use super::{Clientless, access::Denied, pace::Paces, socket::SocketOptions, stream::PacedStream};

/// What the connections of all ports share.
pub(super) struct Entrance {
    pub(super) shared: Arc<Clientless>,
    options: SocketOptions,
    paces: Paces,
}

impl Entrance {
    pub(super) fn new(shared: Arc<Clientless>) -> Self {
        Self {
            options: SocketOptions::new(shared.config.link),
            shared,
            paces: Paces::default(),
        }
    }

    /// Returns true if connections from the address end without an answer, and counts this one.
    pub(super) fn is_silent(&self, address: IpAddr) -> bool {
        let is_silent = self.shared.access.is_silent(address);
        if is_silent {
            self.shared.counters.denied(Denied::Silent.name());
        }
        is_silent
    }

    /// Where a connection from the address comes from.
    pub(super) fn standing(&self, address: IpAddr) -> Standing {
        self.shared.access.standing(address)
    }

    /// Admits a connection, and prepares it; `None` beyond the limits: its client tries again later.
    pub(super) fn admit(&self, stream: &mut PacedStream, address: IpAddr) -> Option<Place> {
        let place = self
            .shared
            .access
            .connections()
            .enter(address, self.standing(address))?;
        self.options.set(&stream.tcp());
        let pace = self.paces.of(address, stream.link(), self.shared.config.link);
        stream.set_pace(pace);
        Some(place)
    }
}

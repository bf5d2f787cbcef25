//! The gateway's addresses during a session: those of its network, and those that its name has later.
use std::net::SocketAddr;

use longhaul_driver::{ConnectionStats, NetworkChange};

use super::{LinkTracker, Moved};
use crate::{
    gateway::{
        address_order::{Answered, KnownAddresses, delay},
        carriers::{Known, UsedCarrier},
        gateway_session::GatewaySession,
        reachability::MAX_ADDRESSES,
    },
    networks::{Recalled, source_towards},
};

impl LinkTracker {
    /// True if the session does not run through an HTTP proxy, which looks the gateway's name up itself.
    pub(in crate::gateway) const fn has_gateway_addresses(&self) -> bool {
        !self.addresses.all.is_empty()
    }

    /// The gateway's addresses in the current network, for a session that goes on over its own.
    pub(in crate::gateway) async fn addresses_from(&self, stats: &ConnectionStats) -> Vec<SocketAddr> {
        match stats.remote.or(self.towards) {
            Some(used) => self.addresses.reachable(used, Answered::default()).await,
            None => Vec::new(),
        }
    }

    /// The move of the session to other addresses of the gateway, in the same network; `None` if these are the known ones.
    pub(in crate::gateway) async fn gateway_moved(
        &mut self,
        mut addresses: Vec<SocketAddr>,
    ) -> Option<Moved> {
        let known = &self.addresses.all;
        let first = *addresses.iter().find(|address| !known.contains(address))?;
        // The network before a login can answer for every name: the addresses before remain known.
        let before: Vec<_> = known
            .iter()
            .filter(|address| !addresses.contains(address))
            .collect();
        addresses.extend(before);
        addresses.truncate(MAX_ADDRESSES);
        self.addresses.all = addresses;
        Some(Moved {
            change: NetworkChange::Same,
            addresses: self.addresses.reachable(first, Answered::default()).await,
            delay: delay(self.told),
            known: Known::default(),
        })
    }

    /// The move of a session that began through an HTTP proxy alone to the gateway's own addresses; `None` if there is no
    /// route to them from here. `is_udp_expected`: as in [`Self::opened`].
    pub(in crate::gateway) async fn gateway_found(
        &mut self,
        session: &GatewaySession,
        found: KnownAddresses,
        is_udp_expected: bool,
    ) -> Option<Moved> {
        let network = self.network.as_ref();
        let recalled = network.map_or_else(Recalled::default, |network| self.memory.recall(network));
        let profile = self.told.or(recalled.profile);
        let addresses = found
            .reachable(*found.all.first()?, Answered::of(&recalled))
            .await;
        let first = *addresses.first()?;
        self.addresses = found;
        self.towards = Some(first);
        self.source = source_towards(first).await.ok();
        self.uses = is_udp_expected.then(|| UsedCarrier::of(&session.stats()));
        Some(Moved {
            change: NetworkChange::Same,
            addresses,
            delay: delay(profile),
            known: Self::known(&recalled, profile),
        })
    }
}

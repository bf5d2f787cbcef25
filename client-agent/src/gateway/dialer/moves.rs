//! Changes of the network and of the gateway's addresses during a session.
use std::{net::SocketAddr, time::Duration};

use longhaul_driver::{GatewayAddresses, NetworkChange};
use tracing::{debug, info};

use super::{
    Dialer,
    lookups::{self, GatewayLookup, Reason},
};
use crate::{
    gateway::{
        address_order::KnownAddresses,
        carriers::{self, LinkAddresses},
        gateway_session::GatewaySession,
        link_tracker::{Looked, Moved},
        reachability,
    },
    networks::Wake,
    trouble::Trouble,
};

/// Timeout of a lookup of the gateway's name. The session goes on meanwhile.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

impl Dialer {
    /// Looks at the way to the gateway, lets the session follow it, and publishes what is known about its link. Returns
    /// true if the attempts to open a link are others from now on.
    pub(super) async fn look_at_network(
        &mut self,
        session: &GatewaySession,
        lookup: &mut GatewayLookup,
        wake: Wake,
    ) -> bool {
        let looked = self.link.look(session, wake).await;
        let has_addresses = self.link.has_gateway_addresses();
        // A network of another address family, perhaps with addresses of its own for the gateway (RFC 6147).
        if matches!(looked, Looked::NoRoute) && has_addresses && reachability::has_route().await {
            self.look_up(lookup, Reason::NoRoute(wake));
        }
        let is_other =
            matches!(&looked, Looked::Moved(moved) if matches!(moved.change, NetworkChange::Other(_)));
        // Through a proxy alone, the settings may permit more where this network has another way.
        if is_other && !has_addresses && self.over != self.config.carrier.carriers {
            lookup.seek();
        }
        if lookup.is_due() {
            self.look_up(lookup, Reason::Proxy);
        }
        self.apply(session, looked).await
    }

    /// Looks the gateway's name up again while its addresses are silent, after `looks` looks at the way to them: at the second,
    /// fourth, eighth look and so on.
    pub(super) fn look_for_gateway(&self, lookup: &mut GatewayLookup, looks: u32) {
        if looks >= 2 && lookups::is_time(looks) {
            self.look_up(lookup, Reason::Silence);
        }
    }

    fn look_up(&self, lookup: &mut GatewayLookup, reason: Reason) {
        let name = self.config.invite.address().to_owned();
        lookup.begin(reason, async move {
            reachability::look_up(&name, LOOKUP_TIMEOUT).await
        });
    }

    /// Uses the result of a lookup of the gateway's name. Returns true if the attempts to open a link are others from now on.
    pub(super) async fn use_lookup(
        &mut self,
        session: &GatewaySession,
        lookup: &mut GatewayLookup,
        reason: Reason,
        found: Result<Vec<SocketAddr>, Trouble>,
    ) -> bool {
        let Ok(addresses) = found else { return false };
        debug!(?addresses, ?reason, "the gateway's name was looked up again");
        match reason {
            Reason::NoRoute(wake) => {
                self.link.addresses.all = addresses;
                let looked = self.link.look(session, wake).await;
                self.apply(session, looked).await
            }
            Reason::Silence => {
                let Some(moved) = self.link.gateway_moved(addresses).await else {
                    return false;
                };
                info!("the gateway's name has other addresses; the session continues there");
                self.follow(session, moved)
            }
            Reason::Proxy => {
                let Some(moved) = self.found_beside_proxy(session, addresses).await else {
                    return false;
                };
                lookup.found();
                self.follow(session, moved)
            }
        }
    }

    /// Permits a session that was opened through an HTTP proxy alone what the settings permit, if there is a route from
    /// here to one of the gateway's addresses.
    async fn found_beside_proxy(&mut self, session: &GatewaySession, all: Vec<SocketAddr>) -> Option<Moved> {
        let carriers = self.config.carrier.carriers;
        let found = KnownAddresses {
            all,
            ports: self.announced.of(self.config.invite.gateway()).udp_ports,
        };
        let is_udp_expected = carriers.has_udp_beside_others();
        let moved = self.link.gateway_found(session, found, is_udp_expected).await?;
        info!("this network has a way to the gateway beside the HTTP proxy");
        self.over = carriers;
        Some(moved)
    }

    /// Lets the session follow what a look has found, and writes what was noted about the network afterwards.
    async fn apply(&mut self, session: &GatewaySession, looked: Looked) -> bool {
        let is_new = match looked {
            Looked::Moved(moved) => self.follow(session, moved),
            Looked::Unchanged | Looked::NoRoute => false,
        };
        let link = self.link.knowledge;
        self.view
            .send_if_modified(|view| std::mem::replace(&mut view.link, link) != link);
        self.link.write_records().await;
        is_new
    }

    /// Lets the session follow a change of the network.
    fn follow(&mut self, session: &GatewaySession, moved: Moved) -> bool {
        let Moved {
            change,
            addresses,
            delay,
            known,
        } = moved;
        let mut is_new = false;
        if let Some((first, others)) = addresses.split_first() {
            let invite = self.identity.invite();
            let at = LinkAddresses {
                first: *first,
                others: others.to_vec(),
                delay,
            };
            let links = carriers::links(&self.config.carrier, self.over, invite, &at, known);
            let links = links.ok().flatten();
            let carriers = links.map(|(links, attempts)| {
                self.attempts = attempts;
                links
            });
            is_new = carriers.is_some();
            session.use_addresses(GatewayAddresses {
                udp: self.udp(addresses),
                carriers,
            });
        }
        session.network_changed(change);
        is_new
    }

    /// The gateway has announced its ports: the session uses them where its own falls silent.
    pub(super) async fn use_ports(&mut self, session: &GatewaySession) {
        let announced = session.watch_announcement();
        let ports = announced
            .borrow()
            .as_ref()
            .map(|announced| announced.udp_ports.clone());
        let Some(ports) = ports.filter(|ports| *ports != self.link.addresses.ports) else {
            return;
        };
        self.link.addresses.ports = ports;
        let addresses = self.link.addresses_from(&session.stats()).await;
        session.use_addresses(GatewayAddresses {
            udp: self.udp(addresses),
            carriers: None,
        });
    }

    /// The addresses over which the session may use UDP: none if the settings do not permit it.
    fn udp(&self, addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
        if self.over.udp { addresses } else { Vec::new() }
    }
}

//! Changes of the network and of the gateway's addresses during a session.
use std::time::Duration;

use longhaul_driver::GatewayAddresses;
use tracing::{debug, info};

use super::Dialer;
use crate::{
    gateway::{
        carriers::{self, LinkAddresses},
        gateway_session::GatewaySession,
        link_tracker::{Looked, Moved},
        reachability,
    },
    networks::Wake,
};

/// Looks between two lookups of the name of a gateway that has been silent for long.
const MOST_LOOKS: u32 = 32;
/// Timeout of a lookup of the gateway's name in a network that reaches none of its known addresses. The session waits for it.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(3);

impl Dialer {
    /// Looks at the way to the gateway, lets the session follow it, and publishes what is known about its link. Returns
    /// true if the attempts to open a link are others from now on.
    pub(super) async fn look_at_network(&mut self, session: &GatewaySession, wake: Wake) -> bool {
        let mut looked = self.link.look(session, wake).await;
        // A network of another address family, perhaps with addresses of its own for the gateway (RFC 6147).
        if matches!(looked, Looked::NoRoute)
            && self.link.has_gateway_addresses()
            && reachability::has_route().await
        {
            let name = self.config.invite.address().to_owned();
            if let Ok(addresses) = reachability::look_up(&name, LOOKUP_TIMEOUT).await {
                debug!(?addresses, "the gateway's name was looked up again");
                self.link.addresses.all = addresses;
                looked = self.link.look(session, wake).await;
            }
        }
        let is_new = match looked {
            Looked::Moved(moved) => self.follow(session, moved),
            Looked::Unchanged | Looked::NoRoute => false,
        };
        let link = self.link.knowledge;
        self.view
            .send_if_modified(|view| std::mem::replace(&mut view.link, link) != link);
        is_new
    }

    /// Looks the gateway's name up again while its addresses are silent, after `looks` looks at the way to them: at the second,
    /// fourth, eighth look and so on. Returns true if the attempts to open a link are others from now on.
    pub(super) async fn look_for_gateway(&mut self, session: &GatewaySession, looks: u32) -> bool {
        if looks < 2 || !(looks.is_power_of_two() || looks.is_multiple_of(MOST_LOOKS)) {
            return false;
        }
        let name = self.config.invite.address().to_owned();
        let Ok(addresses) = reachability::look_up(&name, LOOKUP_TIMEOUT).await else {
            return false;
        };
        let Some(moved) = self.link.gateway_moved(addresses).await else {
            return false;
        };
        info!("the gateway's name has other addresses; the session continues there");
        self.follow(session, moved)
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
                udp: addresses,
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
            udp: addresses,
            carriers: None,
        });
    }
}

//! The network through which the session runs, and what is known about its link.
mod gateway_addresses;
mod records;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_driver::{Alternatives, ConnectionStats, NetworkChange};
use longhaul_protocol::connection::RateProbing;
use longhaul_types::{BitRate, LinkProfile};
use tracing::{debug, info};

use self::records::Records;
use super::{
    address_order::{Answered, KnownAddresses, delay, ordered},
    carriers::{Known, UdpBefore, UsedCarrier},
    gateway_session::GatewaySession,
    state::LinkKnowledge,
};
use crate::networks::{Attachment, Metered, NetworkMemory, NetworkWatch, Recalled, Wake, source_towards};

/// Rate of an uplink for which QUIC, with its acknowledgements and longer headers, is no choice beside others.
const SLOW_UPLINK: BitRate = BitRate::kbps(64);
/// Packets since the last look that an idle session exchanges: a keepalive, its answer and feedback.
const IDLE_PACKETS: u64 = 4;

/// The network of the current session, and the memory of networks.
pub(super) struct LinkTracker {
    memory: NetworkMemory,
    /// Profile that the user told.
    told: Option<LinkProfile>,
    metered: Metered,
    pub(super) watch: NetworkWatch,
    network: Option<Attachment>,
    source: Option<IpAddr>,
    pub(super) knowledge: LinkKnowledge,
    /// A round-trip time was compared with the remembered one.
    is_confirmed: bool,
    records: Records,
    /// Packets of the session at the last look.
    packets: u64,
    /// The carrier of the session, if it may use UDP and others and is open.
    uses: Option<UsedCarrier>,
    /// Address through whose route a session without UDP runs: the gateway's, or that of an HTTP proxy.
    towards: Option<SocketAddr>,
    /// The gateway's addresses, as far as they are known.
    pub(super) addresses: KnownAddresses,
    /// The attempt in progress avoids UDP.
    avoids_udp: bool,
    /// How often UDP had carried less than another carrier in this session at the last look.
    worse_returns: u64,
    /// It is known whether the user pays for each byte of the network.
    is_price_known: bool,
}

/// How a session begins.
#[derive(Clone, Debug)]
pub(super) struct Start {
    /// First address.
    pub(super) address: SocketAddr,
    /// The other addresses.
    pub(super) alternatives: Alternatives,
    pub(super) profile: Option<LinkProfile>,
    /// The link is measured by as few bytes as possible.
    pub(super) is_metered: bool,
    /// What is known about the carriers in this network.
    pub(super) known: Known,
}

impl Start {
    /// How an unknown link is measured, and a known one verified and warmed up.
    pub(super) const fn probing(&self) -> RateProbing {
        if self.is_metered {
            RateProbing::Pair
        } else {
            RateProbing::Full
        }
    }
}

/// What the way to the gateway says about the network.
enum Network {
    Same,
    /// Another address of this computer in the same network, or the end of a suspension.
    Refreshed,
    /// Another network, and what is remembered about it.
    Other(Recalled),
}

/// What a look at the way to the gateway has found.
#[derive(Debug)]
pub(super) enum Looked {
    Unchanged,
    /// There is no route to any known address of the gateway.
    NoRoute,
    Moved(Moved),
}

/// A change of the way to the gateway, for the session.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) change: NetworkChange,
    /// The gateway's UDP addresses in the network, of which the session uses the first; empty if they stay.
    pub(super) addresses: Vec<SocketAddr>,
    /// Time between the attempts at two of them.
    pub(super) delay: Duration,
    pub(super) known: Known,
}

impl LinkTracker {
    pub(super) fn new(memory: NetworkMemory, told: Option<LinkProfile>, metered: Metered) -> Self {
        Self {
            memory,
            told,
            metered,
            watch: NetworkWatch::start(),
            network: None,
            source: None,
            knowledge: LinkKnowledge::of_profile(told, None),
            is_confirmed: false,
            records: Records::default(),
            packets: 0,
            uses: None,
            towards: None,
            addresses: KnownAddresses::default(),
            avoids_udp: false,
            worse_returns: 0,
            is_price_known: metered != Metered::Auto,
        }
    }

    /// Prepares the start of a session with one of these addresses; `None` if there are none. `all` are those of the
    /// gateway, also where they cannot be reached at present.
    pub(super) async fn begin(&mut self, addresses: &[SocketAddr], all: KnownAddresses) -> Option<Start> {
        self.write_records().await;
        let towards = addresses.first()?.ip();
        let network = Attachment::find(towards).await;
        // A known link costs bytes, too: it is verified and, over TLS, warmed up.
        let is_metered = self.metered.decide(towards).await;
        let start = self.start(network, addresses, all, is_metered)?;
        self.source = source_towards(start.address).await.ok();
        Some(start)
    }

    /// The start of a session in this network.
    fn start(
        &mut self,
        network: Option<Attachment>,
        addresses: &[SocketAddr],
        all: KnownAddresses,
        is_metered: bool,
    ) -> Option<Start> {
        let recalled = self.enter(network);
        let mut ordered = ordered(addresses, &all.ports, Answered::of(&recalled)).into_iter();
        self.addresses = all;
        let address = ordered.next()?;
        self.towards = Some(address);
        let profile = self.told.or(recalled.profile);
        Some(Start {
            is_metered,
            address,
            alternatives: Alternatives {
                addresses: ordered.collect(),
                delay: delay(profile),
            },
            profile,
            known: Known {
                udp: self.udp_before(&recalled),
                permits_trials: self.metered == Metered::No,
                ..Self::known(&recalled, profile)
            },
        })
    }

    /// What is known about the other carriers of a network.
    fn known(recalled: &Recalled, profile: Option<LinkProfile>) -> Known {
        Known {
            udp: UdpBefore::Good,
            permits_trials: false,
            has_used_quic: recalled.is_quic_expected,
            is_uplink_slow: profile.is_some_and(|profile| profile.up < SLOW_UPLINK),
        }
    }

    /// An attempt that avoided UDP and opened no session is followed by one that does not.
    fn udp_before(&mut self, recalled: &Recalled) -> UdpBefore {
        let has_failed = std::mem::take(&mut self.avoids_udp);
        match recalled.avoids_udp_for {
            Some(time) if !has_failed => {
                self.avoids_udp = true;
                UdpBefore::Worse(time)
            }
            Some(_) => UdpBefore::Doubtful,
            None if recalled.is_udp_doubtful => UdpBefore::Doubtful,
            None => UdpBefore::Good,
        }
    }

    /// Notes which of the addresses has answered: the way to it may be another one. `is_udp_expected`: the session may
    /// use the other carriers only where UDP fails.
    pub(super) async fn opened(&mut self, session: &GatewaySession, is_udp_expected: bool) {
        let uses = UsedCarrier::of(&session.stats());
        let was_avoided = std::mem::take(&mut self.avoids_udp);
        self.worse_returns = 0;
        self.uses = is_udp_expected.then_some(uses);
        if is_udp_expected && uses != UsedCarrier::Udp && was_avoided {
            // Where UDP was avoided, its silence says nothing.
            self.note_link(uses);
        } else if is_udp_expected {
            self.note_carrier(uses);
        }
        self.write_records().await;
        let Some(remote) = session.stats().remote else {
            return;
        };
        let source = source_towards(remote).await.ok();
        if source != self.source {
            self.network = Attachment::find(remote.ip()).await;
            self.memory.enter(self.network.as_ref());
        }
        self.source = source;
    }

    /// Begins to track a network; returns what is remembered about it.
    fn enter(&mut self, network: Option<Attachment>) -> Recalled {
        let recalled = network
            .as_ref()
            .map_or_else(Recalled::default, |network| self.memory.recall(network));
        self.memory.enter(network.as_ref());
        self.network = network;
        self.knowledge = LinkKnowledge::of_profile(self.told, recalled.profile);
        self.is_confirmed = false;
        self.is_price_known = self.metered != Metered::Auto;
        self.records.begin();
        recalled
    }

    /// Waits for the next reason to look at the way to the gateway: sooner if the session `is_stalled`, or exchanges more
    /// than keepalives. Cancel safe.
    pub(super) async fn next_wake(&mut self, session: &GatewaySession, is_stalled: bool) -> Wake {
        let before = self.packets;
        let is_used = || packets(&session.stats()).saturating_sub(before) > IDLE_PACKETS;
        self.watch.next(|| is_stalled || is_used()).await
    }

    /// Looks at the way to the gateway. The session has to be told if it has changed; [`Self::write_records`] follows then.
    pub(super) async fn look(&mut self, session: &GatewaySession, wake: Wake) -> Looked {
        let stats = session.stats();
        self.packets = packets(&stats);
        self.note_session(&stats, session.worse_returns(), session.is_trying_link());
        let Some(remote) = stats.remote.or(self.towards) else {
            return Looked::Unchanged;
        };
        // Without a route there is no other network: the session waits, as in any outage.
        let Some((towards, source)) = self.addresses.way(remote).await else {
            return Looked::NoRoute;
        };
        let found = Attachment::find(towards.ip()).await;
        let network = self.judge(&stats, found, source, wake);
        self.towards = Some(towards);
        match network {
            Network::Other(recalled) => {
                let profile = self.told.or(recalled.profile);
                info!(
                    link = self.knowledge.name(),
                    "the network has changed; the session continues"
                );
                Looked::Moved(Moved {
                    change: NetworkChange::Other(profile),
                    delay: delay(profile),
                    addresses: self.addresses.reachable(towards, Answered::of(&recalled)).await,
                    known: Self::known(&recalled, profile),
                })
            }
            Network::Refreshed => {
                debug!(?wake, "the session continues on a new socket");
                let addresses = if towards == remote {
                    Vec::new()
                } else {
                    self.addresses.reachable(towards, Answered::default()).await
                };
                Looked::Moved(Moved {
                    change: NetworkChange::Same,
                    addresses,
                    delay: delay(self.told),
                    known: Known::default(),
                })
            }
            Network::Same => {
                // NetworkManager answers late, so a session that has to follow is told first.
                if !std::mem::replace(&mut self.is_price_known, true) {
                    session.permit_trials(!self.metered.decide(towards.ip()).await);
                }
                Looked::Unchanged
            }
        }
    }

    /// Compares the way to the gateway with the one before. It does not wait for the disk: the session waits for the result.
    fn judge(
        &mut self,
        stats: &ConnectionStats,
        found: Option<Attachment>,
        source: IpAddr,
        wake: Wake,
    ) -> Network {
        let before = self.source.replace(source);
        let has_moved = before.is_some_and(|before| before != source);
        // Another network can give this computer the same private address.
        let is_other_router = found.is_some() && self.network.is_some() && found != self.network;
        let is_same_router = found.is_some() && found == self.network;
        if is_other_router || has_moved && !is_same_router {
            self.note_stats(stats);
            return Network::Other(self.enter(found));
        }
        let is_refreshed = has_moved || wake == Wake::Resumed;
        if !is_refreshed {
            self.compare(stats);
            if self.records.is_due() {
                self.note_stats(stats);
            }
        }
        // The router's hardware address may become known only now.
        if self.network.is_none() && found.is_some() {
            self.memory.enter(found.as_ref());
            self.network = found;
        }
        if is_refreshed {
            Network::Refreshed
        } else {
            Network::Same
        }
    }

    /// Compares the measured round-trip time with the remembered one, once in a network.
    fn compare(&mut self, stats: &ConnectionStats) {
        let (Some(network), Some(rtt)) = (&self.network, stats.link.least_rtt) else {
            return;
        };
        if self.knowledge != LinkKnowledge::Remembered || std::mem::replace(&mut self.is_confirmed, true) {
            return;
        }
        if !self.memory.confirms(network, rtt) {
            self.knowledge = LinkKnowledge::Measured;
        }
    }
}

const fn packets(stats: &ConnectionStats) -> u64 {
    stats.packets_sent + stats.packets_received
}

#[cfg(test)]
mod tests;

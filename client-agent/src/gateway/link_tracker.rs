//! The network through which the session runs, and what is known about its link.
use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use longhaul_driver::{Alternatives, ConnectionStats, NetworkChange};
use longhaul_types::{BitRate, LinkProfile};
use tokio::time::Instant;
use tracing::{debug, info};

use super::{
    address_order::{Answered, KnownAddresses, delay, ordered},
    carriers::{Known, UdpBefore, UsedCarrier},
    gateway_session::GatewaySession,
    reachability::MAX_ADDRESSES,
    state::LinkKnowledge,
};
use crate::networks::{
    Attachment, Metered, NetworkMemory, NetworkWatch, Recalled, Recorded, Wake, source_towards,
};

/// Time between two records of a long session: what a killed agent loses.
const RECORD_INTERVAL: Duration = Duration::from_secs(60);
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
    recorded: Recorded,
    recorded_at: Instant,
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
            recorded: Recorded::default(),
            recorded_at: Instant::now(),
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
        let towards = addresses.first()?.ip();
        let recalled = self.enter(Attachment::find(towards).await);
        let mut ordered = ordered(addresses, &all.ports, Answered::of(&recalled)).into_iter();
        self.addresses = all;
        let address = ordered.next()?;
        self.towards = Some(address);
        self.source = source_towards(address).await.ok();
        let profile = self.told.or(recalled.profile);
        // A known link costs bytes, too: it is verified and, over TLS, warmed up.
        let is_metered = self.metered.decide(towards).await;
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
            self.record_link(uses).await;
        } else if is_udp_expected {
            self.record_carrier(uses).await;
        }
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

    /// Records which carrier works in the current network.
    async fn record_carrier(&self, uses: UsedCarrier) {
        let Some(network) = self.network.clone() else {
            return;
        };
        let memory = self.memory.clone();
        let record = move || {
            memory.record_udp(&network, uses == UsedCarrier::Udp);
            if uses != UsedCarrier::Udp {
                memory.record_quic(&network, uses == UsedCarrier::Quic);
            }
        };
        // It cannot be cancelled, and a panic in it is reported by the runtime.
        let _written = tokio::task::spawn_blocking(record).await;
    }

    /// Records the carrier if the session has changed to another one than UDP.
    async fn note_carrier(&mut self, now: UsedCarrier) {
        let Some(before) = self.uses.replace(now) else {
            self.uses = None;
            return;
        };
        if before == UsedCarrier::Udp && now != UsedCarrier::Udp {
            self.record_carrier(now).await;
        } else if before != now && now != UsedCarrier::Udp {
            self.record_link(now).await;
        }
    }

    /// Records which carrier works in the current network beside UDP, of which nothing is known.
    async fn record_link(&self, uses: UsedCarrier) {
        let Some(network) = self.network.clone() else {
            return;
        };
        let memory = self.memory.clone();
        // It cannot be cancelled, and a panic in it is reported by the runtime.
        let record = move || memory.record_quic(&network, uses == UsedCarrier::Quic);
        let _written = tokio::task::spawn_blocking(record).await;
    }

    /// Records that UDP carried less than another carrier in the current network.
    async fn record_worse_udp(&self) {
        let Some(network) = self.network.clone() else {
            return;
        };
        info!("UDP carries less than the carrier before in this network: it is avoided for 24 h");
        let memory = self.memory.clone();
        // It cannot be cancelled, and a panic in it is reported by the runtime.
        let _written = tokio::task::spawn_blocking(move || memory.record_worse_udp(&network)).await;
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
        self.recorded = Recorded::default();
        self.recorded_at = Instant::now();
        recalled
    }

    /// True if the session exchanges more than keepalives.
    pub(super) fn is_in_use(&self, stats: &ConnectionStats) -> bool {
        packets(stats).saturating_sub(self.packets) > IDLE_PACKETS
    }

    /// Looks at the way to the gateway. The session has to be told if it has changed.
    pub(super) async fn look(&mut self, session: &GatewaySession, wake: Wake) -> Looked {
        let stats = session.stats();
        self.packets = packets(&stats);
        let worse_returns = session.worse_returns();
        if std::mem::replace(&mut self.worse_returns, worse_returns) < worse_returns {
            self.record_worse_udp().await;
            // It answers, so that this is no failure of UDP.
            self.uses = self.uses.map(|_| UsedCarrier::of(&stats));
        }
        if !session.is_trying_link() {
            self.note_carrier(UsedCarrier::of(&stats)).await;
        }
        let Some(remote) = stats.remote.or(self.towards) else {
            return Looked::Unchanged;
        };
        // Without a route there is no other network: the session waits, as in any outage.
        let Some((towards, source)) = self.addresses.way(remote).await else {
            return Looked::NoRoute;
        };
        if !std::mem::replace(&mut self.is_price_known, true) {
            session.permit_trials(!self.metered.decide(towards.ip()).await);
        }
        let found = Attachment::find(towards.ip()).await;
        let has_moved = self.source.is_some_and(|before| before != source);
        // Another network can give this computer the same private address.
        let is_other_router = found.is_some() && self.network.is_some() && found != self.network;
        let is_same_router = found.is_some() && found == self.network;
        let mut looked = Looked::Unchanged;
        if is_other_router || has_moved && !is_same_router {
            self.record(&stats).await;
            let recalled = self.enter(found.clone());
            let profile = self.told.or(recalled.profile);
            info!(
                link = self.knowledge.name(),
                "the network has changed; the session continues"
            );
            looked = Looked::Moved(Moved {
                change: NetworkChange::Other(profile),
                delay: delay(profile),
                addresses: self.addresses.reachable(towards, Answered::of(&recalled)).await,
                known: Self::known(&recalled, profile),
            });
        } else if has_moved || wake == Wake::Resumed {
            debug!(?wake, has_moved, "the session continues on a new socket");
            let addresses = if towards == remote {
                Vec::new()
            } else {
                self.addresses.reachable(towards, Answered::default()).await
            };
            looked = Looked::Moved(Moved {
                change: NetworkChange::Same,
                addresses,
                delay: delay(self.told),
                known: Known::default(),
            });
        } else {
            self.compare(&stats);
            if self.recorded_at.elapsed() >= RECORD_INTERVAL {
                self.record(&stats).await;
            }
        }
        // The router's hardware address may become known only now.
        if self.network.is_none() && found.is_some() {
            self.memory.enter(found.as_ref());
            self.network = found;
        }
        self.source = Some(source);
        self.towards = Some(towards);
        looked
    }

    /// True if the session does not run through an HTTP proxy, which looks the gateway's name up itself.
    pub(super) const fn has_gateway_addresses(&self) -> bool {
        !self.addresses.all.is_empty()
    }

    /// The gateway's addresses in the current network, for a session that goes on over its own.
    pub(super) async fn addresses_from(&self, stats: &ConnectionStats) -> Vec<SocketAddr> {
        match stats.remote.or(self.towards) {
            Some(used) => self.addresses.reachable(used, Answered::default()).await,
            None => Vec::new(),
        }
    }

    /// The move of the session to other addresses of the gateway, in the same network; `None` if these are the known ones.
    pub(super) async fn gateway_moved(&mut self, mut addresses: Vec<SocketAddr>) -> Option<Moved> {
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

    /// Records what the session has found out about the link of the current network.
    pub(super) async fn record(&mut self, stats: &ConnectionStats) {
        self.compare(stats);
        let Some(network) = self.network.clone() else {
            return;
        };
        if !self.memory.is_on() || stats.packets_received == 0 {
            return;
        }
        let (memory, mut recorded, mut stats) = (self.memory.clone(), self.recorded, *stats);
        // Only a start at the remembered rate says something about this rate.
        stats.link.started_too_fast &= self.knowledge == LinkKnowledge::Remembered;
        let written = tokio::task::spawn_blocking(move || {
            memory.record(&network, &mut recorded, &stats);
            recorded
        });
        if let Ok(recorded) = written.await {
            self.recorded = recorded;
        }
        self.recorded_at = Instant::now();
    }
}

const fn packets(stats: &ConnectionStats) -> u64 {
    stats.packets_sent + stats.packets_received
}

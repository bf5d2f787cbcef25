//! Connection to one peer after key establishment: short packets, frames, timers, path (transport.md sections
//! 2, 4 to 7).
//!
//! Sans-IO: time is an argument, and output is polled. The endpoint drives the connection; users open, write
//! and read streams.
mod config;
mod held_packets;
mod link_meter;
mod mtu;
mod path;
mod path_probe;
mod probe;
mod rate_probing;
mod receive;
mod stats;
mod timeouts;
mod timer;
mod transmit;
mod user;

use std::{collections::VecDeque, time::Duration};

use longhaul_types::{LinkProfile, Timestamp};
use zeroize::Zeroizing;

pub use config::{EARLY_STREAM_WINDOW, EARLY_STREAMS, TransportConfig};
pub use link_meter::LinkSummary;
pub use path::Validation;
pub use rate_probing::RateProbing;
pub use stats::{ConnectionStats, State};
pub use user::EarlyData;

use self::{
    held_packets::HeldPacketDetector,
    link_meter::LinkMeter,
    mtu::PathMtu,
    path::PeerPath,
    path_probe::PathProbes,
    probe::Prober,
    rate_probing::Probing,
    timer::{Timer, Timers},
};
use crate::{
    congestion::{ByteRate, Controller, InitialGrant, Pacer},
    crypto::{EarlyKey, KeyPhases, PacketKey, ReplayWindow, SessionKeys},
    endpoint::{CloseReason, Event},
    path::{LEAST_LINK_PAYLOAD, Path, PathClass},
    recovery::{GapList, LossCircuitBreaker, Report, RttEstimator, SentContent, SentPackets},
    streams::{Role, Streams},
    wire::{Activity, EarlyOutcome, Parameters, ReceiverIndex, Stamp},
};

/// IPv4 and UDP headers, which count for credit and pacing (transport.md section 6).
const IP_UDP_HEADERS: u64 = 28;
/// Length of the stamp before the frames of a short packet.
const STAMP_LEN: usize = 3;
const UDP_IPV4: usize = 28;
/// Additional header bytes of IPv6 (transport.md section 1).
const IPV6_EXTRA: usize = 20;
/// Allowance in the probe timeout for timers of 1 ms and for scheduling (transport.md section 5.3).
const PROBE_SLACK: Duration = Duration::from_millis(25);
/// Least margin of the tail rule (transport.md section 5.3).
const TAIL_SLACK: Duration = Duration::from_millis(20);
/// Upper bounds of the probe timeout and of the interval of further probes: an RTT that an outage or a full
/// buffer increased must not cause a silence of minutes. An unnecessary probe costs one packet.
const LONGEST_PROBE_TIMEOUT: Duration = Duration::from_secs(6);
const LONGEST_PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of reports about one missing tail, at doubling intervals; after them the sender's probes
/// recover the tail.
const TAIL_REPORTS: u32 = 3;
/// Least time without declared losses after a silence: base stations deliver packets late that they held back
/// (transport.md section 5.2).
const STALL_PATIENCE: Duration = Duration::from_millis(50);
/// Silence after which an agent that waits for data sends PING (transport.md section 7.3). A shorter time
/// would cause PINGs in the pauses of ordinary pages. With the repetitions, a gateway that lost the session
/// is detected within two seconds.
const FIRST_KEEPALIVE: Duration = Duration::from_secs(1);
/// Reports in a row after which the way to the peer counts as dead: one lost packet is common.
const UNHEARD: u32 = 2;
/// Maximum interval of a sender's PINGs while the receiver's buffer is full.
const LONGEST_PERSIST: Duration = Duration::from_secs(15);

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum Keys {
    /// Agent before RESP.
    Early {
        early: Option<EarlyKey>,
        init_sent: bool,
    },
    /// Agent after RESP; gateway always.
    Full {
        phases: KeyPhases,
        /// Gateway until the session is confirmed; boxed, because it is absent during most of the session.
        early: Option<Box<PacketKey>>,
        peer: ReceiverIndex,
        exporter: Zeroizing<[u8; 32]>,
    },
}

#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
enum Lifecycle {
    Open,
    /// Sends CLOSE, and repeats it for late packets while `answers` remain.
    Closing {
        error: u64,
        reason: String,
        due: bool,
        answers: u32,
    },
    /// Closed by the peer. The index is kept, because late packets of an unknown session would be answered by
    /// RESET.
    Draining,
    Drained,
}

/// Pending feedback of this side.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
struct PendingAck {
    /// An eliciting packet arrived.
    pending: bool,
    /// Feedback is due at once.
    now: bool,
    /// Feedback is due F/4 after the last one.
    soon: bool,
    last: Option<Timestamp>,
    /// Stamp and arrival time of the largest packet.
    echo: Option<(Stamp, Timestamp)>,
}

/// Grant of the peer.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
struct PeerGrant {
    credit: u64,
    rate: ByteRate,
    /// Number of the packet with the latest feedback.
    by: Option<u64>,
    /// Smoothed delivery rate; arrival time and reported bytes of its last computation.
    delivered: ByteRate,
    delivered_from: Option<(Timestamp, u64)>,
    /// Interval of the PINGs that are sent while the credit is too small for a packet.
    persist: Duration,
}

/// One session with one peer.
///
/// Only tests may clone a connection: two copies would seal different packets under one number.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct Connection {
    role: Role,
    config: TransportConfig,
    profile: Option<LinkProfile>,
    keys: Keys,
    lifecycle: Lifecycle,
    confirmed: bool,
    path: PeerPath,
    /// True while the link of the path accepts no packet; an address always accepts packets.
    blocked: bool,
    mtu: PathMtu,
    held_packets: HeldPacketDetector,
    streams: Streams,
    replay: ReplayWindow,
    gaps: GapList,
    lost_seen: u64,
    /// Packets received at the last sample of the controller.
    received_seen: u64,
    /// Packets that were not opened because the keys or buffer space were missing; they are no losses of the
    /// link.
    unopened: u64,
    /// True if packets before the next one were dropped because the buffer was full.
    dropped: bool,
    sent_packets: SentPackets,
    breaker: LossCircuitBreaker,
    rtt: RttEstimator,
    controller: Controller,
    granted: PeerGrant,
    pacer: Pacer,
    pending_ack: PendingAck,
    prober: Prober,
    probing: Probing,
    path_probes: PathProbes,
    timers: Timers,
    /// True if `timers` must be recomputed.
    timers_stale: bool,
    tail_reports: u32,
    /// Time since which the user waits for data from the peer.
    expecting_since: Option<Timestamp>,
    /// Keepalive PINGs since the last eliciting packet of the peer.
    keepalive_pings: u32,
    ping_due: bool,
    response_due: Option<[u8; 8]>,
    tokens: VecDeque<[u8; 32]>,
    challenge_secret: [u8; 32],
    challenges: u64,
    events: VecDeque<Event>,
    last_received_at: Timestamp,
    /// Arrival of the last new data or of the last feedback with new information. Other packets, such as probes of a peer
    /// that hears nothing, show only that one direction works.
    last_news_at: Timestamp,
    /// Number of the last packet with PING: a question, whose data fills a probe and is no news.
    question: Option<u64>,
    /// Reports in a row by which the peer, whose packets arrive, has not received the newest ones of this side.
    unheard: u32,
    /// End of the last stall; earlier packets waited during the stall.
    resumed_at: Timestamp,
    last_sent_at: Timestamp,
    /// Activity flag of the last eliciting packet: IDLE gets feedback at once, others at the peer's interval.
    last_eliciting: Activity,
    /// True after a network change: the next packet is padded, so that three times its size holds data
    /// (section 7.2).
    pad_due: bool,
    /// Agent only; boxed, because a gateway has many connections.
    link_meter: Option<Box<LinkMeter>>,
    stats: ConnectionStats,
}

impl Connection {
    fn new(
        role: Role,
        config: &TransportConfig,
        keys: Keys,
        remote: Path,
        validation: Validation,
        profile: Option<LinkProfile>,
        now: Timestamp,
    ) -> Self {
        let (incoming, outgoing) = match role {
            Role::Agent => (profile.map(|p| p.down), profile.map(|p| p.up)),
            Role::Gateway => (profile.map(|p| p.up), profile.map(|p| p.down)),
        };
        let outgoing = outgoing.map(|rate| rate.min(config.max_rate));
        let congestion = config.congestion;
        let initial = InitialGrant::new(congestion, outgoing, profile.as_ref(), incoming);
        let mut connection = Self {
            role,
            config: config.clone(),
            profile,
            keys,
            lifecycle: Lifecycle::Open,
            confirmed: false,
            path: PeerPath::new(remote, validation),
            blocked: false,
            mtu: path_mtu(config.max_udp_payload.into(), remote),
            held_packets: HeldPacketDetector::default(),
            streams: Streams::new(role, config.stream_limits()),
            replay: ReplayWindow::default(),
            gaps: GapList::default(),
            lost_seen: 0,
            received_seen: 0,
            unopened: 0,
            dropped: false,
            sent_packets: SentPackets::default(),
            breaker: LossCircuitBreaker::default(),
            rtt: RttEstimator::new(profile.map(|profile| profile.rtt)),
            controller: Controller::new(congestion, profile.as_ref(), incoming, outgoing),
            granted: PeerGrant {
                credit: initial.credit().bytes(),
                rate: initial.rate,
                by: None,
                delivered: initial.rate,
                delivered_from: None,
                persist: Duration::ZERO,
            },
            pacer: Pacer::new(&congestion.pacing, now, initial.rate),
            pending_ack: PendingAck::default(),
            prober: Prober::default(),
            probing: Probing::new(now),
            path_probes: PathProbes::default(),
            timers: Timers::default(),
            timers_stale: true,
            tail_reports: 0,
            expecting_since: None,
            keepalive_pings: 0,
            ping_due: false,
            response_due: None,
            tokens: VecDeque::new(),
            challenge_secret: [0; 32],
            challenges: 0,
            events: VecDeque::new(),
            last_received_at: now,
            last_news_at: now,
            question: None,
            unheard: 0,
            resumed_at: now,
            last_sent_at: now,
            last_eliciting: Activity::More,
            pad_due: false,
            link_meter: (role == Role::Agent).then(|| Box::new(LinkMeter::new(profile.is_some()))),
            stats: ConnectionStats::default(),
        };
        connection.rearm();
        connection
    }

    /// Creates the agent's side before RESP. Without `early` the connection sends nothing until RESP.
    pub(crate) fn agent(
        config: &TransportConfig,
        early: Option<EarlyKey>,
        remote: Path,
        profile: Option<LinkProfile>,
        now: Timestamp,
    ) -> Self {
        let keys = Keys::Early {
            early,
            init_sent: false,
        };
        let mut connection = Self::new(
            Role::Agent,
            config,
            keys,
            remote,
            Validation::Validated,
            profile,
            now,
        );
        connection
            .streams
            .set_peer(EARLY_STREAM_WINDOW.bytes(), EARLY_STREAMS);
        connection.begin_probing();
        connection
    }

    /// Creates the gateway's side of an accepted session; `early` is present if early data was accepted.
    pub(crate) fn gateway(
        config: &TransportConfig,
        keys: SessionKeys,
        early: Option<PacketKey>,
        agent_index: u8,
        parameters: Parameters,
        remote: Path,
        validation: Validation,
        now: Timestamp,
    ) -> Self {
        let outcome = if early.is_some() {
            EarlyOutcome::Accepted
        } else {
            EarlyOutcome::Rejected
        };
        // The endpoint replaces this by a secret that the peer does not have (`set_challenge_secret`).
        let challenge_secret = blake3::derive_key("longhaul 1 path challenge", &*keys.exporter);
        let keys = Keys::Full {
            phases: KeyPhases::new(keys.gateway_to_agent, keys.agent_to_gateway, now),
            early: early.map(Box::new),
            peer: ReceiverIndex::Agent(agent_index),
            exporter: keys.exporter,
        };
        let profile = parameters.profile.filter(|p| p.rtt > Duration::ZERO);
        let mut connection = Self::new(Role::Gateway, config, keys, remote, validation, profile, now);
        connection.challenge_secret = challenge_secret;
        connection.apply_parameters(&parameters);
        connection.serve_probing(&parameters, outcome);
        // The INIT's frames are packet number 0, even if they are dropped.
        connection.replay.mark(0);
        connection.gaps.on_packet(now, 0);
        connection
    }

    /// Sets the secret from which the data of path challenges is derived.
    pub(crate) fn set_challenge_secret(&mut self, secret: [u8; 32]) {
        self.challenge_secret = secret;
    }

    fn apply_parameters(&mut self, parameters: &Parameters) {
        self.streams
            .set_peer(parameters.stream_window.bytes(), parameters.max_streams);
        let payload = parameters.max_udp_payload.min(self.config.max_udp_payload);
        self.mtu = path_mtu(payload.into(), self.path.remote);
    }

    /// Selects the path on which the gateway has answered the INIT (agent).
    pub(crate) fn choose_path(&mut self, now: Timestamp, remote: Path) {
        if remote == self.path.remote {
            return;
        }
        self.path = PeerPath::new(remote, Validation::Validated);
        self.mtu = path_mtu(self.mtu.limit(), remote);
        self.held_packets = HeldPacketDetector::default();
        self.blocked = false;
        // The packets after the INIT, which is number 0, were sent on the path that has not answered.
        if self.sent_packets.next_number() > 1 {
            let report = self.sent_packets.lose_all();
            self.apply_report(now, report);
        }
    }

    /// Installs the full keys after RESP (agent).
    pub(crate) fn handshake_done(
        &mut self,
        now: Timestamp,
        keys: SessionKeys,
        gateway_index: u32,
        parameters: Parameters,
        early: EarlyOutcome,
    ) {
        self.challenge_secret = blake3::derive_key("longhaul 1 path challenge", &*keys.exporter);
        self.keys = Keys::Full {
            phases: KeyPhases::new(keys.agent_to_gateway, keys.gateway_to_agent, now),
            early: None,
            peer: ReceiverIndex::Gateway(gateway_index),
            exporter: keys.exporter,
        };
        self.confirmed = true;
        // Also for the family of the address that has answered.
        self.apply_parameters(&parameters);
        if early == EarlyOutcome::Rejected {
            let report = self.sent_packets.lose_all();
            self.apply_report(now, report);
        }
        self.streams.release();
        self.on_authenticated(now);
        self.prober.on_progress(now);
        self.rearm();
    }

    /// Passes a report to the streams.
    fn apply_report(&mut self, now: Timestamp, report: Report) {
        self.mtu.on_report(now, self.resumed_at, &report, IP_UDP_HEADERS);
        for content in report.acked {
            match content {
                SentContent::Data { stream, range, fin } => self.streams.on_data_acked(stream, range, fin),
                SentContent::Control(control) => self.streams.on_control_acked(control),
                SentContent::Token(_) => {}
            }
        }
        self.stats.packets_lost += report.lost_packets;
        self.send_again(report.lost);
    }

    fn send_again(&mut self, contents: Vec<SentContent>) {
        for content in contents {
            match content {
                SentContent::Data { stream, range, fin } => {
                    self.streams.on_data_lost(stream, range, fin);
                }
                SentContent::Control(control) => self.streams.on_control_lost(control),
                SentContent::Token(token) => self.tokens.push_back(token),
            }
        }
    }

    /// Queues an event that a peer can cause any number of times; drops the event if the queue is full.
    fn notify(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    fn declare_gaps(&mut self, now: Timestamp) {
        self.gaps
            .declare(now, self.rtt.smoothed(), self.controller.packet_time());
    }

    /// Records the arrival of an authenticated packet.
    fn on_authenticated(&mut self, now: Timestamp) {
        self.last_received_at = now;
        if self.prober.on_received(now) {
            self.events.push_back(Event::Resumed);
            self.resumed_at = now;
            self.rtt.on_resume(now);
            self.pacer.drain(now);
            // Packets sent before the stall may be lost or late: one packet finds out.
            self.prober.due = self.sent_packets.is_awaiting();
            if self.prober.due && !self.streams.has_output() {
                self.ping_due = true;
            }
        }
    }

    /// Handles CLOSE of the peer.
    fn closed_by_peer(&mut self, now: Timestamp, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.lifecycle = Lifecycle::Draining;
        self.drain_from(now);
    }

    fn drain_from(&mut self, now: Timestamp) {
        let drain = (self.probe_timeout() * 3).max(Duration::from_secs(1));
        self.timers.set(Timer::Drain, Some(now + drain));
        self.rearm();
    }

    fn end(&mut self, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.lifecycle = Lifecycle::Drained;
        self.timers.clear();
    }

    /// Closes the session: sends CLOSE to the peer and answers late packets for a while.
    fn close_with(&mut self, now: Timestamp, error: u64, reason: String, event: CloseReason) {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return;
        }
        self.events.push_back(Event::Closed(event));
        if matches!(self.keys, Keys::Early { .. }) {
            self.lifecycle = Lifecycle::Drained;
            self.timers.clear();
            return;
        }
        self.lifecycle = Lifecycle::Closing {
            error,
            reason,
            due: true,
            answers: 3,
        };
        self.drain_from(now);
    }

    /// Returns true if the path loses and reorders nothing (transport.md section 8.1).
    const fn is_ordered(&self) -> bool {
        matches!(self.path.remote.class(), PathClass::Ordered)
    }

    /// Path to the peer.
    pub const fn path(&self) -> Path {
        self.path.remote
    }

    /// Sets whether the link of the path accepts no packet at present. Meanwhile the connection builds none,
    /// so that the most urgent data is selected when the link accepts packets again.
    pub(crate) const fn set_blocked(&mut self, blocked: bool) {
        if self.blocked != blocked {
            self.blocked = blocked;
            self.rearm();
        }
    }

    /// Sets the largest packet that the link of the path takes at present, as its carrier has found out. Packets in
    /// flight that are larger are lost, and their contents are cut anew.
    pub(crate) fn set_link_payload(&mut self, payload: usize) {
        self.mtu.set_link_payload(payload);
    }

    const fn can_send_early(&self) -> bool {
        matches!(
            self.keys,
            Keys::Early {
                early: Some(_),
                init_sent: true
            }
        )
    }

    /// Returns true if the connection is closed and answers no more packets, so that the endpoint may drop
    /// it.
    pub(crate) const fn is_drained(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Drained)
    }

    /// Returns true if the peer closed the connection, which sends nothing any more.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Draining)
    }

    /// Returns true if a packet under the full keys has arrived (agent: RESP).
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Next event for the user.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self.streams.poll_event() {
            Some(event) => Some(Event::Stream(event)),
            None => self.events.pop_front(),
        }
    }
}

/// Least budget of an unvalidated address at which the gateway sends: feedback and a control frame must fit.
const MIN_BUDGET: u64 = 120;
/// Maximum number of queued events about tokens and addresses; further ones are dropped.
const MAX_EVENTS: usize = 256;

/// State of a path to `remote`; both ends accept UDP payloads up to `limit`. An ordered link takes every size; the
/// carrier of another link knows its size ([`Connection::set_link_payload`]). So there is nothing to search.
fn path_mtu(limit: usize, remote: Path) -> PathMtu {
    let family = match remote {
        Path::Udp(address) if address.is_ipv4() => 0,
        Path::Udp(_) => IPV6_EXTRA,
        Path::Link(link) => {
            let known = match link.class() {
                PathClass::Ordered => limit,
                PathClass::Datagram => limit.min(LEAST_LINK_PAYLOAD),
            };
            return PathMtu::of_link(known, limit);
        }
    };
    let base = limit.min(crate::wire::MAX_UDP_PAYLOAD - family);
    PathMtu::new(base, limit, UDP_IPV4 + family)
}

#[cfg(test)]
mod tests;

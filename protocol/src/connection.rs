//! Connection to one peer after key establishment: short packets, frames, timers, path (transport.md sections
//! 2, 4 to 7).
//!
//! Sans-IO: time is an argument, and output is polled. The endpoint drives the connection; users open, write
//! and read streams.
mod closing;
mod config;
mod datagrams;
mod handshake;
mod held_packets;
mod late_packets;
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
mod warm_up;

use std::{collections::VecDeque, time::Duration};

use longhaul_types::{BitRate, LinkProfile, Timestamp};
use zeroize::Zeroizing;

pub use config::{EARLY_STREAM_WINDOW, EARLY_STREAMS, LossDetection, TransportConfig};
pub use link_meter::LinkSummary;
pub use path::Validation;
pub use rate_probing::RateProbing;
pub use stats::{ConnectionStats, State};
pub use user::EarlyData;

use self::{
    datagrams::ReceivedDatagrams,
    held_packets::HeldPacketDetector,
    late_packets::LatePackets,
    link_meter::LinkMeter,
    mtu::{PathMtu, path_mtu},
    path::PeerPath,
    path_probe::PathProbes,
    probe::Prober,
    rate_probing::Probing,
    timer::Timers,
};
use crate::{
    congestion::{ByteRate, Controller, InitialGrant, Pacer},
    crypto::{EarlyKey, KeyPhases, PacketKey, ReplayWindow},
    endpoint::Event,
    path::{Path, PathClass},
    recovery::{GapList, LossCircuitBreaker, Report, RttEstimator, SentContent, SentPackets},
    streams::{Role, Streams},
    wire::{Activity, ReceiverIndex, Stamp},
};

/// IPv4 and UDP headers, which count for credit and pacing (transport.md section 6).
const IP_UDP_HEADERS: u64 = 28;
/// Length of the stamp before the frames of a short packet.
const STAMP_LEN: usize = 3;
/// Least margin of the tail rule (transport.md section 5.3).
const TAIL_SLACK: Duration = Duration::from_millis(20);

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
    /// Free space of the receive buffer at the last one, in bytes, if it was little.
    little_room: Option<u64>,
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
    /// True if the peer receives DATAGRAM frames.
    peer_takes_datagrams: bool,
    received_datagrams: ReceivedDatagrams,
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
    /// Highest rate in each direction that the user permits.
    rate_limit: Option<BitRate>,
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
    /// Packets that the peer, whose packets arrive, has not received (agent).
    late_packets: LatePackets,
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
            peer_takes_datagrams: false,
            received_datagrams: ReceivedDatagrams::default(),
            replay: ReplayWindow::default(),
            gaps: GapList::default(),
            lost_seen: 0,
            received_seen: 0,
            unopened: 0,
            dropped: false,
            sent_packets: SentPackets::new(config.loss_detection == LossDetection::Timeouts),
            breaker: LossCircuitBreaker::default(),
            rtt: RttEstimator::new(profile.map(|profile| profile.rtt)),
            controller: config.controller(profile.as_ref(), incoming, outgoing),
            granted: PeerGrant {
                credit: initial.credit().bytes(),
                rate: initial.rate,
                by: None,
                delivered: initial.rate,
                delivered_from: None,
                persist: Duration::ZERO,
            },
            rate_limit: None,
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
            late_packets: LatePackets::default(),
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

    /// Returns true if the receiver reports what is missing.
    fn reports_losses(&self) -> bool {
        self.config.loss_detection == LossDetection::Reports
    }

    fn declare_gaps(&mut self, now: Timestamp) {
        if !self.reports_losses() {
            return;
        }
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

    /// Returns true for the gateway, which limits what it sends to unvalidated addresses; the agent keeps NAT
    /// mappings alive.
    const fn is_gateway(&self) -> bool {
        matches!(self.role, Role::Gateway)
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

    /// Next event for the user.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self.streams.poll_event() {
            Some(event) => Some(Event::Stream(event)),
            None => self.events.pop_front(),
        }
    }
}

/// Maximum number of queued events about tokens and addresses; further ones are dropped.
const MAX_EVENTS: usize = 256;

#[cfg(test)]
mod tests;

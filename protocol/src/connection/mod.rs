//! One peer after the handshake gave keys: short packets, frames, timers, path (transport.md 2, 4 to 7).
//!
//! Without I/O: time is an argument, what is to be sent is polled. The endpoint drives it; users open, write and read streams.
mod config;
mod deadline;
mod mtu;
mod path;
mod probe;
mod receive;
mod stats;
mod timer;
mod transit;
mod transmit;
mod user;

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use longhaul_types::{BitRate, LinkProfile, Timestamp};
use zeroize::Zeroizing;

pub use config::{EARLY_STREAM_WINDOW, EARLY_STREAMS, TransportConfig};
pub use path::Validation;
pub use stats::{ConnectionStats, State};
pub use user::EarlyData;

use self::{
    mtu::PathMtu,
    path::Path,
    probe::Prober,
    timer::{Timer, Timers},
    transit::Transit,
};
use crate::{
    credit::{Controller, Pacer, initial_grant},
    crypto::{EarlyKey, KeyPhases, PacketKey, ReplayWindow, SessionKeys},
    endpoint::{CloseReason, Event},
    recovery::{Breaker, GapList, Report, RttEstimator, SentBook, SentContent},
    streams::{Role, Streams},
    wire::{Activity, EarlyOutcome, Parameters, ReceiverIndex, Stamp},
};

/// IPv4 and UDP headers: part of a packet's size for credit and pacing (transport.md 6).
const IP_UDP_HEADERS: u64 = 28;
const UDP_IPV4: usize = 28;
/// Over IPv6 a packet holds 20 bytes less (transport.md 1).
const IPV6_EXTRA: usize = 20;
/// Added to the probe timeout for timers of 1 ms and scheduling (transport.md 5.3).
const PROBE_SLACK: Duration = Duration::from_millis(25);
/// Least tolerance for a tail that is late (transport.md 5.3).
const TAIL_SLACK: Duration = Duration::from_millis(20);
/// Bounds of the probe timeout and of the interval of further probes: an RTT that an outage or somebody's full buffer blew
/// up must not become a silence of minutes. A probe that was not needed costs one packet.
const LONGEST_PROBE_TIMEOUT: Duration = Duration::from_secs(6);
const LONGEST_PROBE_INTERVAL: Duration = Duration::from_secs(2);
/// Reports about one missing tail, at doubling intervals; then the sender's probes must do.
const TAIL_REPORTS: u32 = 3;
/// After a stall the base station delivers what it held back late (transport.md 5.2).
const STALL_PATIENCE: Duration = Duration::from_millis(50);
/// Silence after which an agent that is owed data asks for a sign of life (transport.md 7.3). Shorter would ask in the pauses of
/// ordinary pages; with the repetitions behind it, a gateway that lost the session is noticed within two seconds.
const FIRST_ASK: Duration = Duration::from_secs(1);
/// A sender whose receiver's buffer is full asks at least this often.
const LONGEST_PERSIST: Duration = Duration::from_secs(15);

#[derive(Debug)]
enum Keys {
    /// Agent before RESP.
    Early {
        early: Option<EarlyKey>,
        init_sent: bool,
    },
    /// Agent after RESP, gateway always.
    Full {
        phases: KeyPhases,
        /// Gateway until it is confirmed; boxed, since most of a session's life there is none.
        early: Option<Box<PacketKey>>,
        peer: ReceiverIndex,
        exporter: Zeroizing<[u8; 32]>,
    },
}

#[derive(Debug)]
enum Life {
    Open,
    /// CLOSE goes out, again for late packets while there are answers left.
    Closing {
        error: u64,
        reason: String,
        due: bool,
        answers: u32,
    },
    /// The peer closed it: late packets meet a session that knows of it, not an unknown index, which would be answered by RESET.
    Draining,
    Drained,
}

/// The feedback that this side owes.
#[derive(Debug, Default)]
struct Owed {
    /// Something arrived that asks for feedback.
    pending: bool,
    /// At once.
    now: bool,
    /// As soon as the last one is F/4 old.
    soon: bool,
    last: Option<Timestamp>,
    /// The largest packet's stamp and arrival.
    echo: Option<(Stamp, Timestamp)>,
}

/// What the peer granted.
#[derive(Debug)]
struct Granted {
    credit: u64,
    /// Byte/s.
    rate: f64,
    /// The packet whose feedback counts.
    by: Option<u64>,
    /// Byte/s that arrived, smoothed, and what it was last computed from.
    delivered: f64,
    delivered_from: Option<(Timestamp, u64)>,
    /// Feedback told of too little credit for a packet: ask until it grows.
    persist: Duration,
}

/// One session with one peer.
#[derive(Debug)]
pub struct Connection {
    role: Role,
    config: TransportConfig,
    profile: Option<LinkProfile>,
    keys: Keys,
    life: Life,
    confirmed: bool,
    path: Path,
    mtu: PathMtu,
    transit: Transit,
    streams: Streams,
    replay: ReplayWindow,
    gaps: GapList,
    lost_seen: u64,
    /// Packets received when the controller last heard of one.
    received_seen: u64,
    /// Packets before one that could be opened: the keys were not there yet, or no room for them, which says nothing about the link.
    unopened: u64,
    /// There was no room for packets before the next one.
    dropped: bool,
    book: SentBook,
    breaker: Breaker,
    rtt: RttEstimator,
    controller: Controller,
    granted: Granted,
    pacer: Pacer,
    owed: Owed,
    prober: Prober,
    timers: Timers,
    /// Whether `timers` must be planned anew.
    timers_stale: bool,
    tail_reports: u32,
    /// Since when the user waits for something from the peer.
    expecting_since: Option<Timestamp>,
    /// PINGs since the last data came, for which nothing but the wait was a reason.
    asked: u32,
    ping_due: bool,
    response_due: Option<[u8; 8]>,
    tokens: VecDeque<[u8; 32]>,
    challenge_secret: [u8; 32],
    challenges: u64,
    events: VecDeque<Event>,
    heard_at: Timestamp,
    /// When the last stall ended: what was sent before waited in it.
    resumed_at: Timestamp,
    sent_at: Timestamp,
    /// Whether the last packet that asks for feedback gets it at once (IDLE), or at the peer's interval.
    last_asked: Activity,
    /// The network changed: the next packet is padded, so that three times its size holds data (7.2).
    pad_due: bool,
    stats: ConnectionStats,
}

impl Connection {
    fn new(
        role: Role,
        config: &TransportConfig,
        keys: Keys,
        remote: SocketAddr,
        validation: Validation,
        profile: Option<LinkProfile>,
        now: Timestamp,
    ) -> Self {
        let (incoming, outgoing) = match role {
            Role::Agent => (profile.map(|p| p.down), profile.map(|p| p.up)),
            Role::Gateway => (profile.map(|p| p.up), profile.map(|p| p.down)),
        };
        let outgoing = outgoing.map(|rate| rate.min(config.max_rate));
        let (window, rate) = initial_grant(outgoing, profile.as_ref(), incoming);
        let mut connection = Self {
            role,
            config: config.clone(),
            profile,
            keys,
            life: Life::Open,
            confirmed: false,
            path: Path::new(remote, validation),
            mtu: path_mtu(config.max_udp_payload.into(), remote),
            transit: Transit::default(),
            streams: Streams::new(role, config.stream_limits()),
            replay: ReplayWindow::default(),
            gaps: GapList::default(),
            lost_seen: 0,
            received_seen: 0,
            unopened: 0,
            dropped: false,
            book: SentBook::default(),
            breaker: Breaker::default(),
            rtt: RttEstimator::new(profile.map(|profile| profile.rtt)),
            controller: Controller::new(profile.as_ref(), incoming, outgoing),
            granted: Granted {
                credit: whole(window),
                rate,
                by: None,
                delivered: rate,
                delivered_from: None,
                persist: Duration::ZERO,
            },
            pacer: Pacer::new(now, rate),
            owed: Owed::default(),
            prober: Prober::default(),
            timers: Timers::default(),
            timers_stale: true,
            tail_reports: 0,
            expecting_since: None,
            asked: 0,
            ping_due: false,
            response_due: None,
            tokens: VecDeque::new(),
            challenge_secret: [0; 32],
            challenges: 0,
            events: VecDeque::new(),
            heard_at: now,
            resumed_at: now,
            sent_at: now,
            last_asked: Activity::More,
            pad_due: false,
            stats: ConnectionStats::default(),
        };
        connection.rearm();
        connection
    }

    /// The agent's side before RESP. Without `early` nothing is sent until then.
    pub(crate) fn agent(
        config: &TransportConfig,
        early: Option<EarlyKey>,
        remote: SocketAddr,
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
        connection
    }

    /// The gateway's side of a session that it accepted. `early` is given if early data was accepted.
    pub(crate) fn gateway(
        config: &TransportConfig,
        keys: SessionKeys,
        early: Option<PacketKey>,
        agent_index: u8,
        parameters: Parameters,
        remote: SocketAddr,
        validation: Validation,
        now: Timestamp,
    ) -> Self {
        // A secret that the peer does not have is better; see `set_challenge_secret`.
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
        // The INIT's frames are packet number 0, whether they are taken or not.
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

    /// Agent: RESP has come.
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
        self.apply_parameters(&parameters);
        if early == EarlyOutcome::Rejected {
            let report = self.book.lose_all();
            self.apply_report(now, report);
        }
        self.streams.release();
        self.heard(now);
        self.prober.on_progress(now);
        self.rearm();
    }

    /// Tells the streams what a report said.
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

    /// Tells the user of something that a peer can cause as often as it likes.
    fn notify(&mut self, event: Event) {
        if self.events.len() < MAX_EVENTS {
            self.events.push_back(event);
        }
    }

    fn declare_gaps(&mut self, now: Timestamp) {
        self.gaps
            .declare(now, self.rtt.smoothed(), self.controller.packet_time());
    }

    /// An authentic packet came.
    fn heard(&mut self, now: Timestamp) {
        self.heard_at = now;
        if self.prober.on_heard(now) {
            self.events.push_back(Event::Resumed);
            self.resumed_at = now;
            self.rtt.on_resume(now);
            self.pacer.drain(now);
            // What was sent before the stall may be lost or late: one packet finds out.
            self.prober.due = self.book.is_awaiting();
            if self.prober.due && !self.streams.has_output() {
                self.ping_due = true;
            }
        }
    }

    /// The peer closed the session.
    fn closed_by_peer(&mut self, now: Timestamp, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.life = Life::Draining;
        self.drain_from(now);
    }

    fn drain_from(&mut self, now: Timestamp) {
        let drain = (self.probe_timeout() * 3).max(Duration::from_secs(1));
        self.timers.set(Timer::Drain, Some(now + drain));
        self.rearm();
    }

    fn end(&mut self, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.life = Life::Drained;
        self.timers.clear();
    }

    /// Closes the session: the peer hears of it, late packets are answered for a while.
    fn close_with(&mut self, now: Timestamp, error: u64, reason: String, event: CloseReason) {
        if !matches!(self.life, Life::Open) {
            return;
        }
        self.events.push_back(Event::Closed(event));
        if matches!(self.keys, Keys::Early { .. }) {
            self.life = Life::Drained;
            self.timers.clear();
            return;
        }
        self.life = Life::Closing {
            error,
            reason,
            due: true,
            answers: 3,
        };
        self.drain_from(now);
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

    /// Whether the endpoint may forget this connection: it is closed and answers nothing more.
    pub(crate) const fn is_drained(&self) -> bool {
        matches!(self.life, Life::Drained)
    }
    /// Whether a packet under the full keys has come (agent: RESP).
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// The next thing that the user is to be told.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self.streams.poll_event() {
            Some(event) => Some(Event::Stream(event)),
            None => self.events.pop_front(),
        }
    }
}

/// Below this many bytes nothing is sent to an address that is not validated: feedback and a control frame must fit.
const MIN_BUDGET: u64 = 120;
/// Events about tokens and addresses that wait for the user; a peer that sends more is not worth listening to.
const MAX_EVENTS: usize = 256;

/// A path to `remote` between ends that take this UDP payload.
fn path_mtu(limit: usize, remote: SocketAddr) -> PathMtu {
    let family = if remote.is_ipv4() { 0 } else { IPV6_EXTRA };
    let base = limit.min(crate::wire::MAX_UDP_PAYLOAD - family);
    PathMtu::new(base, limit, UDP_IPV4 + family)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "windows are positive and `as` saturates"
)]
const fn whole(bytes: f64) -> u64 {
    bytes as u64
}

fn rate_of(bytes_per_second: f64) -> BitRate {
    BitRate::bps(whole(bytes_per_second * 8.0))
}

#[cfg(test)]
mod tests;

//! Start on an unknown link (transport.md section 6.1): what the agent asks for, and what the gateway sends for it.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::Connection;
use crate::{
    congestion::{ByteRate, FULL_PACKET, InitialGrant, Start, first_flight},
    wire::{EarlyOutcome, Parameters, frame::TRAIN_PACKETS},
};

/// Number of TRAINs that a gateway answers in a session: one for the pair that an agent could not get behind the RESP, one
/// train, one more.
const MAX_TRAINS: u8 = 3;
/// Length of the train that replaces the pair if the gateway did not accept the early data.
const PAIR_TRAIN: u8 = 2;
/// Time from INIT to RESP from which the INIT may have been repeated, so that the time is no sample.
const REPEATED: Duration = Duration::from_secs(1);
/// Number of the EARLY packet that follows the INIT.
const UPLINK_PACKET: u64 = 1;

/// Measurement of an unknown link by the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateProbing {
    /// The agent asks for nothing, and the gateway answers no such request. Slow start finds the rate.
    Off,
    /// The agent asks for one full packet behind the RESP. For networks on which bytes cost money.
    Pair,
    /// The agent asks in addition for a train of at most 32 full packets, and sends one full packet itself if it has a
    /// request.
    #[default]
    Full,
}

/// State of the measurement at either side.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Probing {
    /// Agent: the gateway understands TRAIN. Gateway: the agent measures the link.
    peer_probes: bool,
    /// Time of the INIT.
    init_at: Timestamp,
    /// Agent: length of the TRAIN to request.
    pub(super) train_due: Option<u8>,
    /// Agent: the EARLY packet behind the INIT is padded.
    pub(super) padding_due: bool,
    /// Gateway: full packets that are to be sent back to back.
    left: u8,
    /// Gateway: number of TRAINs answered.
    answered: u8,
    /// Gateway: rate of the agent's uplink as the packet behind the INIT shows it.
    uplink: Option<ByteRate>,
}

impl Probing {
    pub(super) const fn new(now: Timestamp) -> Self {
        Self {
            peer_probes: false,
            init_at: now,
            train_due: None,
            padding_due: false,
            left: 0,
            answered: 0,
            uplink: None,
        }
    }

    /// Returns true if a full packet is to be sent without pacing.
    pub(super) const fn has_full_packet(&self) -> bool {
        self.left > 0 || self.padding_due
    }

    /// Records a full packet that was sent without pacing.
    pub(super) const fn on_full_packet(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.padding_due = false;
    }

    /// Ends a train whose address has changed.
    pub(super) const fn end_train(&mut self) {
        self.left = 0;
    }
}

impl Connection {
    /// Begins the measurement if the link is unknown (agent).
    pub(super) fn begin_probing(&mut self) {
        if self.profile.is_none() && self.config.rate_probing != RateProbing::Off {
            self.controller.probe_rate();
        }
    }

    /// Records the frames of the INIT (agent): a request is followed by one padded packet, by which the gateway bounds
    /// its first flight.
    pub(super) fn after_init(&mut self, now: Timestamp) {
        self.probing.init_at = now;
        self.probing.padding_due = self.config.rate_probing == RateProbing::Full
            && self.controller.start() == Start::Pair
            && self.can_send_early()
            && self.streams.has_request_stream();
    }

    /// Records the RESP (agent), which arrives `now` and before any packet behind it if `is_first`.
    pub(crate) fn measure_from_resp(
        &mut self,
        now: Timestamp,
        parameters: &Parameters,
        early: EarlyOutcome,
        is_first: bool,
    ) {
        if self.controller.start() != Start::Pair {
            return;
        }
        self.probing.padding_due = false;
        self.probing.peer_probes = parameters.rate_probing;
        let since_init = now.saturating_since(self.probing.init_at);
        if is_first && since_init < REPEATED {
            self.rtt.on_sample(now, since_init, Duration::ZERO);
        }
        let has_pair = early == EarlyOutcome::Accepted;
        let arrived = Some(now).filter(|_| is_first && has_pair);
        self.controller.on_resp(arrived, parameters.rate_probing);
        if parameters.rate_probing && !has_pair && !self.is_loading() {
            self.request_train(PAIR_TRAIN);
        }
    }

    fn request_train(&mut self, packets: u8) {
        self.probing.train_due = Some(packets);
        self.controller.on_train_requested(packets);
        self.rearm();
    }

    /// Measures the link by a packet whose frames were processed (agent).
    pub(super) fn measure_link(&mut self, now: Timestamp, stamp: crate::wire::Stamp, size: u64) {
        let rtt = self.path_rtt();
        let estimated = self.controller.on_arrival(now, stamp, ByteCount::new(size), rtt);
        let Some(estimated) = estimated else { return };
        self.pending_ack.now = self.pending_ack.echo.is_some();
        let may_train = self.config.rate_probing == RateProbing::Full && self.probing.peer_probes;
        // Before a response only if the train is short: it can be filled with padding.
        let longest = *TRAIN_PACKETS.end();
        let train = estimated
            .train
            .filter(|packets| may_train && (!self.is_loading() || *packets == longest));
        match train {
            Some(packets) => self.request_train(packets),
            // The answer is a sample of the round-trip time, and repeats a lost grant.
            None if estimated.is_first && !self.is_loading() => self.ping_due = true,
            None => {}
        }
        self.rearm();
    }

    /// Returns true if the user waits for data, or a request is on its way.
    fn is_loading(&self) -> bool {
        self.expecting_since.is_some() || self.streams.has_request_stream()
    }

    /// Adjusts the window of an estimate to a sample of the round-trip time (agent).
    pub(super) fn adjust_to_rtt(&mut self, now: Timestamp) {
        let rtt = self.path_rtt();
        if self.controller.on_rtt(now, rtt) {
            self.pending_ack.now = self.pending_ack.echo.is_some();
        }
    }

    /// Prepares the pair and the first flight for an agent that measures the link (gateway). A replayed INIT must not
    /// make the gateway send a full packet to another address, so the pair needs accepted early data.
    pub(super) fn serve_probing(&mut self, parameters: &Parameters, early: EarlyOutcome) {
        let is_served = self.config.rate_probing != RateProbing::Off && self.profile.is_none();
        if !parameters.rate_probing || !is_served {
            return;
        }
        self.probing.peer_probes = true;
        self.probing.left = u8::from(early == EarlyOutcome::Accepted);
        self.pacer.allow_burst(ByteCount::new(self.granted.credit));
    }

    /// Handles TRAIN (gateway). Only a validated address gets one, and a session only a few.
    pub(super) fn on_train(&mut self, packets: u8, is_early: bool) {
        let is_answered = self.is_gateway()
            && self.config.rate_probing != RateProbing::Off
            && !is_early
            && self.path.budget() == u64::MAX
            && self.probing.answered < MAX_TRAINS;
        if is_answered {
            self.probing.answered += 1;
            self.probing.left = packets;
        }
    }

    /// Bounds the first flight by the rate of the uplink, which the packet behind the INIT shows (gateway): access links
    /// are hardly ever slower towards the agent.
    pub(super) fn measure_uplink(&mut self, now: Timestamp, number: u64, size: u64) {
        let is_meant = self.probing.peer_probes && number == UPLINK_PACKET && self.granted.by.is_none();
        if !is_meant || size < FULL_PACKET.bytes() {
            return;
        }
        let dispersion = now.saturating_since(self.probing.init_at);
        let (uplink, flight) = first_flight(&self.config.congestion.probing, dispersion);
        self.probing.uplink = Some(uplink);
        let flight = flight.bytes();
        if let Some(more) = flight.checked_sub(self.granted.credit) {
            self.granted.credit = flight;
            self.pacer.allow_burst(ByteCount::new(more));
        }
    }

    /// Rate of the link towards the peer: that of the profile or the one that the peer grants. `None` while neither is
    /// known: the rate at which an unknown link starts is no property of the link. Until the peer grants a rate, the
    /// agent's uplink stands for it.
    pub(super) fn link_rate(&self) -> Option<BitRate> {
        // A receiver that knows nothing grants what it starts with.
        let unknown = InitialGrant::new(self.config.congestion, None, None, None);
        let is_granted = self.granted.by.is_some() && self.granted.credit != unknown.credit().bytes();
        if self.profile.is_some() || is_granted {
            return Some(self.granted.rate.bit_rate());
        }
        self.probing.uplink.map(ByteRate::bit_rate)
    }
}

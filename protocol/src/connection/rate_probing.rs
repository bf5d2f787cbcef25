//! Start on an unknown link, and verification of a remembered one (transport.md section 6.1): requests of the agent, and
//! packets of the gateway in answer to them.
use std::time::Duration;

use longhaul_types::{BitRate, ByteCount, Timestamp};

use super::{Connection, warm_up::WarmUp};
use crate::{
    congestion::{ByteRate, FULL_PACKET, FirstFlight, InitialGrant, Start},
    wire::{EarlyOutcome, Parameters, frame::TRAIN_PACKETS},
};

/// Number of TRAINs that a gateway answers in a session: one for the pair that an agent could not get behind the RESP, one
/// train, and three that warm up an ordered path.
const MAX_TRAINS: u8 = 5;
/// Length of the train that replaces the pair if the gateway did not accept the early data.
const PAIR_TRAIN: u8 = 2;
/// Time after the measurement of the uplink in which the gateway may send the rest of the first flight although the agent
/// grants less. Most origins answer in this time. Later the agent's measurement of the link is better.
const LONGEST_FIRST_FLIGHT: Duration = Duration::from_secs(5);
/// Time from INIT to RESP from which it is no sample of the round-trip time, because the INIT may have been repeated.
const REPEATED: Duration = Duration::from_secs(1);
/// Number of the INIT.
const INIT_NUMBER: u64 = 0;

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

/// State of the agent's full packet, by which the gateway measures the uplink and bounds its first flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UplinkPacket {
    /// The packet was sent, or none will be sent.
    No,
    /// The packet follows the next one.
    AfterNextPacket,
    /// The next packet is the full one.
    Due,
}

/// State of the measurement at either side.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct Probing {
    /// Agent: the gateway understands TRAIN. Gateway: the agent measures the link.
    pub(super) peer_probes: bool,
    /// Time of the INIT.
    init_at: Timestamp,
    /// Agent: the profile is verified, or a TRAIN for it is requested.
    has_verified: bool,
    /// Agent: length of the TRAIN to request.
    pub(super) train_due: Option<u8>,
    /// Agent: warm-up of an ordered path.
    pub(super) warm_up: WarmUp,
    /// Agent: the packet that is padded for the gateway.
    uplink_packet: UplinkPacket,
    /// Gateway: full packets that are to be sent back to back.
    left: u8,
    /// Gateway: number of TRAINs answered.
    answered: u8,
    /// Gateway: number and arrival of the packet that the agent's full packet follows.
    uplink_reference: Option<(u64, Timestamp)>,
    /// Gateway: what the agent's full packet shows.
    uplink: Option<Uplink>,
}

/// Measurement of the agent's uplink by the gateway.
#[derive(Clone, Copy, Debug)]
struct Uplink {
    rate: ByteRate,
    /// The first flight, if the uplink permits more than an unknown link gets.
    flight: Option<FirstFlight>,
    /// Time at which it ends.
    until: Timestamp,
}

impl Probing {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            peer_probes: false,
            init_at: now,
            has_verified: false,
            train_due: None,
            warm_up: WarmUp::default(),
            uplink_packet: UplinkPacket::No,
            left: 0,
            answered: 0,
            uplink_reference: None,
            uplink: None,
        }
    }

    /// Returns true if a full packet is to be sent without pacing.
    pub(super) const fn has_full_packet(&self) -> bool {
        self.left > 0 || self.is_uplink_packet_due()
    }

    /// Returns true if the next packet is the agent's full packet.
    pub(super) const fn is_uplink_packet_due(&self) -> bool {
        matches!(self.uplink_packet, UplinkPacket::Due)
    }

    /// Records a packet that was sent with pacing.
    pub(super) const fn on_paced_packet(&mut self) {
        if matches!(self.uplink_packet, UplinkPacket::AfterNextPacket) {
            self.uplink_packet = UplinkPacket::Due;
        }
    }

    /// Records a full packet that was sent without pacing.
    pub(super) const fn on_full_packet(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.uplink_packet = UplinkPacket::No;
    }

    /// Ends a train, and the first flight, whose address has changed.
    pub(super) fn end_train(&mut self) {
        self.left = 0;
        if let Some(uplink) = &mut self.uplink {
            uplink.flight = None;
        }
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
        if self.can_send_early() && self.may_send_uplink_packet() {
            self.probing.uplink_packet = UplinkPacket::Due;
        }
    }

    fn may_send_uplink_packet(&self) -> bool {
        self.config.rate_probing == RateProbing::Full
            && self.controller.start() == Start::Pair
            && self.streams.has_request_stream()
    }

    /// Records the RESP (agent), which arrives `now` and before any packet behind it if `is_first`.
    pub(crate) fn measure_from_resp(
        &mut self,
        now: Timestamp,
        parameters: &Parameters,
        early: EarlyOutcome,
        is_first: bool,
    ) {
        if self.controller.start() == Start::Told {
            self.probing.peer_probes = parameters.rate_probing;
            self.verify_profile();
            if self.may_verify() {
                self.controller.watch_told_rate();
            }
            return;
        }
        if self.controller.start() != Start::Pair {
            return;
        }
        self.probing.uplink_packet = UplinkPacket::No;
        self.probing.peer_probes = parameters.rate_probing;
        let since_init = now.saturating_since(self.probing.init_at);
        if is_first && since_init < REPEATED {
            self.rtt.on_sample(now, since_init, Duration::ZERO);
        }
        let has_pair = early == EarlyOutcome::Accepted;
        let arrived = Some(now).filter(|_| is_first && has_pair);
        self.controller.on_resp(arrived, parameters.rate_probing);
        if !parameters.rate_probing || has_pair {
            return;
        }
        if !self.is_loading() {
            self.request_train(PAIR_TRAIN);
        } else if self.may_send_uplink_packet() {
            // Behind the packet that repeats the request.
            self.probing.uplink_packet = UplinkPacket::AfterNextPacket;
        }
    }

    /// Compares a remembered profile with the link, if nothing is being loaded and bytes cost nothing (agent).
    fn verify_profile(&mut self) {
        if self.controller.verifies_quickly() {
            self.verify_idle_link();
        }
    }

    /// The same on a link that has been idle for long: also on the slowest links (agent).
    pub(super) fn verify_idle_link(&mut self) {
        if self.may_verify() && !self.is_loading() {
            self.request_train(PAIR_TRAIN);
        }
    }

    /// Returns true if the profile is remembered, can be verified, and was not. On an ordered path the carrier spaces the
    /// packets, so that they show its own rate and not that of the link.
    fn may_verify(&self) -> bool {
        self.config.verify_profile
            && self.config.rate_probing == RateProbing::Full
            && self.controller.start() == Start::Told
            && self.controller.can_verify()
            && self.probing.peer_probes
            && !self.probing.has_verified
            && !self.is_ordered()
    }

    fn request_train(&mut self, packets: u8) {
        self.probing.train_due = Some(packets);
        self.probing.has_verified = true;
        self.controller.on_train_requested(packets);
        self.rearm();
    }

    /// Measures the link by a packet whose frames were processed (agent).
    pub(super) fn measure_link(&mut self, now: Timestamp, stamp: crate::wire::Stamp, size: u64) {
        let rtt = self.path_rtt();
        let is_over_tcp = self.is_ordered();
        let estimated = self
            .controller
            .on_arrival(now, stamp, ByteCount::new(size), rtt, is_over_tcp);
        let Some(estimated) = estimated else { return };
        self.pending_ack.now = self.pending_ack.echo.is_some();
        let may_train = self.config.rate_probing == RateProbing::Full && self.probing.peer_probes;
        // Before a response only if the train is short: it can be filled with padding.
        let longest = *TRAIN_PACKETS.end();
        let train = estimated
            .train
            .filter(|packets| may_train && (!self.is_loading() || *packets == longest || estimated.is_doubt));
        match train {
            Some(packets) => self.request_train(packets),
            // The answer is a sample of the round-trip time, and repeats a lost grant.
            None if estimated.is_first && !self.is_loading() => self.ping_due = true,
            None => {}
        }
        self.rearm();
    }

    /// Returns true if the user waits for data, or a request is on its way.
    pub(super) fn is_loading(&self) -> bool {
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
        let has_pair = early == EarlyOutcome::Accepted;
        self.probing.left = u8::from(has_pair);
        self.probing.uplink_reference = has_pair.then_some((INIT_NUMBER, self.probing.init_at));
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
            self.probing.left = self.probing.left.saturating_add(packets);
        }
    }

    /// Bounds the first flight by the rate of the uplink (gateway): access links are hardly ever slower towards the agent.
    /// The agent's full packet shows this rate by its distance from the packet before it, which is the INIT, or the first
    /// packet of an agent whose early data was not accepted.
    pub(super) fn measure_uplink(&mut self, now: Timestamp, number: u64, size: u64) {
        if !self.probing.peer_probes || self.granted.by.is_some() {
            return;
        }
        let (before, since) = *self.probing.uplink_reference.get_or_insert((number, now));
        if before.checked_add(1) != Some(number) || size < FULL_PACKET.bytes() {
            return;
        }
        let dispersion = now.saturating_since(since);
        let flight = FirstFlight::new(&self.config.congestion.probing, dispersion);
        let is_fast = flight.burst.bytes() > self.granted.credit;
        if is_fast {
            self.granted.credit = flight.bytes();
            self.granted.rate = flight.rate;
            self.pacer.set_rate(now, self.granted.rate);
            self.pacer.allow_burst(flight.burst);
        }
        self.probing.uplink = Some(Uplink {
            rate: flight.uplink,
            flight: is_fast.then_some(flight),
            until: now + LONGEST_FIRST_FLIGHT,
        });
    }

    /// Ends the first flight if its time is over (gateway).
    pub(super) fn end_first_flight(&mut self, now: Timestamp) {
        if let Some(uplink) = self.probing.uplink.as_mut().filter(|uplink| uplink.until <= now) {
            uplink.flight = None;
        }
    }

    /// Credit in bytes that the first flight permits beyond the last report (gateway). Until the agent has reported more
    /// than what each receiver starts with, it knows the link by a pair of packets at most, which jitter spaces. After that
    /// the rest of the burst remains: a page whose objects come one by one shows the agent no rate.
    pub(super) fn first_flight_credit(&self) -> u64 {
        let reported = self.sent_packets.reported_bytes();
        match self.probing.uplink.and_then(|uplink| uplink.flight) {
            None => 0,
            Some(flight) if reported <= self.unknown_credit() => flight.bytes(),
            Some(flight) => flight.burst.bytes().saturating_sub(reported),
        }
    }

    /// Credit that a receiver grants that knows nothing about the link.
    fn unknown_credit(&self) -> u64 {
        InitialGrant::new(self.config.congestion, None, None, None)
            .credit()
            .bytes()
    }

    /// Rate of the link towards the peer: that of the profile or the one that the peer grants. `None` while neither is
    /// known: the rate at which an unknown link starts is no property of the link. Until the peer grants a rate, the
    /// agent's uplink stands for it.
    pub(super) fn link_rate(&self) -> Option<BitRate> {
        // A receiver that knows nothing grants what it starts with.
        let (credit, first_flight) = (self.granted.credit, self.first_flight_credit());
        let is_assumed = credit == self.unknown_credit() || credit > 0 && credit == first_flight;
        if self.profile.is_some() || self.granted.by.is_some() && !is_assumed {
            return Some(self.granted.rate.bit_rate());
        }
        self.probing.uplink.map(|uplink| uplink.rate.bit_rate())
    }
}

//! Permission to send a packet: credit, pacer, probes, path MTU and the amplification limit (transport.md sections 5 to 7).
use std::time::Duration;

use longhaul_types::{StreamId, Timestamp};

use super::{FEEDBACK_LEN, GAP_LEN};
use crate::{
    connection::{Connection, IP_UDP_HEADERS, Keys, STAMP_LEN},
    wire::TAG_LEN,
};

/// UDP payload of a probe during a stall: a minute of probes is less than 4 kB (transport.md section 7.3).
const STALL_PROBE: usize = 62;
/// UDP payload of a packet with path frames, exempt from credit, with feedback.
const PATH_PACKET: usize = 110;
/// Transmission time, and least UDP payload, to which the first packet after a network change is
/// padded. The first packet after a stall is at most as large.
const SHORT_TIME: Duration = Duration::from_millis(100);
const SHORT_LEAST: usize = 400;

/// Permission to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permit {
    /// Credit and pacer permit this UDP payload.
    Paced(usize),
    /// A probe of this UDP payload, exempt from credit and pacing (section 5.3).
    Probe(usize),
    /// A packet of exactly this UDP payload that measures the link, exempt from pacing (section 6.1).
    Full(usize),
    /// Only feedback and FORWARD (section 6).
    FeedbackOnly,
}

impl Connection {
    /// Returns the permission to send a packet now.
    pub(super) fn permit(&mut self, now: Timestamp, used: usize) -> Option<Permit> {
        if matches!(self.keys, Keys::Early { .. }) {
            if self.can_send_early() && self.probing.is_uplink_packet_due() {
                return Some(Permit::Full(self.mtu.payload()));
            }
            let open = self.can_send_early() && self.streams.has_output() && self.pacer.is_open(now);
            let limit = open.then(|| self.credit_limit()).flatten()?;
            return Some(Permit::Paced(limit.min(self.mtu.payload())));
        }
        let limit = self.datagram_limit();
        if limit < used + self.header_len() + STAMP_LEN + TAG_LEN + FEEDBACK_LEN {
            return None;
        }
        if self.prober.due {
            // On an ordered path nothing is lost that a probe could repeat: it only elicits feedback.
            if self.is_ordered() {
                // The first packet on the path reports what arrived on the path before. Gaps for which it has no room
                // would be reported as one large gap, and the peer would repeat what arrived between them.
                let gaps = if self.pending_ack.now {
                    self.gaps.count()
                } else {
                    0
                };
                return Some(Permit::Probe((used + STALL_PROBE + gaps * GAP_LEN).min(limit)));
            }
            let size = match (self.pad_due, self.prober.is_thin(), self.prober.resuming) {
                (false, true, _) => used + STALL_PROBE,
                (false, false, true) => used + self.short_packet(),
                (true, ..) | (false, false, false) => limit,
            };
            return Some(Permit::Probe(size.min(limit)));
        }
        // Address validation must not wait for credit, which only a validated address gets.
        if self.response_due.is_some() || self.path.challenge_due(now).is_some() {
            return Some(Permit::Paced(limit.min(used + PATH_PACKET)));
        }
        // The RESP leaves before its pair, in a datagram of its own or with data.
        if self.probing.has_full_packet() && used == 0 && limit == self.mtu.payload() {
            return Some(Permit::Full(limit));
        }
        let is_feedback_due = self.feedback_at().is_some_and(|at| at <= now);
        // Data that is sent slightly early saves a packet for feedback; the mean rate is unchanged.
        if self.prober.stalled_since.is_none()
            && self.wants_packet_now(now)
            && (self.pacer.is_open(now) || is_feedback_due && self.pacer.is_open_soon(now))
            && let Some(credit) = self.credit_limit()
        {
            return Some(Permit::Paced(limit.min(credit)));
        }
        is_feedback_due.then_some(Permit::FeedbackOnly)
    }

    /// Amplification limit in bytes; only a gateway limits what it sends to unvalidated addresses (section
    /// 7.2).
    pub(in crate::connection) fn path_budget(&self) -> u64 {
        if self.is_gateway() {
            self.path.budget()
        } else {
            u64::MAX
        }
    }

    /// Maximum UDP payload of a datagram by path MTU and amplification limit (section 7.2).
    pub(super) fn datagram_limit(&self) -> usize {
        usize::try_from(self.path_budget())
            .unwrap_or(usize::MAX)
            .min(self.mtu.payload())
    }

    /// UDP payload that the credit permits, if a full packet or all pending output fits.
    fn credit_limit(&self) -> Option<usize> {
        let left = self
            .granted
            .credit
            .saturating_sub(self.sent_packets.outstanding());
        let full = self.mtu.payload() as u64 + IP_UDP_HEADERS;
        if left >= full {
            return Some(self.mtu.payload());
        }
        let waiting = self.streams.next_sender().map_or(0, |id| self.sendable(id));
        let needed =
            waiting + IP_UDP_HEADERS + (self.header_len() + STAMP_LEN + TAG_LEN + FEEDBACK_LEN) as u64 + 64;
        let payload = usize::try_from(left.saturating_sub(IP_UDP_HEADERS)).unwrap_or(0);
        (needed <= left).then_some(payload)
    }

    /// Bytes of the next sender that a packet should take.
    fn sendable(&self, sender: StreamId) -> u64 {
        match self.streams.datagram_class(sender) {
            Some(class) => self.streams.next_datagram_len(class).unwrap_or(0) as u64,
            None => self.streams.sendable(sender),
        }
    }

    /// UDP payload of a probe for a larger path MTU (section 7.5), if the available data fills the probe.
    pub(super) fn mtu_probe(&self, now: Timestamp, limit: usize, out: &[u8]) -> Option<usize> {
        let size = self.mtu.candidate(now)?;
        let sendable = self.streams.sendable(self.streams.next_sender()?);
        let credit = self
            .granted
            .credit
            .saturating_sub(self.sent_packets.outstanding());
        let is_free = matches!(self.keys, Keys::Full { .. })
            && limit == self.mtu.payload()
            && out.is_empty()
            && !self.pad_due
            && self.path_budget() >= size as u64
            && credit >= size as u64 + IP_UDP_HEADERS
            && sendable >= size as u64;
        is_free.then_some(size)
    }

    /// UDP payload with a short transmission time at the granted rate and space for some data.
    pub(super) fn short_packet(&self) -> usize {
        let size = self.granted.rate.amount_in(SHORT_TIME);
        size.as_usize()
            .clamp(SHORT_LEAST, self.mtu.payload().max(SHORT_LEAST))
    }

    /// Returns true if the credit permits a packet for the pending output.
    pub(in crate::connection) fn has_credit(&self) -> bool {
        self.credit_limit().is_some()
    }

    /// Returns true if pending output needs a packet of its own.
    pub(in crate::connection) fn wants_packet(&self) -> bool {
        self.streams.has_output()
            || self.ping_due
            || self.probing.train_due.is_some()
            || self.response_due.is_some()
            || !self.tokens.is_empty()
    }

    pub(super) fn wants_packet_now(&self, now: Timestamp) -> bool {
        self.wants_packet() || self.path.challenge_due(now).is_some()
    }

    /// Returns true if half the feedback interval has passed, so that feedback is piggybacked.
    pub(super) fn should_piggyback(&self, now: Timestamp) -> bool {
        self.pending_ack.pending
            && self.pending_ack.echo.is_some()
            && self
                .pending_ack
                .last
                .is_none_or(|last| now.saturating_since(last) * 2 >= self.controller.feedback_interval())
    }
}

//! Functions of a connection for its user.
use bytes::Bytes;
use longhaul_types::{BitRate, LinkProfile, StreamId, Timestamp};

use super::{
    Connection, Keys, Lifecycle, LinkMeter, Validation, held_packets::HeldPacketDetector,
    late_packets::LatePackets, mtu::path_mtu, path::PeerPath, warm_up::WarmUp,
};
use crate::{
    endpoint::CloseReason,
    path::Path,
    streams::{OpenError, Priority, ReadError, ReadOutcome, WriteError},
};

/// Permission to send a stream as early data (transport.md section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyData {
    /// The stream may be sent as early data; an attacker can replay its contents.
    Allowed,
    /// The stream waits for the full keys.
    Forbidden,
}

/// Least limit of a session's rate: less would let feedback and probes time out.
const LEAST_LIMIT: BitRate = BitRate::bps(8_000);

impl Connection {
    /// Opens a stream of class `priority`.
    ///
    /// # Errors
    /// The peer's limit is reached (an `Available` event follows), or the connection is closed.
    pub fn open(&mut self, priority: Priority, early: EarlyData) -> Result<StreamId, OpenError> {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return Err(OpenError::Closed);
        }
        let id = self.streams.open(priority)?;
        if early == EarlyData::Forbidden && matches!(self.keys, Keys::Early { .. }) {
            self.streams.hold(id);
        }
        Ok(id)
    }

    /// Appends bytes to a stream; returns how many bytes were accepted, from the front. A `Writable` event
    /// follows if not all were accepted.
    ///
    /// # Errors
    /// No bytes were accepted.
    pub fn write(&mut self, _now: Timestamp, id: StreamId, data: Bytes) -> Result<usize, WriteError> {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return Err(WriteError::Closed);
        }
        let taken = self.streams.write(id, data);
        self.rearm();
        taken
    }

    /// Ends a stream after the written bytes.
    ///
    /// # Errors
    /// The stream is not open for writing, or its announced length was not reached.
    pub fn finish(&mut self, id: StreamId) -> Result<(), WriteError> {
        self.streams.finish(id)
    }

    /// Announces the length of a stream before all of it is written, so that short streams are sent first and
    /// a missing tail is detected.
    pub fn announce(&mut self, id: StreamId, total: u64) {
        self.streams.announce(id, total);
    }

    /// Moves a sending stream to another priority class.
    pub fn set_priority(&mut self, id: StreamId, priority: Priority) {
        self.streams.set_priority(id, priority);
    }

    /// Cancels a sending stream.
    pub fn cancel(&mut self, id: StreamId, error: u64) {
        self.streams.cancel(id, error);
    }

    /// Cancels a sending stream once the peer has acknowledged what was written before.
    pub fn break_off(&mut self, id: StreamId, error: u64) {
        self.streams.break_off(id, error);
    }

    /// Returns the next stream that the peer opened.
    pub fn accept(&mut self) -> Option<StreamId> {
        self.streams.accept()
    }

    /// Returns the next bytes of a stream.
    ///
    /// # Errors
    /// The peer cancelled the stream, or it is not open for reading.
    pub fn read(&mut self, _now: Timestamp, id: StreamId) -> Result<ReadOutcome, ReadError> {
        let outcome = self.streams.read(id);
        let step = self.config.receive_buffer.bytes() / 32;
        if self
            .pending_ack
            .little_room
            .is_some_and(|room| self.room() >= 2 * room + step)
        {
            // The credit was small because nobody read: the sender waits for this feedback.
            self.pending_ack.little_room = None;
            self.pending_ack.now = true;
        }
        self.rearm();
        outcome
    }

    /// Stops a receiving stream.
    pub fn stop(&mut self, id: StreamId, error: u64) {
        self.streams.stop(id, error);
    }

    /// Returns true if a part of the stream arrived as early data.
    pub fn was_early(&self, id: StreamId) -> bool {
        self.streams.was_early(id)
    }

    /// Length of a receiving stream, if the peer announced it.
    pub fn announced_total(&self, id: StreamId) -> Option<u64> {
        self.streams.announced_total(id)
    }

    /// Sets whether the user waits for a response or more of one. During silence the agent then sends PINGs,
    /// at intervals that double while the answers bring no data (transport.md section 7.3).
    pub fn expect_data(&mut self, now: Timestamp, expects: bool) {
        if self.expecting_since.is_some() == expects {
            return;
        }
        self.expecting_since = expects.then_some(now);
        self.keepalive_pings = 0;
        self.rearm();
    }

    /// Returns true if the user waits for data from the peer.
    pub const fn expects_data(&self) -> bool {
        self.expecting_since.is_some()
    }

    /// Handles a network change reported by the operating system: discards all measurements and informs the
    /// gateway of the new address at once.
    pub fn network_changed(&mut self, now: Timestamp) {
        self.controller.on_path_change();
        self.late_packets = LatePackets::default();
        self.rtt = crate::recovery::RttEstimator::new(self.profile.map(|profile| profile.rtt));
        self.ping_due = true;
        // Only an address has to be validated by the peer, for which it needs bytes.
        self.pad_due = !self.is_gateway() && self.path.remote.udp().is_some();
        self.pending_ack.now = self.pending_ack.echo.is_some();
        self.prober.due = true;
        self.prober.hurry(now);
        self.rearm();
    }

    /// Handles a change to a network whose properties are known, or to one of which nothing is known (agent):
    /// like [`Connection::network_changed`], and `profile` replaces the session's profile. The profile governs
    /// what this side grants; the peer keeps the profile of the INIT.
    pub fn moved_to_network(&mut self, now: Timestamp, profile: Option<LinkProfile>) {
        let is_other = self.profile != profile;
        self.profile = profile;
        self.network_changed(now);
        // The new network's data has no start with a profile that its link could contradict.
        self.link_meter = self.link_meter.is_some().then(|| Box::new(LinkMeter::new(false)));
        if let Some(profile) = profile {
            // The grant is from the network before: the first packet must not take longer on this uplink.
            self.granted.rate = self.granted.rate.min(profile.up.into());
        }
        if is_other {
            let (down, up) = (profile.map(|of| of.down), profile.map(|of| of.up));
            self.controller = self.config.controller(profile.as_ref(), down, up);
        }
    }

    /// Handles a change of the local address or port within one network, or the end of a suspension of this
    /// computer: asks the peer for feedback at once. The measurements stay.
    pub fn path_refreshed(&mut self, now: Timestamp) {
        self.ping_due = true;
        self.pad_due = !self.is_gateway() && self.path.remote.udp().is_some();
        self.pending_ack.now = self.pending_ack.echo.is_some();
        self.prober.due = true;
        self.prober.hurry(now);
        self.rearm();
    }

    /// Sends from now on over `path` (agent), as after a network change (transport.md section 7.1). Packets in
    /// flight on the old path count as lost, and their contents are sent again. The gateway follows when the
    /// first packet arrives on the new path.
    pub(crate) fn change_path(&mut self, now: Timestamp, path: Path) {
        if self.is_gateway() || path == self.path.remote {
            return;
        }
        self.path = PeerPath::new(path, Validation::Validated);
        self.mtu = path_mtu(self.mtu.limit(), path);
        self.held_packets = HeldPacketDetector::default();
        self.blocked = false;
        self.probing.warm_up = WarmUp::default();
        if matches!(self.keys, Keys::Early { .. }) {
            // Before RESP, nothing is known of the packets in flight.
            self.rearm();
            return;
        }
        let report = self.sent_packets.lose_all();
        self.apply_report(now, report);
        self.pacer.drain(now);
        self.network_changed(now);
    }

    /// Limits the rate of this session in each direction, or removes the limit. This side sends no faster, and grants
    /// its peer no higher rate: both pace their packets, and none is dropped. The first flight of a session may
    /// exceed the limit.
    pub fn limit_rate(&mut self, now: Timestamp, limit: Option<BitRate>) {
        let limit = limit.map(|limit| limit.max(LEAST_LIMIT));
        if self.rate_limit == limit {
            return;
        }
        self.rate_limit = limit;
        let rate = self.within_limit(self.granted.rate.bit_rate());
        if rate < self.granted.rate.bit_rate() {
            self.granted.rate = rate.into();
            self.pacer.set_rate(now, self.granted.rate);
        }
        self.rearm();
    }

    /// The rate, or the limit if that is lower.
    pub(super) fn within_limit(&self, rate: BitRate) -> BitRate {
        self.rate_limit.map_or(rate, |limit| rate.min(limit))
    }

    /// Sends a token for the peer's next INIT.
    pub fn send_token(&mut self, _now: Timestamp, token: [u8; 32]) {
        // Only the newest token is useful.
        self.tokens.clear();
        self.tokens.push_back(token);
        self.rearm();
    }

    /// Closes the session. The reason is for log readers; at most 200 bytes of it are sent.
    pub fn close(&mut self, now: Timestamp, error: u64, reason: &str) {
        self.close_with(now, error, reason.to_owned(), CloseReason::Local { error });
    }

    /// Closes the session because the device opened a newer one (gateway).
    pub(crate) fn replace(&mut self, now: Timestamp, error: u64) {
        let reason = "another agent opened a session with this device's key".to_owned();
        self.close_with(now, error, reason, CloseReason::Replaced);
    }

    /// Exporter secret (transport.md section 3.3), once the handshake is complete.
    pub fn exporter(&self) -> Option<[u8; 32]> {
        match &self.keys {
            Keys::Early { .. } => None,
            Keys::Full { exporter, .. } => Some(**exporter),
        }
    }

    /// Free space of the receive buffer in bytes.
    pub(super) fn room(&self) -> u64 {
        self.config
            .receive_buffer
            .bytes()
            .saturating_sub(self.streams.recv_buffered())
    }
}

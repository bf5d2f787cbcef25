//! Active queue management by queueing delay.
use std::time::Duration;

use longhaul_types::{ByteCount, Timestamp};

/// Controlled delay (RFC 8289): if packets wait longer than `target` for an `interval`, packets are dropped
/// from the head of the queue, at an increasing rate, until the queueing delay is below `target` again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Acceptable standing queueing delay.
    pub target: Duration,
    /// Time for which the target may be exceeded, of the order of a round-trip time.
    pub interval: Duration,
}

impl Codel {
    /// The constants that RFC 8289 recommends for the Internet (sections 4.2 and 4.3).
    pub const RFC_8289: Self = Self {
        target: Duration::from_millis(5),
        interval: Duration::from_millis(100),
    };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Send,
    Drop,
}

/// The control loop of RFC 8289 section 5, one packet per call.
pub(crate) struct CodelControl {
    codel: Codel,
    /// Time at which the delay will have exceeded the target for an interval.
    first_above: Option<Timestamp>,
    /// Time of the next drop, valid while `dropping` is set.
    drop_next: Timestamp,
    dropping: bool,
    /// Number of drops since the start of the dropping state.
    count: u32,
    last_count: u32,
    largest_packet: u64,
}

impl CodelControl {
    pub(crate) fn new(codel: Codel) -> Self {
        Self {
            codel,
            first_above: None,
            drop_next: Timestamp::ZERO,
            dropping: false,
            count: 0,
            last_count: 0,
            largest_packet: 0,
        }
    }

    /// Decides whether to send or drop a packet of `len` bytes that leaves the queue after `waited`, with
    /// `behind` bytes behind it.
    pub(crate) fn judge(&mut self, now: Timestamp, waited: Duration, len: u64, behind: ByteCount) -> Verdict {
        self.largest_packet = self.largest_packet.max(len);
        if !self.too_long(now, waited, behind) {
            self.dropping = false;
            return Verdict::Send;
        }
        if !self.dropping {
            self.enter_dropping(now);
            return Verdict::Drop;
        }
        if now < self.drop_next {
            return Verdict::Send;
        }
        self.count = self.count.saturating_add(1);
        self.drop_next += self.spacing();
        Verdict::Drop
    }

    /// Returns true if delays have exceeded the target for an interval. A queue shorter than a packet never
    /// does.
    fn too_long(&mut self, now: Timestamp, waited: Duration, behind: ByteCount) -> bool {
        if waited < self.codel.target || behind.bytes() <= self.largest_packet {
            self.first_above = None;
            return false;
        }
        let first_above = *self.first_above.get_or_insert(now + self.codel.interval);
        now >= first_above
    }

    fn enter_dropping(&mut self, now: Timestamp) {
        let recent = now - self.drop_next < self.codel.interval.saturating_mul(16);
        let drops = self.count.saturating_sub(self.last_count);
        // Shortly after the last dropping state, continue at the drop rate that it reached.
        self.count = if recent && drops > 1 { drops } else { 1 };
        self.last_count = self.count;
        self.dropping = true;
        self.drop_next = now + self.spacing();
    }

    fn spacing(&self) -> Duration {
        self.codel.interval.div_f64(f64::from(self.count.max(1)).sqrt())
    }
}

//! Which congestion control a TCP connection of a link uses. Pure.
//!
//! BBR keeps its rate where packets are lost at random, and its window while the connection is idle. CUBIC does neither:
//! a few lost packets in a hundred leave a tenth of the rate. But every ten seconds BBR lets the link run nearly empty, to
//! measure its round trip, which CUBIC does not; and the session bounds the bytes in flight by itself, so that CUBIC fills
//! no queue. A long transfer without loss therefore uses CUBIC, and everything else BBR (docs/decisions/0090).
use std::time::Duration;

use tokio::time::Instant;

/// Time of a transfer without loss after which it uses CUBIC: shorter than the ten seconds after which BBR measures the
/// round trip.
const CLEAN: Duration = Duration::from_secs(5);
/// Bytes of such a transfer: 290 full packets, of which one is lost with 95 % if the link loses one in a hundred.
const CLEAN_BYTES: usize = 400_000;
/// The kernel's shortest timeout.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(200);

/// A congestion control of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CongestionControl {
    Bbr,
    Cubic,
}

impl CongestionControl {
    /// The kernel's name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bbr => "bbr",
            Self::Cubic => "cubic",
        }
    }
}

/// The choice for one connection, which begins with BBR.
#[derive(Debug)]
pub(crate) struct SenderChoice {
    current: CongestionControl,
    /// Beginning of the transfer without loss.
    clean_since: Instant,
    clean_bytes: usize,
    written: Instant,
    /// Segments that were sent again until then, and the kernel's timeout.
    resent: u32,
    timeout: Duration,
}

impl SenderChoice {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            current: CongestionControl::Bbr,
            clean_since: now,
            clean_bytes: 0,
            written: now,
            resent: 0,
            timeout: SHORTEST_TIMEOUT,
        }
    }

    /// Called before each write. Returns the congestion control to change to.
    pub(crate) fn before_write(&mut self, now: Instant) -> Option<CongestionControl> {
        // After an idle time as long as its timeout, the kernel closes the window of all but BBR (RFC 2861).
        if now.duration_since(self.written) >= self.timeout / 2 {
            self.begin_anew(now);
        }
        self.change()
    }

    /// Called after each write of so many bytes, with the number of segments that were sent again since the connection
    /// began, and the time without an acknowledgement after which the kernel sends again. Returns the congestion control to
    /// change to.
    pub(crate) fn after_write(
        &mut self,
        now: Instant,
        bytes: usize,
        (resent, timeout): (u32, Duration),
    ) -> Option<CongestionControl> {
        if resent != self.resent {
            self.begin_anew(now);
        }
        self.resent = resent;
        self.timeout = timeout.max(SHORTEST_TIMEOUT);
        self.written = now;
        self.clean_bytes = self.clean_bytes.saturating_add(bytes);
        self.change()
    }

    const fn begin_anew(&mut self, now: Instant) {
        self.clean_since = now;
        self.clean_bytes = 0;
    }

    fn change(&mut self) -> Option<CongestionControl> {
        let is_long = self.written.saturating_duration_since(self.clean_since) >= CLEAN;
        let wanted = if is_long && self.clean_bytes >= CLEAN_BYTES {
            CongestionControl::Cubic
        } else {
            CongestionControl::Bbr
        };
        (wanted != self.current).then(|| {
            self.current = wanted;
            wanted
        })
    }
}

#[cfg(test)]
mod tests {
    use CongestionControl::{Bbr, Cubic};

    use super::*;

    /// A connection that writes every 50 ms, and its changes.
    struct Transfer {
        bytes: usize,
        choice: SenderChoice,
        now: Instant,
        resent: u32,
        timeout: Duration,
    }

    impl Transfer {
        fn new(timeout: Duration) -> Self {
            let now = Instant::now();
            Self {
                bytes: 50_000,
                choice: SenderChoice::new(now),
                now,
                resent: 0,
                timeout,
            }
        }

        /// Writes for a time; returns the changes, with the time since its beginning.
        fn writes_for(&mut self, time: Duration) -> Vec<(CongestionControl, Duration)> {
            let began = self.now;
            let mut changes = Vec::new();
            while self.now < began + time {
                self.now += Duration::from_millis(50);
                let of_kernel = (self.resent, self.timeout);
                let before = self.choice.before_write(self.now);
                let after = self.choice.after_write(self.now, self.bytes, of_kernel);
                changes.extend(
                    [before, after]
                        .into_iter()
                        .flatten()
                        .map(|to| (to, self.now - began)),
                );
            }
            changes
        }
    }

    #[test]
    fn a_long_transfer_without_loss_uses_cubic_until_a_packet_is_lost() {
        let mut transfer = Transfer::new(Duration::from_millis(600));
        let changes = transfer.writes_for(Duration::from_secs(60));
        assert_eq!(changes, [(Cubic, CLEAN)]);
        transfer.resent += 1;
        let changes = transfer.writes_for(Duration::from_secs(4));
        assert!(
            matches!(changes[..], [(Bbr, after)] if after == Duration::from_millis(50)),
            "{changes:?}"
        );
        // One more loss begins the time anew.
        transfer.resent += 1;
        assert_eq!(transfer.writes_for(Duration::from_secs(4)), []);
        let changes = transfer.writes_for(Duration::from_secs(60));
        assert_eq!(changes.len(), 1, "{changes:?}");
    }

    #[test]
    fn a_few_packets_without_loss_say_nothing() {
        let mut transfer = Transfer::new(Duration::from_millis(600));
        transfer.bytes = 1500;
        let changes = transfer.writes_for(Duration::from_secs(60));
        let after = Duration::from_millis(50) * 267;
        assert_eq!(changes, [(Cubic, after)]);
    }

    #[test]
    fn a_pause_returns_to_bbr_before_the_kernel_closes_the_window() {
        for (timeout, pause) in [(600, 300), (200, 100), (3000, 1500), (1, 150)] {
            let mut transfer = Transfer::new(Duration::from_millis(timeout));
            assert_eq!(transfer.writes_for(CLEAN * 2).len(), 1);
            transfer.now += Duration::from_millis(pause);
            let changes = transfer.writes_for(Duration::from_secs(1));
            assert_eq!(changes, [(Bbr, Duration::from_millis(50))]);
        }
    }
}

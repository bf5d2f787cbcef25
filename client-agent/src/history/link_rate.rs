//! The rate of the link by which times are estimated. Pure.
//!
//! The transport's measured rate falls while little is sent, and times computed from it would be far too long. The highest
//! rate that a session has shown is at most that of the link.
use std::time::Duration;

use longhaul_driver::ConnectionStats;
use longhaul_types::BitRate;

use crate::session_serial::SessionSerial;

/// The highest rate that the current session has shown.
#[derive(Debug, Default)]
pub(super) struct LinkRate {
    session: Option<SessionSerial>,
    received: u64,
    best: u64,
}

impl LinkRate {
    /// Adds what a session shows after some `time`; returns the rate in bit/s. The rate of the session before holds until the
    /// new one has shown something.
    pub(super) fn add(&mut self, session: SessionSerial, stats: &ConnectionStats, time: Duration) -> u64 {
        let is_new = self.session.replace(session) != Some(session);
        let received = std::mem::replace(&mut self.received, stats.bytes_received);
        let arrived = stats
            .bytes_received
            .saturating_sub(if is_new { 0 } else { received });
        let known = [stats.estimated_capacity, stats.measured_receive_rate];
        let known = known
            .into_iter()
            .flatten()
            .map(BitRate::as_bps)
            .max()
            .unwrap_or(0);
        self.best_of(is_new, known.max(rate(arrived, time)))
    }

    fn best_of(&mut self, is_new: bool, shown: u64) -> u64 {
        self.best = if is_new && shown > 0 {
            shown
        } else {
            self.best.max(shown)
        };
        self.best
    }
}

/// Rate in bit/s at which so many bytes arrived; of less than a second nothing is concluded.
fn rate(bytes: u64, time: Duration) -> u64 {
    if time < Duration::from_millis(900) {
        return 0;
    }
    let rate = u128::from(bytes) * 8000 / time.as_millis().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_rate_of_a_session_holds() {
        let mut rates = LinkRate::default();
        assert_eq!(rates.best_of(true, 0), 0);
        assert_eq!(rates.best_of(false, 384_000), 384_000);
        assert_eq!(rates.best_of(false, 16_000), 384_000, "little is sent");
        assert_eq!(
            rates.best_of(true, 0),
            384_000,
            "a new session that shows nothing yet"
        );
        assert_eq!(rates.best_of(true, 48_000), 48_000);
    }

    #[test]
    fn bytes_of_a_second_show_a_rate() {
        assert_eq!(rate(48_000, Duration::from_secs(1)), 384_000);
        assert_eq!(rate(48_000, Duration::from_secs(2)), 192_000);
        assert_eq!(rate(48_000, Duration::from_millis(10)), 0);
    }
}

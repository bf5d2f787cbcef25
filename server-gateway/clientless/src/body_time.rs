//! Time that a client may take to send the body of a request: each holds a stream slot, and perhaps a connection to an
//! origin.
//!
//! As in other servers there are two limits: one between two successive reads (nginx `client_body_timeout`), and one that
//! grows with the bytes (Apache `mod_reqtimeout`, `MinRate`). Only time in which the gateway waits for the client counts:
//! an origin that reads slowly is not the client's fault.
use std::{io, time::Duration};

/// Maximum time between two successive reads. After an outage of 40 s, TCP may wait as long again until it repeats a
/// packet, because it doubles its timeout with each repetition.
const MAX_SILENCE: Duration = Duration::from_secs(120);
/// Time that a body may take in addition to that of [`LEAST_RATE`]: several outages in a row, and the time that an upload
/// waits while others of the same link are faster.
const GRACE: Duration = Duration::from_secs(300);
/// Bytes a second. The slowest uplinks (GPRS) carry 3 kB/s, and browsers send six uploads at the same time: a tenth of
/// the share of one.
const LEAST_RATE: u64 = 50;

/// Reasons for which a body is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyTimeError {
    /// No byte in time.
    #[error("the request's body stopped: no byte of it arrived for {} s", .0.as_secs())]
    Silent(Duration),
    /// Too few bytes.
    #[error("the request's body arrives too slowly: at less than {LEAST_RATE} bytes/s")]
    Slow,
}

impl From<BodyTimeError> for io::Error {
    fn from(error: BodyTimeError) -> Self {
        Self::new(io::ErrorKind::TimedOut, error)
    }
}

/// What a body has taken so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct BodyTime {
    max_silence: Duration,
    waited: Duration,
    bytes: u64,
}

impl BodyTime {
    /// A body begins, on a connection that ends after `idle` without activity.
    pub(super) fn new(idle: Duration) -> Self {
        Self {
            max_silence: MAX_SILENCE.min(idle),
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Time for the next read.
    pub(super) fn left(&self) -> Duration {
        self.all().saturating_sub(self.waited).min(self.max_silence)
    }

    /// Bytes were read after this time.
    pub(super) fn read(&mut self, waited: Duration, count: usize) {
        self.waited += waited;
        self.bytes = self.bytes.saturating_add(count as u64);
    }

    /// Why the body is given up once [`Self::left`] has passed without a byte.
    pub(super) fn error(&self) -> BodyTimeError {
        if self.left() < self.max_silence {
            BodyTimeError::Slow
        } else {
            BodyTimeError::Silent(self.max_silence)
        }
    }

    /// Time in all for the bytes so far.
    fn all(&self) -> Duration {
        GRACE.saturating_add(Duration::from_secs(self.bytes / LEAST_RATE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(600);

    /// Reads of so many bytes after so long each; returns the time at which the body is given up.
    fn given_up(mut reads: impl Iterator<Item = (Duration, usize)>) -> Option<(Duration, BodyTimeError)> {
        let (mut time, mut now) = (BodyTime::new(IDLE), Duration::ZERO);
        reads.find_map(|(waited, count)| {
            let left = time.left();
            if waited >= left {
                return Some((now + left, time.error()));
            }
            now += waited;
            time.read(waited, count);
            None
        })
    }

    #[test]
    fn six_uploads_over_gprs_with_outages_are_not_cut() {
        // Ten megabytes at a sixth of 3 kB/s, an outage of 40 s every two minutes after which TCP waits as long again, and
        // one upload that gets a quarter of its share.
        for share in [1, 4] {
            let reads = (1..20_000).map(|number| {
                let waited = if number % 120 == 0 { 80 } else { 1 };
                (Duration::from_secs(waited), 500 / share)
            });
            assert_eq!(given_up(reads), None, "a share of 1/{share}");
        }
    }

    #[test]
    fn a_body_that_trickles_or_stops_is_given_up() {
        let trickle = std::iter::repeat((Duration::from_secs(119), 1));
        assert_eq!(given_up(trickle), Some((GRACE, BodyTimeError::Slow)));
        let twenty = std::iter::repeat((Duration::from_secs(1), 20));
        let (time, error) = given_up(twenty).unwrap();
        // 300 s and 20 bytes/s of 50: 500 s, less what whole seconds of bytes and of reads round off.
        assert!((498..=500).contains(&time.as_secs()), "{time:?}");
        assert_eq!(error, BodyTimeError::Slow);
        let stops = [(Duration::ZERO, 1_000_000), (IDLE, 1)];
        let silent = BodyTimeError::Silent(MAX_SILENCE);
        assert_eq!(given_up(stops.into_iter()), Some((MAX_SILENCE, silent)));
    }

    #[test]
    fn a_shorter_limit_of_the_connection_applies() {
        let time = BodyTime::new(Duration::from_secs(10));
        assert_eq!(time.left(), Duration::from_secs(10));
        assert!(io::Error::from(time.error()).to_string().contains("10 s"));
    }
}

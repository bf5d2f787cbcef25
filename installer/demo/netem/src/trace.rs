//! Recorded links in the trace format of mahimahi.
use std::{sync::Arc, time::Duration};

use longhaul_types::{ByteCount, Timestamp};

/// Bytes that one line of a trace admits.
pub const OPPORTUNITY: ByteCount = ByteCount::new(1500);

/// Maximum number of lines of a trace: 64 MiB in memory, and an hour and a half at 40 Mbit/s.
const MAX_OPPORTUNITIES: usize = 16 * 1024 * 1024;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Delivery opportunities of a link, in the format of mahimahi's `mm-link` (Netravali et al., USENIX ATC
/// 2015): each line is a time in milliseconds at which [`OPPORTUNITY`] bytes may leave. The trace repeats;
/// its length is its last timestamp.
///
/// As in mahimahi, an opportunity serves bytes, not packets: it may carry several small packets, a larger
/// packet needs several opportunities, and an opportunity at an empty queue is lost. It serves only packets
/// that arrived before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    millis: Arc<[u32]>,
    /// The last timestamp.
    period: u64,
    /// Time in the trace at the link's time zero.
    offset: u64,
}

/// Errors of a text that is not a valid trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseTraceError {
    /// The text has no line.
    #[error("the trace is empty")]
    Empty,
    /// A line is not a number.
    #[error("line {line} of the trace is `{text}`, not a whole number of milliseconds")]
    BadLine {
        /// Number of the line, from 1.
        line: usize,
        /// The beginning of the line.
        text: String,
    },
    /// A timestamp is earlier than its predecessor.
    #[error(
        "line {line} of the trace has an earlier timestamp than its predecessor; timestamps must not decrease"
    )]
    Decreasing {
        /// Number of the line, from 1.
        line: usize,
    },
    /// All timestamps are zero, so that a repetition of the trace would take no time.
    #[error("the trace has no duration; its last timestamp must be above 0")]
    NoDuration,
    /// The text has more lines than the maximum, or a timestamp of more than 49 days.
    #[error(
        "line {line} of the trace is beyond the limits: {MAX_OPPORTUNITIES} lines and {} ms",
        u32::MAX
    )]
    TooLarge {
        /// Number of the line, from 1.
        line: usize,
    },
}

impl DeliveryTrace {
    /// Parses a trace: one timestamp in milliseconds per line, not decreasing.
    ///
    /// # Errors
    /// The text is empty, has a line that is not a number, has decreasing timestamps, has no duration or is
    /// too large.
    pub fn parse(text: &str) -> Result<Self, ParseTraceError> {
        let mut millis = Vec::new();
        let mut latest = 0;
        for (index, text) in text.lines().enumerate() {
            let line = index + 1;
            let at = parse_line(line, text)?;
            if line > MAX_OPPORTUNITIES {
                return Err(ParseTraceError::TooLarge { line });
            }
            if at < latest {
                return Err(ParseTraceError::Decreasing { line });
            }
            latest = at;
            millis.push(at);
        }
        if millis.is_empty() {
            return Err(ParseTraceError::Empty);
        }
        if latest == 0 {
            return Err(ParseTraceError::NoDuration);
        }
        Ok(Self {
            millis: millis.into(),
            period: u64::from(latest),
            offset: 0,
        })
    }

    /// Returns the same trace with its beginning at `offset` (whole milliseconds), as a window of a long
    /// recording.
    #[must_use]
    pub fn starting_at(mut self, offset: Duration) -> Self {
        let millis = u64::try_from(offset.as_millis()).unwrap_or(u64::MAX);
        self.offset = millis % self.period;
        self
    }

    /// Time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period)
    }

    /// Number of opportunities in one period.
    pub fn opportunities(&self) -> usize {
        self.millis.len()
    }

    /// Returns the bytes that the opportunities after `from`, up to and including `to`, admit.
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        let count = self.first_after(to).saturating_sub(self.first_after(from));
        ByteCount::new(count.saturating_mul(OPPORTUNITY.bytes()))
    }

    /// Returns the time of opportunity number `index`. Numbers continue from one repetition to the next.
    pub(crate) fn time_of(&self, index: u64) -> Timestamp {
        let len = self.millis.len() as u64;
        let within = usize::try_from(index % len)
            .ok()
            .and_then(|within| self.millis.get(within));
        let at = (index / len)
            .saturating_mul(self.period)
            .saturating_add(within.map_or(0, |at| u64::from(*at)))
            .saturating_sub(self.offset);
        Timestamp::from_nanos(at.saturating_mul(NANOS_PER_MILLI))
    }

    /// Returns the number of the first opportunity later than `at`.
    pub(crate) fn first_after(&self, at: Timestamp) -> u64 {
        let at = at.as_nanos() / NANOS_PER_MILLI + self.offset;
        let within = self
            .millis
            .partition_point(|millis| u64::from(*millis) <= at % self.period);
        (at / self.period)
            .saturating_mul(self.millis.len() as u64)
            .saturating_add(within as u64)
    }
}

fn parse_line(line: usize, text: &str) -> Result<u32, ParseTraceError> {
    let digits = text.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(ParseTraceError::BadLine {
            line,
            text: text.chars().take(40).collect(),
        });
    }
    digits.parse().map_err(|_| ParseTraceError::TooLarge { line })
}

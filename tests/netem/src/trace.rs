//! Links recorded in the field: the trace format of mahimahi.
use std::{sync::Arc, time::Duration};

use longhaul_types::{ByteCount, Timestamp};

/// What one line of a trace lets through.
pub const OPPORTUNITY: ByteCount = ByteCount::new(1500);

/// Most lines of a trace: 64 MiB in memory, and an hour and a half at 40 Mbit/s.
const MAX_OPPORTUNITIES: usize = 16 * 1024 * 1024;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The delivery opportunities of a link, in the form of mahimahi's `mm-link` (Netravali et al., USENIX ATC 2015): each
/// line is a time in milliseconds at which [`OPPORTUNITY`] bytes may leave. The trace repeats; its length is its last
/// timestamp.
///
/// As in mahimahi, an opportunity serves bytes, not packets: it may carry several small packets, a larger packet needs
/// several opportunities, and what finds the queue empty is lost. It serves packets that were there before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryTrace {
    millis: Arc<[u32]>,
    /// The last timestamp.
    period: u64,
    /// The trace's time at the link's time zero.
    offset: u64,
}

/// A text that is no trace.
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
    /// A timestamp is earlier than the one before it.
    #[error("line {line} of the trace goes back in time; timestamps must not decrease")]
    Decreasing {
        /// Number of the line, from 1.
        line: usize,
    },
    /// All timestamps are zero, so that repeating the trace would take no time.
    #[error("the trace lasts no time; its last timestamp must be above 0")]
    NoDuration,
    /// The text has more lines than the model keeps, or a timestamp of more than 49 days.
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
    /// Reads a trace: one timestamp in milliseconds a line, not decreasing.
    ///
    /// # Errors
    /// The text is empty, has a line that is not a number, goes back in time, lasts no time or is too large.
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

    /// The same trace begun `offset` after its beginning (whole milliseconds), as a window of a long recording.
    #[must_use]
    pub fn starting_at(mut self, offset: Duration) -> Self {
        let millis = u64::try_from(offset.as_millis()).unwrap_or(u64::MAX);
        self.offset = millis % self.period;
        self
    }

    /// The time after which the trace repeats.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period)
    }

    /// The number of opportunities in one period.
    pub fn opportunities(&self) -> usize {
        self.millis.len()
    }

    /// The bytes that the opportunities after `from`, up to and including `to`, let through.
    pub fn capacity_between(&self, from: Timestamp, to: Timestamp) -> ByteCount {
        let count = self.first_after(to).saturating_sub(self.first_after(from));
        ByteCount::new(count.saturating_mul(OPPORTUNITY.bytes()))
    }

    /// When the opportunity numbered `index` is. Numbers go on from one repetition to the next.
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

    /// The number of the first opportunity later than `at`.
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

//! One response of known size.
use std::time::{Duration, Instant};

use longhaul_types::{ByteCount, Timestamp};
use longhaul_world::EmulatedLink;

use crate::{
    error::TransferError,
    exchange::Order,
    experiment::{SessionBefore, bundle_limit},
    measured::{Bundle, Outcome},
    progress::Progress,
    stage::Stage,
};

/// Idle time of the link before the response is requested.
const QUIET: Duration = Duration::from_secs(3);
/// Bytes fetched before, on an open session.
const EARLIER: u64 = 2000;
const LARGEST_PACKET: ByteCount = ByteCount::new(1500);
/// Maximum time until the link is idle afterwards.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

pub(crate) async fn run(
    stage: &Stage<'_>,
    bytes: u64,
    session: SessionBefore,
) -> Result<Outcome, TransferError> {
    let client = stage.client(0).await?;
    if session == SessionBefore::Open {
        stage.open(&client).await?;
        stage
            .fetch(&client, Order::bytes(EARLIER), bundle_limit(stage.link, EARLIER))
            .await?;
    }
    stage.hop().idle(QUIET, QUIET_LIMIT).await;
    let before = stage.hop().snapshot();
    let progress = stage
        .fetch(&client, Order::bytes(bytes), bundle_limit(stage.link, bytes))
        .await?;
    let after = stage.hop().snapshot();
    let (asked, first, last) = times(&progress).ok_or(TransferError::TimedOut("the response"))?;
    // Before the response there may be packets of the handshake, and after it those of the next feedback.
    let down = &stage.link.hop.down;
    let earliest = down.delay + down.jitter + LARGEST_PACKET / stage.link.rate_down();
    let began = first
        .checked_sub(earliest)
        .map_or(asked, |began| began.max(asked));
    let ended = last.checked_sub(down.delay).unwrap_or(last);
    let busy = busy_share(stage.hop(), stage.stamp(began), stage.stamp(ended));
    stage.close(&client).await;
    Ok(Outcome::Bundle(Bundle {
        busy,
        first_byte_s: (first - asked).as_secs_f64(),
        last_byte_s: (last - asked).as_secs_f64(),
        bytes_down: (after.down.sent.bytes - before.down.sent.bytes).bytes(),
        bytes_up: (after.up.sent.bytes - before.up.sent.bytes).bytes(),
    }))
}

fn times(progress: &Progress) -> Option<(Instant, Instant, Instant)> {
    Some((progress.asked()?, progress.first_byte()?, progress.last()?.at))
}

/// Returns the share of the time between the first and the last bit sent on the downlink between `from` and
/// `to` in which it was sending.
fn busy_share(link: &EmulatedLink, from: Timestamp, to: Timestamp) -> Option<f64> {
    let busy = |from: Timestamp, to: Timestamp| link.busy_down(from, to);
    let total = busy(from, to)?;
    if total.is_zero() {
        return None;
    }
    let first = first_true(from, to, |at| busy(from, at).is_some_and(|busy| !busy.is_zero()));
    let last = first_true(first, to, |at| busy(at, to).is_some_and(|busy| busy.is_zero()));
    let span = last - first;
    (!span.is_zero()).then(|| (total.as_secs_f64() / span.as_secs_f64()).min(1.0))
}

/// Returns the earliest time between two times at which a condition is true, to the microsecond. Once true,
/// the condition must stay true.
fn first_true(from: Timestamp, to: Timestamp, is: impl Fn(Timestamp) -> bool) -> Timestamp {
    const EXACT: Duration = Duration::from_micros(1);
    let (mut before, mut after) = (from, to);
    while after - before > EXACT {
        let middle = before + (after - before) / 2;
        if is(middle) {
            after = middle;
        } else {
            before = middle;
        }
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bisection_finds_the_first_true_time() {
        let at = |micros: u64| Timestamp::from_nanos(micros * 1000);
        let found = first_true(at(0), at(1_000_000), |time| time >= at(123_456));
        assert!(found >= at(123_456) && found <= at(123_458));
    }
}

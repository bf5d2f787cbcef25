//! A download by a client with wrong link rates.
use std::time::Duration;

use longhaul_report::Series;
use longhaul_types::{ByteCount, Timestamp};
use longhaul_world::LinkSample;

use crate::{
    bulk::{curves_of, delay_of},
    error::TransferError,
    exchange::Order,
    measured::{Outcome, WrongProfile},
    priority::percentile,
    stage::{Stage, share},
};

/// Maximum observed time.
pub(crate) const LENGTH: Duration = Duration::from_secs(120);
/// Time for which the queue is observed after it could settle.
const WATCHED: Duration = Duration::from_secs(30);
/// Interval of the link's samples.
const INTERVAL: Duration = Duration::from_millis(50);
/// Maximum factor of the wrong rates, see [`WrongRates`](crate::WrongRates).
const TIMES: u32 = 10;
/// A full packet.
const PACKET: ByteCount = ByteCount::new(1280);

pub(crate) async fn run(stage: &Stage<'_>, series: &mut Vec<Series>) -> Result<Outcome, TransferError> {
    if stage.profile.is_none() {
        return Err(TransferError::NoProfile);
    }
    let client = stage.open_client(0).await?;
    stage.hop().start_sampling(INTERVAL);
    let (rtt, rate) = (stage.link.rtt(), stage.link.rate_down());
    let start = stage.hop().now();
    let download = stage.start(&client, Order::endless());
    stage.until(start + rtt * 5).await;
    let early = stage.hop().snapshot().down;
    let unasked = (rate * (rtt * TIMES)).min(stage.link.hop.down.queue);
    let settled = rtt * 3 + unasked / rate;
    stage.until(start + (settled + WATCHED).min(LENGTH)).await;
    let late = stage.hop().snapshot().down;
    let samples = stage.hop().take_samples();
    let samples: Vec<LinkSample> = samples.into_iter().filter(|sample| sample.at >= start).collect();
    series.extend(curves_of(stage, &samples, &download.progress, start, INTERVAL));
    download.stop().await?;
    stage.close(&client).await;
    let mut queue: Vec<f64> = samples
        .iter()
        .filter(|sample| sample.at >= start + settled)
        .map(|sample| delay_of(stage, sample.down_queued))
        .collect();
    queue.sort_by(f64::total_cmp);
    let over = rtt.max(Duration::from_millis(500)).max((PACKET / rate) * 4);
    Ok(Outcome::WrongProfile(WrongProfile {
        settled_s: settled.as_secs_f64(),
        queue_p95_s: percentile(&queue, 95),
        lost: share(
            late.dropped_total().packets - early.dropped_total().packets,
            late.offered.packets - early.offered.packets,
        ),
        reached_s: reached(&samples, over, rate * over).map(|reached| (reached - start).as_secs_f64()),
    }))
}

/// Returns the time of the first sample at which nine tenths of `whole` were sent within `over`.
fn reached(samples: &[LinkSample], over: Duration, whole: ByteCount) -> Option<Timestamp> {
    let wanted = ByteCount::new(whole.bytes() / 10 * 9);
    samples.iter().enumerate().find_map(|(index, from)| {
        let later = samples.get(index..)?;
        let to = later.iter().find(|to| to.at >= from.at + over)?;
        (to.down_bytes_sent - from.down_bytes_sent >= wanted).then_some(from.at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_of_the_capacity_are_sufficient() {
        let sample = |millis: u64, sent: u64| LinkSample {
            at: Timestamp::from_nanos(millis * 1_000_000),
            down_bytes_sent: ByteCount::new(sent),
            up_bytes_sent: ByteCount::ZERO,
            down_queued: ByteCount::ZERO,
            up_queued: ByteCount::ZERO,
        };
        let samples = [sample(0, 0), sample(100, 50), sample(200, 140), sample(300, 240)];
        let over = Duration::from_millis(100);
        let found = |whole| reached(&samples, over, ByteCount::new(whole));
        assert_eq!(found(100), Some(samples[1].at));
        assert_eq!(found(110), Some(samples[2].at));
        assert_eq!(found(200), None);
    }
}

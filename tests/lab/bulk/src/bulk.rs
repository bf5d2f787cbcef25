//! A download that fills the link.
use std::time::Duration;

use longhaul_report::{Series, SeriesPoint};
use longhaul_types::{ByteCount, Timestamp};
use longhaul_world::LinkSample;

use crate::{
    error::TransferError,
    exchange::Order,
    measured::{Bulk, Outcome},
    progress::Progress,
    stage::{Stage, bytes_f64, float, share},
};

/// Approximate number of points of a curve.
const POINTS: u32 = 300;
/// Minimum interval of a curve.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) async fn run(
    stage: &Stage<'_>,
    length: Duration,
    series: &mut Vec<Series>,
) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    let interval = (length / POINTS).max(MIN_INTERVAL);
    stage.hop().start_sampling(interval);
    let start = stage.hop().now();
    let download = stage.start(&client, Order::endless());
    let begin = start + stage.link.rtt() * 2;
    stage.until(begin).await;
    // Measured before the download is stopped, so that the stop does not affect the figures.
    let window = Window::open(stage);
    stage.until(begin + length).await;
    let figures = window.close(stage, &download.progress);
    series.extend(curves(stage, &download.progress, start, interval));
    download.stop().await?;
    stage.close(&client).await;
    Ok(Outcome::Bulk(figures))
}

/// Counters of the link at the start of the measured period.
pub(crate) struct Window {
    from: longhaul_world::Snapshot,
    again: Option<crate::stage::SentAgain>,
}

impl Window {
    /// Starts the measured period; earlier queueing delays are discarded.
    pub(crate) fn open(stage: &Stage<'_>) -> Self {
        let _before = stage.hop().take_queueing_delays();
        Self {
            from: stage.hop().snapshot(),
            again: stage.sent_again(),
        }
    }

    /// Ends the measured period.
    pub(crate) fn close(self, stage: &Stage<'_>, progress: &Progress) -> Bulk {
        let to = stage.hop().snapshot();
        let again = stage.sent_again();
        let (delays, _) = stage.hop().take_queueing_delays();
        let time = to.now - self.from.now;
        let capacity = stage.capacity(self.from.now, to.now);
        let uplink = bytes_f64(stage.link.rate_up() * time);
        let carried = |stats: &longhaul_netem::LinkStats| stats.sent.bytes + stats.repeated;
        let dropped = to.down.dropped_total().packets - self.from.down.dropped_total().packets;
        let offered = to.down.offered.packets - self.from.down.offered.packets;
        let received = progress.received_between(stage.instant(self.from.now), stage.instant(to.now));
        Bulk {
            utilisation: bytes_f64(carried(&to.down) - carried(&self.from.down)) / capacity,
            goodput: float(received) / capacity,
            queue_p50_s: delays.percentile(50).as_secs_f64(),
            queue_p95_s: delays.percentile(95).as_secs_f64(),
            lost: share(dropped, offered),
            retransmitted: again.zip(self.again).map(|(now, before)| now.share_since(before)),
            feedback: bytes_f64(to.up.sent.bytes - self.from.up.sent.bytes) / uplink,
        }
    }
}

/// Returns goodput and queueing delay since `start`.
pub(crate) fn curves(
    stage: &Stage<'_>,
    progress: &Progress,
    start: Timestamp,
    interval: Duration,
) -> [Series; 2] {
    let samples = stage.hop().take_samples();
    curves_of(stage, &samples, progress, start, interval)
}

/// Returns the same for given samples.
pub(crate) fn curves_of(
    stage: &Stage<'_>,
    samples: &[LinkSample],
    progress: &Progress,
    start: Timestamp,
    interval: Duration,
) -> [Series; 2] {
    let samples: Vec<&LinkSample> = samples.iter().filter(|sample| sample.at >= start).collect();
    let since = |at: Timestamp| (at - start).as_secs_f64();
    let queue = samples.iter().map(|sample| SeriesPoint {
        at: since(sample.at),
        value: delay_of(stage, sample.down_queued),
    });
    let goodput = samples.iter().map(|sample| {
        let to = stage.instant(sample.at);
        let received = to
            .checked_sub(interval)
            .map_or(0, |from| progress.received_between(from, to));
        SeriesPoint {
            at: since(sample.at),
            value: float(received) * 8.0 / interval.as_secs_f64(),
        }
    });
    let curve = |what: &str, points: Vec<SeriesPoint>| Series {
        what: what.to_owned(),
        link: stage.link.name.clone(),
        system: stage.system.name().to_owned(),
        points,
    };
    [
        curve("goodput, bit/s", goodput.collect()),
        curve("queueing delay, s", queue.collect()),
    ]
}

/// Returns the delay of a queue of this length at the link's mean rate.
pub(crate) fn delay_of(stage: &Stage<'_>, queued: ByteCount) -> f64 {
    (queued / stage.link.rate_down()).as_secs_f64()
}

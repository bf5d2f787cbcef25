//! A download with an outage of the link.
use std::time::{Duration, Instant};

use longhaul_report::Series;
use longhaul_types::Timestamp;

use crate::{
    bulk::curves,
    error::TransferError,
    exchange::Order,
    experiment::DISTURBED_AT,
    measured::{OutageEnd, Outcome},
    progress::Progress,
    stage::{Stage, float},
};

/// Maximum waiting time for the first bytes after the outage: the kernel's longest retransmission timeout by
/// then is below this.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
/// Averaging time of the rates before and after.
const RATE_OVER: Duration = Duration::from_secs(5);
/// Interval between readings of the link's counters.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the curves.
const INTERVAL: Duration = Duration::from_millis(500);

/// Bytes that both sides had sent to the link by a time.
#[derive(Clone, Copy, Debug)]
struct Offered {
    at: Timestamp,
    down: u64,
    up: u64,
}

pub(crate) async fn run(
    stage: &Stage<'_>,
    length: Duration,
    series: &mut Vec<Series>,
    errors: &mut Vec<String>,
) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    stage.hop().start_sampling(INTERVAL);
    let start = stage.hop().now();
    let download = stage.start(&client, Order::endless());
    stage.until(DISTURBED_AT).await;
    let counters = stage.server.counters();
    let restored = DISTURBED_AT + length;
    let offered = watch_offered(stage, restored).await;
    let settled = restored + Duration::from_secs(2).max(stage.link.rtt() * 3);
    stage.until(settled + RATE_OVER).await;
    let first_byte = first_byte(stage, &download.progress, restored).await;
    let rate = |from: Timestamp| {
        let (from, to) = (stage.instant(from), stage.instant(from + RATE_OVER));
        download.progress.received_between(from, to)
    };
    let before_outage = rate(Timestamp::from_nanos(
        DISTURBED_AT.as_nanos() - u64::try_from(RATE_OVER.as_nanos()).unwrap_or(0),
    ));
    let after_outage = rate(settled);
    let noticed = [stage.server.stalls(), client.stalls()]
        .map(|stalls| first_from(&stalls, stage.instant(DISTURBED_AT)).map(|at| stage.stamp(at)));
    let silent = DISTURBED_AT + stage.link.rtt() * 3 + Duration::from_secs(1);
    let known = noticed.iter().flatten().max().copied().unwrap_or(silent);
    let (probes_down, probes_up) = sent_since(&offered, known);
    let dropped = stage.hop().snapshot().down.dropped_total().bytes.bytes();
    let again = stage.server.counters().retransmitted_bytes;
    series.extend(curves(stage, &download.progress, start, INTERVAL));
    let mut connections_lost = 0;
    if let Err(error) = download.stop().await {
        connections_lost = 1;
        errors.push(error.to_string());
    }
    stage.close(&client).await;
    Ok(Outcome::Outage(OutageEnd {
        first_byte_s: first_byte.map(|at| (at - restored).as_secs_f64()),
        regained: (before_outage > 0).then(|| float(after_outage) / float(before_outage)),
        detected_s: noticed[0].map(|at| (at - DISTURBED_AT).as_secs_f64()),
        srtt_s: counters.srtt.map(|srtt| srtt.as_secs_f64()),
        probes_down,
        probes_up,
        duplicate_bytes: again.map(|again| again.saturating_sub(dropped)),
        connections_lost,
    }))
}

/// Records the bytes sent to the link until the outage ends.
async fn watch_offered(stage: &Stage<'_>, until: Timestamp) -> Vec<Offered> {
    let mut offered = Vec::new();
    loop {
        let snapshot = stage.hop().snapshot();
        offered.push(Offered {
            at: snapshot.now,
            down: snapshot.down.offered.bytes.bytes(),
            up: snapshot.up.offered.bytes.bytes(),
        });
        if snapshot.now >= until {
            return offered;
        }
        stage.until(until.min(snapshot.now + CHECK_INTERVAL)).await;
    }
}

/// Returns the bytes down and up between the first reading at or after `known` and the last one.
fn sent_since(offered: &[Offered], known: Timestamp) -> (u64, u64) {
    let from = offered.iter().find(|look| look.at >= known);
    match from.zip(offered.last()) {
        Some((from, to)) => (to.down - from.down, to.up - from.up),
        None => (0, 0),
    }
}

/// Waits for the first bytes after the outage.
async fn first_byte(stage: &Stage<'_>, progress: &Progress, restored: Timestamp) -> Option<Timestamp> {
    let give_up = restored + PATIENCE;
    loop {
        if let Some(at) = progress.next_arrival(stage.instant(restored)) {
            return Some(stage.stamp(at));
        }
        let now = stage.hop().now();
        if now >= give_up || progress.ended().is_some() {
            return None;
        }
        stage.until(now + CHECK_INTERVAL).await;
    }
}

fn first_from(times: &[Instant], from: Instant) -> Option<Instant> {
    times.iter().copied().filter(|at| *at >= from).min()
}

//! Cancelled downloads.
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::{
    error::TransferError,
    exchange::Order,
    measured::{Cancelled, Outcome},
    stage::Stage,
};

/// Number of downloads.
const TIMES: usize = 5;
/// Time after which a download has filled the link.
const SETTLE: Duration = Duration::from_secs(8);
/// Time for which the server is observed, in addition to five round trips.
const WATCHED: Duration = Duration::from_secs(4);
/// Interval between checks of the link.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Packets below this length are acknowledgements and feedback.
const MIN_DATA: u64 = 200;
/// Maximum time until the link is idle: the deepest queue of the profiles takes a third of it.
const QUIET_LIMIT: Duration = Duration::from_secs(90);

pub(crate) async fn run(stage: &Stage<'_>) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    let mut found = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let download = stage.start(&client, Order::endless());
        stage
            .until(stage.hop().now() + SETTLE + stage.link.rtt() * 2)
            .await;
        download.progress.stop();
        found.push(watch(stage).await);
        download.stop().await?;
        stage.hop().idle(Duration::from_secs(1), QUIET_LIMIT).await;
    }
    stage.close(&client).await;
    // Sorted by time; the bytes belong to the same download.
    found.sort_unstable();
    let (stopped, wasted_bytes) = found.get(TIMES / 2).copied().unwrap_or_default();
    Ok(Outcome::Cancel(Cancelled {
        stopped_s: stopped.as_secs_f64(),
        wasted_bytes,
    }))
}

/// Returns the time for which the server continues to send data to the link, and the number of bytes.
async fn watch(stage: &Stage<'_>) -> (Duration, u64) {
    let begin = stage.hop().snapshot();
    let give_up = begin.now + WATCHED + stage.link.rtt() * 5;
    let (mut last, mut seen): (Timestamp, _) = (begin.now, begin.down.offered);
    let mut wasted = 0;
    loop {
        stage.until(stage.hop().now() + CHECK_INTERVAL).await;
        let snapshot = stage.hop().snapshot();
        let offered = snapshot.down.offered;
        let (packets, bytes) = (
            offered.packets - seen.packets,
            (offered.bytes - seen.bytes).bytes(),
        );
        if bytes > packets * MIN_DATA {
            last = snapshot.now;
            wasted = (offered.bytes - begin.down.offered.bytes).bytes();
        }
        seen = offered;
        if snapshot.now >= give_up {
            return (last - begin.now, wasted);
        }
    }
}

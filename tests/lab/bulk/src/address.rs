//! A download during which the client's address changes.
use std::time::Duration;

use longhaul_report::Series;
use longhaul_types::Timestamp;

use crate::{
    bulk::curves,
    error::TransferError,
    exchange::Order,
    experiment::DISTURBED_AT,
    measured::{AddressChanged, Outcome},
    stage::{Stage, float},
};

/// Time after which a download without new bytes has failed: twice the kernel's longest back-off by then.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Averaging time of rates; a pause that the change caused begins within it.
const AVERAGED_OVER: Duration = Duration::from_secs(5);
/// Interval between checks for arrivals.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval of the curves.
const INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(
    stage: &Stage<'_>,
    series: &mut Vec<Series>,
    errors: &mut Vec<String>,
) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    stage.hop().start_sampling(INTERVAL);
    let start = stage.hop().now();
    let download = stage.start(&client, Order::endless());
    let settled = DISTURBED_AT + Duration::from_secs(2).max(stage.link.rtt() * 3);
    stage.until(settled + AVERAGED_OVER).await;
    let progress = &download.progress;
    // Bytes that arrive in the first round trip may have been in flight before the change.
    let goes_on = stage.instant(DISTURBED_AT + stage.link.rtt() * 2 + AVERAGED_OVER);
    let give_up = DISTURBED_AT + PATIENCE;
    while progress.next_arrival(goes_on).is_none()
        && progress.ended().is_none()
        && stage.hop().now() < give_up
    {
        stage.until(stage.hop().now() + CHECK_INTERVAL).await;
    }
    let survived = progress.next_arrival(goes_on).is_some();
    let rate = |from: Timestamp| {
        let (from, to) = (stage.instant(from), stage.instant(from + AVERAGED_OVER));
        progress.received_between(from, to)
    };
    let before = rate(Timestamp::from_nanos(
        DISTURBED_AT.as_nanos() - u64::try_from(AVERAGED_OVER.as_nanos()).unwrap_or(0),
    ));
    let after = rate(settled);
    let pause = progress.longest_pause(
        stage.instant(DISTURBED_AT),
        stage.instant(DISTURBED_AT + AVERAGED_OVER),
    );
    series.extend(curves(stage, progress, start, INTERVAL));
    let mut connections_lost = u64::from(!survived);
    if let Err(error) = download.stop().await {
        connections_lost = 1;
        errors.push(error.to_string());
    }
    stage.close(&client).await;
    Ok(Outcome::AddressChange(AddressChanged {
        pause_s: pause.filter(|_| survived).map(|pause| pause.as_secs_f64()),
        regained: (before > 0).then(|| float(after) / float(before)),
        connections_lost,
    }))
}

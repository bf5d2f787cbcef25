//! Two downloads over one link.
use std::time::Duration;

use longhaul_report::Series;
use longhaul_types::Timestamp;

use crate::{
    bulk::{Window, curves},
    error::TransferError,
    exchange::Order,
    experiment::Rival,
    measure::BulkError,
    measured::{Outcome, TwoFlows},
    progress::Progress,
    stage::{Stage, float, serve},
    system::System,
};

/// Time after which the second flow starts: the first one fills the link by then. At most a twelfth of the
/// run.
const ALONE: Duration = Duration::from_secs(10);
/// Time after its start at which the share of the second flow is measured, over [`SHARE_OVER`].
const NEWCOMER: Duration = Duration::from_secs(20);
const SHARE_OVER: Duration = Duration::from_secs(5);
/// Interval of the curves.
const INTERVAL: Duration = Duration::from_millis(500);

pub(crate) async fn run(
    stage: &Stage<'_>,
    rival: Rival,
    length: Duration,
    series: &mut Vec<Series>,
) -> Result<Outcome, BulkError> {
    let first_client = stage.open_client(0).await?;
    // A separate server, kept until the end.
    let rival_server = match rival {
        Rival::Same => None,
        Rival::Cubic => Some(serve(stage.world, System::Cubic, None).await?),
    };
    let access = rival_server
        .as_ref()
        .map_or_else(|| stage.server.access(), crate::server::Server::access);
    let second_client = stage.client_of(access, 1).await?;
    stage.open(&second_client).await?;
    stage.hop().start_sampling(INTERVAL);
    let start = stage.hop().now();
    let first = stage.start(&first_client, Order::endless());
    let joins = start + ALONE.min(length / 12);
    stage.until(joins).await;
    let second = stage.start(&second_client, Order::endless());
    stage.until(start + length / 2).await;
    let window = Window::open(stage);
    let from = stage.hop().now();
    stage.until(start + length).await;
    let link = window.close(stage, &first.progress);
    let to = stage.hop().now();
    let rate = |progress: &Progress| rate(stage, progress, from, to);
    let (first_bps, second_bps) = (rate(&first.progress), rate(&second.progress));
    let newcomer = joins + NEWCOMER;
    let least = (newcomer + SHARE_OVER <= to).then(|| {
        let shares = [&first.progress, &second.progress]
            .map(|progress| self::rate(stage, progress, newcomer, newcomer + SHARE_OVER));
        part(shares[0].min(shares[1]), shares[0] + shares[1])
    });
    for (number, progress) in [&first.progress, &second.progress].into_iter().enumerate() {
        let [goodput, queue] = curves(stage, progress, start, INTERVAL);
        if number == 0 {
            series.push(queue);
        }
        series.push(Series {
            what: format!("goodput of flow {}, bit/s", number + 1),
            ..goodput
        });
    }
    let stopped = [first.stop().await, second.stop().await];
    stopped.into_iter().collect::<Result<Vec<()>, TransferError>>()?;
    stage.close(&first_client).await;
    stage.close(&second_client).await;
    let total = first_bps + second_bps;
    Ok(Outcome::TwoFlows(TwoFlows {
        first_bps,
        second_bps,
        jain: part(
            total * total,
            2.0 * (first_bps * first_bps + second_bps * second_bps),
        ),
        first_share: part(first_bps, total),
        least_share_after_joining: least,
        queue_p95_s: link.queue_p95_s,
        utilisation: link.utilisation,
    }))
}

fn rate(stage: &Stage<'_>, progress: &Progress, from: Timestamp, to: Timestamp) -> f64 {
    let received = progress.received_between(stage.instant(from), stage.instant(to));
    part(float(received) * 8.0, (to - from).as_secs_f64())
}

/// Returns a quotient, zero if the divisor is zero.
fn part(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

//! Small messages during a download.
use std::time::Duration;

use crate::{
    bulk::Window,
    client::Client,
    error::TransferError,
    exchange::Order,
    measured::{Outcome, Priority},
    stage::Stage,
};

/// Length of a message.
pub(crate) const MESSAGE: u64 = 2000;
/// Timeout of a message: four times the delay of the deepest queue of the profiles.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Number of messages on the idle link.
const ALONE: usize = 3;
/// Time after which the download has reached its rate.
const SETTLE: Duration = Duration::from_secs(5);
/// Minimum time between messages.
const MIN_SPACING: Duration = Duration::from_millis(500);
/// Maximum number of messages.
const MAX_MESSAGES: usize = 500;

pub(crate) async fn run(stage: &Stage<'_>, length: Duration) -> Result<Outcome, TransferError> {
    let client = stage.open_client(0).await?;
    let mut alone = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        alone.push(message(stage, &client).await?);
        stage.until(stage.hop().now() + MIN_SPACING).await;
    }
    alone.sort_by(f64::total_cmp);
    let download = stage.start(&client, Order::endless());
    stage
        .until(stage.hop().now() + stage.link.rtt() * 2 + SETTLE)
        .await;
    // Kernel TCP needs a second connection, which the first message opens.
    message(stage, &client).await?;
    let window = Window::open(stage);
    let end = stage.hop().now() + length;
    let mut times = Vec::new();
    while stage.hop().now() < end && times.len() < MAX_MESSAGES {
        times.push(message(stage, &client).await?);
        stage
            .until(stage.hop().now() + MIN_SPACING.max(stage.link.rtt()))
            .await;
    }
    let link = window.close(stage, &download.progress);
    download.stop().await?;
    stage.close(&client).await;
    times.sort_by(f64::total_cmp);
    Ok(Outcome::Priority(Priority {
        alone_s: percentile(&alone, 50),
        p50_s: percentile(&times, 50),
        p95_s: percentile(&times, 95),
        messages: u32::try_from(times.len()).unwrap_or(u32::MAX),
        utilisation: link.utilisation,
    }))
}

/// Returns the time from the request to the last byte.
pub(crate) async fn message(stage: &Stage<'_>, client: &Client) -> Result<f64, TransferError> {
    let progress = stage.fetch(client, Order::urgent(MESSAGE), PATIENCE).await?;
    let ended = progress.last().map(|last| last.at);
    let took = progress.asked().zip(ended).map(|(asked, ended)| ended - asked);
    Ok(took.ok_or(TransferError::TimedOut("a message"))?.as_secs_f64())
}

/// Returns the percentile by nearest rank; zero for an empty list.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_uses_the_nearest_rank() {
        let times = [1.0, 2.0, 3.0, 4.0];
        let of = |percent| percentile(&times, percent).to_bits();
        assert_eq!(of(50), 2.0_f64.to_bits());
        assert_eq!(of(95), 4.0_f64.to_bits());
        assert_eq!(percentile(&[], 95).to_bits(), 0.0_f64.to_bits());
    }
}

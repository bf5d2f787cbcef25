//! Networks that drop UDP: a download that goes on over TLS, and a session that opens over TLS.
use std::time::{Duration, Instant};

use longhaul_report::Series;
use serde::{Deserialize, Serialize};

use crate::{
    bulk::{Window, curves},
    error::TransferError,
    exchange::Order,
    experiment::DISTURBED_AT,
    longhaul::UsedCarriers,
    measured::{Bulk, Opened, Outcome, UdpDied},
    stage::Stage,
};

/// Maximum time until bytes come over TLS, or until a session is open.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Time after the first bytes over TLS from which the download is measured.
const SETTLING: Duration = Duration::from_secs(5);
/// Length of this measurement.
const MEASURED: Duration = Duration::from_secs(30);
/// Time in which a datagram that passed the block reaches the application.
const WAKING: Duration = Duration::from_millis(20);
/// Interval between checks for arrivals.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Interval of the curves.
const INTERVAL: Duration = Duration::from_millis(200);

/// What a client knows about a network that drops UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KnownNetwork {
    /// Nothing, also not the link.
    Unknown,
    /// UDP did not answer before. The link is known, too.
    Remembered,
}

/// A download during which the network begins to drop UDP.
pub(crate) async fn dies(
    stage: &Stage<'_>,
    series: &mut Vec<Series>,
    errors: &mut Vec<String>,
) -> Result<Outcome, TransferError> {
    let access = stage.server.access().over(UsedCarriers::UdpThenTls);
    let client = stage.client_of(access, 0).await?;
    stage.open(&client).await?;
    stage.hop().start_sampling(INTERVAL);
    let start = stage.hop().now();
    let download = stage.start(&client, Order::endless());
    stage.until(DISTURBED_AT).await;
    let again = stage.server.counters().retransmitted_bytes;
    stage.world.block_udp()?;
    let blocked = Instant::now();
    let first = loop {
        let first = download.progress.next_arrival(blocked + WAKING);
        if first.is_some() || blocked.elapsed() > PATIENCE || download.progress.ended().is_some() {
            break first;
        }
        stage.until(stage.hop().now() + CHECK_INTERVAL).await;
    };
    let mut over_tls = Bulk::default();
    if let Some(first) = first {
        let settled = stage.stamp(first) + SETTLING;
        stage.until(settled).await;
        let window = Window::open(stage);
        stage.until(settled + MEASURED).await;
        over_tls = window.close(stage, &download.progress);
    }
    series.extend(curves(stage, &download.progress, start, INTERVAL));
    let now = stage.server.counters().retransmitted_bytes;
    let mut connections_lost = u64::from(first.is_none());
    if let Err(error) = download.stop().await {
        connections_lost = 1;
        errors.push(error.to_string());
    }
    stage.close(&client).await;
    Ok(Outcome::UdpDied(UdpDied {
        pause_s: first.map(|first| (first - blocked).as_secs_f64()),
        over_tls,
        duplicate_bytes: now.zip(again).map(|(now, before)| now - before),
        connections_lost,
    }))
}

/// Opening a session where UDP is dropped.
pub(crate) async fn opens(stage: &Stage<'_>, network: KnownNetwork) -> Result<Outcome, TransferError> {
    stage.world.block_udp()?;
    let access = stage.server.access();
    let client = match network {
        KnownNetwork::Unknown => {
            let access = access.over(UsedCarriers::UdpThenTls);
            stage.client_knowing(access, 0, None).await?
        }
        KnownNetwork::Remembered => stage.client_of(access.over(UsedCarriers::UdpAndTls), 0).await?,
    };
    let began = Instant::now();
    stage.open(&client).await?;
    let open_s = began.elapsed().as_secs_f64();
    stage.close(&client).await;
    Ok(Outcome::Opened(Opened { open_s }))
}

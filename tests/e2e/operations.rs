//! What an operator does to a device while it downloads: quotas, names, removal and restoration, the end of the gateway, and
//! a move to another machine.
use std::{net::SocketAddr, sync::Arc, time::Duration};

use anyhow::{Context, Result, ensure};
use longhaul_tests::{
    client::{Ending, RawResponse, ask, get},
    raw_origin::RawOrigin,
};
use longhaul_types::BitRate;
use serde_json::Value;
use tokio::{
    task::JoinHandle,
    time::{Instant, interval, timeout},
};

use crate::{
    content::noise,
    operator::{devices, devices_until, operate},
    pair::{LIMIT, Link, Pair, Setup, control, status_until},
};

/// The download.
const SIZE: usize = 30_000_000;
const SEED: u64 = 67;
const FILE: &str = "http://files.test/file";
/// Rate of the hop: the download takes 15 seconds and more.
const HOP: BitRate = BitRate::kbps(16_000);
/// Bytes after which the operator acts.
const BEGUN: u64 = 2_000_000;

/// A pair, and an origin with the file.
struct Operated {
    pair: Pair,
    file: Arc<Vec<u8>>,
    _origin: RawOrigin,
}

impl Operated {
    async fn start(link: Link) -> Result<Self> {
        Self::start_with(link, "").await
    }

    /// With further lines of the gateway's configuration.
    async fn start_with(link: Link, more: &str) -> Result<Self> {
        let file = Arc::new(noise(SIZE, SEED));
        let body = Arc::clone(&file);
        let origin = RawOrigin::start(move |path| match path {
            "/file" => [head(SIZE).as_bytes(), &body].concat(),
            _ => [head(4).as_bytes(), b"page"].concat(),
        })
        .await?;
        let mut setup = Setup::resolving(&[("files.test", origin.address())]).over(link);
        setup.gateway_config = format!(
            "{more}[metrics]\nlisten = \"127.0.0.1:0\"\n{}",
            setup.gateway_config
        );
        let pair = Pair::start(setup).await?;
        Ok(Self {
            pair,
            file,
            _origin: origin,
        })
    }

    /// Begins the download, and waits until it is under way.
    async fn begin(&self) -> Result<JoinHandle<Result<RawResponse>>> {
        let before = self.device().await?["bytes_down"].as_u64().unwrap_or(0);
        let proxy = self.pair.proxy();
        let download = tokio::spawn(async move { ask(proxy, get(FILE, &[])).await });
        devices_until(self.pair.folder(), |devices| {
            devices[0]["bytes_down"].as_u64().unwrap_or(0) > before + BEGUN
        })
        .await?;
        Ok(download)
    }

    fn assert_is_file(&self, response: &RawResponse) {
        assert_eq!((response.status, response.ending), (200, Ending::Whole));
        assert!(response.body == *self.file, "the file has other bytes");
    }

    async fn operate(&self, words: &[&str]) -> Result<String> {
        operate(self.pair.folder(), words).await
    }

    /// The device of the agent, as `device list` shows it.
    async fn device(&self) -> Result<Value> {
        let devices = devices(self.pair.folder()).await?;
        devices.into_iter().next().context("a device")
    }

    async fn page(&self) -> Result<RawResponse> {
        self.pair.get("http://files.test/page").await
    }

    async fn ask_metrics(&self, path: &str) -> Result<RawResponse> {
        ask_metrics(&self.pair, path).await
    }
}

/// Asks the metrics port of the gateway.
pub(crate) async fn ask_metrics(pair: &Pair, path: &str) -> Result<RawResponse> {
    let log = pair.gateway().log().contains("metrics are served", LIMIT).await?;
    let address: SocketAddr = log
        .split("address=")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .context("an address")?
        .parse()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    ask(address, request).await
}

fn head(length: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\nContent-Length: {length}\r\n\r\n"
    )
}

#[tokio::test]
async fn a_download_ends_when_the_quota_is_reached_and_the_user_is_told_whose_and_until_when() -> Result<()> {
    let mut operated = Operated::start(Link::Paced(HOP)).await?;
    operated
        .operate(&["device", "quota", "test", "--month", "10MB"])
        .await?;
    let ended = operated.begin().await?.await??;
    assert_eq!((ended.status, ended.ending), (200, Ending::Truncated));
    let got = ended.body.len();
    println!("{got} bytes arrived of 30 MB; the quota is 10 MB");
    // On an idle machine half a second of the hop more than the quota, less headers and what was on the way.
    assert!((5_000_000..SIZE).contains(&got), "{got}");
    operated
        .pair
        .agent()
        .log()
        .contains("the monthly quota of this device is used up", LIMIT)
        .await?;
    let log = operated
        .pair
        .gateway()
        .log()
        .contains("is used up until", LIMIT)
        .await?;
    assert!(
        log.contains("the monthly quota of the device `test` (10MB)"),
        "{log}"
    );
    let device = operated.device().await?;
    assert_eq!(device["quota_reached"], true, "{device:#}");
    let until = device["month_ends"]
        .as_str()
        .context("the end of the month")?
        .to_owned();
    let refused = operated.page().await?;
    assert_eq!(refused.status, 403);
    for words in [
        "monthly quota of this device is used up",
        "`test` (10MB)",
        &until,
        "QuotaReached",
    ] {
        assert!(
            refused.text().contains(words),
            "no `{words}` in {}",
            refused.text()
        );
    }
    // The agent's user is told without asking for a page.
    let told = operated
        .pair
        .status_until(|status| status["notice"].is_string())
        .await?;
    assert!(
        told["notice"]
            .as_str()
            .is_some_and(|notice| notice.contains("10MB")),
        "{told:#}"
    );
    let metrics = operated.ask_metrics("/metrics").await?.text();
    assert!(
        metrics.contains("longhaul_failures_total{reason=\"quota_reached\"} "),
        "{metrics}"
    );

    // A restart forgets nothing.
    operated.pair.end_gateway("TERM").await?;
    operated.pair.start_gateway().await?;
    operated
        .pair
        .status_until(|status| status["state"] == "open")
        .await?;
    assert_eq!(operated.page().await?.status, 403);
    let after = operated.device().await?;
    assert!(
        after["bytes_down"].as_u64() >= device["bytes_down"].as_u64(),
        "{after:#}"
    );
    assert!(after["last_seen"].is_string());

    operated
        .operate(&["device", "quota", "test", "--month", "none"])
        .await?;
    page_until(&operated, 200).await?;
    let whole = operated.begin().await?.await??;
    operated.assert_is_file(&whole);
    Ok(())
}

/// Loads a page until it has this status: limits apply within half a second.
async fn page_until(operated: &Operated, status: u16) -> Result<()> {
    let mut looks = interval(Duration::from_millis(200));
    timeout(LIMIT, async {
        loop {
            looks.tick().await;
            if operated.page().await?.status == status {
                return Ok(());
            }
        }
    })
    .await
    .context("the page has another status")?
}

#[tokio::test]
async fn a_rate_paces_a_download_and_loses_nothing() -> Result<()> {
    // The default of the gateway applies from the beginning of a session.
    let operated = Operated::start_with(Link::Direct, "[quota]\nrate = \"60Mbit/s\"\n").await?;
    operated
        .pair
        .status_until(|status| status["state"] == "open")
        .await?;
    assert_eq!(operated.device().await?["quota_rate_bps"], 60_000_000);
    let began = Instant::now();
    let whole = operated.begin().await?.await??;
    let took = began.elapsed();
    operated.assert_is_file(&whole);
    println!("30 MB in {took:?} at 60 Mbit/s");
    // A slow machine only takes longer. The first flight is not limited.
    assert!(took >= Duration::from_millis(3800), "{took:?}");
    Ok(())
}

#[tokio::test]
async fn a_download_goes_on_while_its_device_is_renamed() -> Result<()> {
    let operated = Operated::start(Link::Paced(HOP)).await?;
    let download = operated.begin().await?;
    operated
        .operate(&["device", "rename", "test", "ann's laptop"])
        .await?;
    operated.assert_is_file(&download.await??);
    let device = operated.device().await?;
    assert_eq!(
        (&device["name"], &device["state"]),
        (&"ann's laptop".into(), &"open".into())
    );
    Ok(())
}

#[tokio::test]
async fn a_download_of_a_removed_device_waits_and_completes_when_it_is_restored() -> Result<()> {
    let operated = Operated::start(Link::Paced(HOP)).await?;
    let download = operated.begin().await?;
    operated.operate(&["device", "remove", "test"]).await?;
    let down = operated
        .pair
        .status_until(|status| status["state"] == "down")
        .await?;
    assert_eq!(down["trouble"]["kind"], "revoked", "{down:#}");
    let removed = operated.device().await?;
    assert_eq!(removed["state"], "revoked");
    assert!(
        removed["session_since"].is_null() && !download.is_finished(),
        "{removed:#}"
    );
    let refused = operated.page().await?;
    assert!(refused.text().contains("revoked"), "{}", refused.text());

    let restored = operated.operate(&["device", "restore", "test"]).await?;
    assert!(restored.starts_with("restored test ("), "{restored}");
    // A refused agent asks again within half a minute.
    operated
        .pair
        .status_until(|status| status["state"] == "open")
        .await?;
    operated.assert_is_file(&download.await??);
    let again = operated.begin().await?.await??;
    operated.assert_is_file(&again);
    Ok(())
}

#[tokio::test]
async fn a_drained_gateway_completes_a_download_refuses_others_and_ends() -> Result<()> {
    let mut operated = Operated::start(Link::Paced(HOP)).await?;
    assert_eq!(operated.ask_metrics("/readyz").await?.status, 200);
    assert_eq!(operated.ask_metrics("/healthz").await?.status, 200);
    let download = operated.begin().await?;
    let told = operated.operate(&["drain", "--limit", "5min"]).await?;
    assert!(told.contains("opens no more sessions"), "{told}");
    let ready = operated.ask_metrics("/readyz").await?;
    assert_eq!((ready.status, ready.text().as_str()), (503, "draining\n"));
    assert_eq!(operated.ask_metrics("/healthz").await?.status, 200);
    let other = operated.pair.second_agent("other").await?;
    let folder = operated.pair.folder().join("other");
    let refused = status_until(control(&folder)?, |status| {
        status["trouble"]["kind"] == "gateway_draining"
    })
    .await?;
    assert!(
        refused["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("about to end"))
    );
    let metrics = operated.ask_metrics("/metrics").await?.text();
    let counted = metrics
        .lines()
        .find_map(|line| line.strip_prefix("longhaul_sessions_refused_total{reason=\"draining\"} "));
    ensure!(counted.is_some_and(|count| count != "0"), "{metrics}");
    operated.assert_is_file(&download.await??);
    operated.pair.gateway_ends().await?;
    drop(other);
    Ok(())
}

#[tokio::test]
async fn a_backup_moves_a_gateway_and_its_agents_need_no_invite() -> Result<()> {
    let mut operated = Operated::start(Link::Paced(HOP)).await?;
    operated
        .operate(&["device", "quota", "test", "--rate", "1Gbit/s"])
        .await?;
    let download = operated.begin().await?;
    let backup = operated.pair.folder().join("backup").display().to_string();
    operated.operate(&["backup", &backup]).await?;
    operated.assert_is_file(&download.await??);
    let before = operated.device().await?;
    operated.pair.kill_gateway().await?;

    let state = operated.pair.folder().join("gateway");
    std::fs::rename(&state, operated.pair.folder().join("the old machine"))?;
    operated.operate(&["restore", &backup]).await?;
    operated.pair.start_gateway().await?;
    operated
        .pair
        .status_until(|status| status["state"] == "open")
        .await?;
    let whole = operated.begin().await?.await??;
    operated.assert_is_file(&whole);
    let after = operated.device().await?;
    for field in ["name", "id", "added", "quota_rate_bps"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert!(
        after["bytes_down"].as_u64().unwrap_or(0) > SIZE as u64 + BEGUN,
        "the counts of the old machine go on: {after:#}"
    );
    Ok(())
}

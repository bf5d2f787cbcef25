//! Reads the counters of agent and gateway from their own pages.
use std::{net::SocketAddr, time::Duration};

use http::HeaderMap;
use serde::{Deserialize, Serialize};
use url::Url;

use super::pair::Pair;
use longhaul_replay::page::{Client, FetchError, Request};

/// Time between two readings of counters that should become stable.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
/// Maximum number of readings: pushes after the end of the page load count, too, but not without limit.
const LOOKS: usize = 25;
/// Bytes that the gateway received from origins: in total, or by fetches and tunnels.
const ORIGIN_BYTES: &str = "longhaul_origin_bytes_total";
const ORIGIN_BYTES_BY_WAY: [&str; 2] = [
    "longhaul_origin_received_bytes_total",
    "longhaul_tunnel_received_bytes_total",
];

/// Counters at one moment, in bytes since start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// On the hop towards the agent, including headers of the transport.
    pub(super) down: u64,
    /// On the hop towards the gateway, including headers of the transport.
    pub(super) up: u64,
    /// From origins to the gateway.
    pub(super) origin: u64,
    /// Saved bytes, as the agent computes them.
    pub(super) savings: Savings,
}

/// Saved bytes, as in the agent's `status.json`. Negative if more crossed the hop than origins sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Savings {
    /// Bytes that origins sent, and that the agent's cache answered, less the bytes on the hop towards the agent.
    pub bytes: i64,
    /// The same by cause.
    pub by_cause: SavingsByCause,
}

/// Saved bytes by cause; their sum is [`Savings::bytes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavingsByCause {
    /// Compression of bodies.
    pub coding: i64,
    /// Deltas against bodies that the agent holds.
    pub base: i64,
    /// Smaller images.
    pub pictures: i64,
    /// Answers of the agent's cache.
    pub cache: i64,
    /// Bodies that were not sent because the agent holds them.
    pub unchanged: i64,
    /// Heads of responses, and the rest.
    pub headers: i64,
}

impl Savings {
    /// What was saved since `before`.
    pub(super) fn since(self, before: Self) -> Self {
        let (now, then) = (self.by_cause, before.by_cause);
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            by_cause: SavingsByCause {
                coding: now.coding.saturating_sub(then.coding),
                base: now.base.saturating_sub(then.base),
                pictures: now.pictures.saturating_sub(then.pictures),
                cache: now.cache.saturating_sub(then.cache),
                unchanged: now.unchanged.saturating_sub(then.unchanged),
                headers: now.headers.saturating_sub(then.headers),
            },
        }
    }
}

/// Errors of reading counters.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScrapeError {
    /// The page could not be fetched.
    #[error("cannot read {page}: {source}")]
    Fetch {
        /// URL of the page.
        page: String,
        /// Cause.
        source: FetchError,
    },
    /// The response has an error status.
    #[error("cannot read {page}: status {status}")]
    Status {
        /// URL of the page.
        page: String,
        /// Status code.
        status: u16,
    },
    /// The page lacks a number.
    #[error("{page} has no number {key}; are the programs of different versions?")]
    Number {
        /// URL of the page.
        page: String,
        /// Key of the missing number.
        key: &'static str,
    },
}

/// Reads all counters.
pub(super) async fn counters(pair: &Pair, client: &Client) -> Result<Counters, ScrapeError> {
    let (page, status) = get(client, pair.control(), "status.json").await?;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
    let number = |key: &'static str| {
        let value = status.get(key).and_then(serde_json::Value::as_u64);
        value.ok_or_else(|| ScrapeError::Number {
            page: page.clone(),
            key,
        })
    };
    let (down, up) = (number("bytes_down")?, number("bytes_up")?);
    let savings = status.get("savings").cloned().unwrap_or_default();
    let savings = serde_json::from_value(savings).map_err(|_| ScrapeError::Number {
        page: page.clone(),
        key: "savings",
    })?;
    let (page, metrics) = get(client, pair.metrics(), "metrics").await?;
    let origin = origin_bytes(&metrics).ok_or(ScrapeError::Number {
        page,
        key: ORIGIN_BYTES,
    })?;
    Ok(Counters {
        down,
        up,
        origin,
        savings,
    })
}

/// Reads the counters once they are stable: acknowledgements and pushes end shortly after the page.
pub(super) async fn resting_counters(pair: &Pair, client: &Client) -> Result<Counters, ScrapeError> {
    let mut last = counters(pair, client).await?;
    for _ in 0..LOOKS {
        tokio::time::sleep(LOOK_AGAIN).await;
        let now = counters(pair, client).await?;
        if now == last {
            break;
        }
        last = now;
    }
    Ok(last)
}

async fn get(client: &Client, address: SocketAddr, path: &str) -> Result<(String, String), ScrapeError> {
    let page = format!("http://{address}/{path}");
    let fail = |source| ScrapeError::Fetch {
        page: page.clone(),
        source,
    };
    let request = Request {
        url: Url::parse(&page).map_err(|_| fail(FetchError::Url))?,
        headers: HeaderMap::new(),
    };
    let response = client.get(&request).await.map_err(fail)?;
    if !response.status.is_success() {
        let status = response.status.as_u16();
        return Err(ScrapeError::Status { page, status });
    }
    let text = String::from_utf8_lossy(&response.body).into_owned();
    Ok((page, text))
}

fn origin_bytes(text: &str) -> Option<u64> {
    metric(text, ORIGIN_BYTES).or_else(|| {
        let [fetched, tunnelled] = ORIGIN_BYTES_BY_WAY.map(|name| metric(text, name));
        Some(fetched? + tunnelled?)
    })
}

/// Returns the sum of a metric over its labels (Prometheus text format).
fn metric(text: &str, name: &str) -> Option<u64> {
    let mut sum = None;
    for line in text.lines() {
        let Some(rest) = line.strip_prefix(name) else {
            continue;
        };
        let value = match rest.strip_prefix('{') {
            Some(labelled) => labelled.rsplit_once('}').map(|(_, value)| value),
            None => rest.starts_with(' ').then_some(rest),
        };
        let value = value.and_then(|value| value.split_ascii_whitespace().next()?.parse::<f64>().ok());
        if let Some(value) = value.filter(|value| value.is_finite() && *value >= 0.0) {
            sum = Some(sum.unwrap_or(0) + whole(value));
        }
    }
    sum
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a counter of bytes, finite and not negative; the cast saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_summed_over_labels() {
        let text = "# HELP longhaul_origin_bytes_total x\n# TYPE longhaul_origin_bytes_total counter\n\
            longhaul_origin_bytes_total{kind=\"page\"} 100\nlonghaul_origin_bytes_total{kind=\"a b}\"} 2.5e3 1700000000\n\
            longhaul_origin_bytes_total_other 7\nother 9\n";
        assert_eq!(metric(text, ORIGIN_BYTES), Some(2600));
        assert_eq!(metric("longhaul_origin_bytes_total 42\n", ORIGIN_BYTES), Some(42));
        assert_eq!(metric("nothing 1\n", ORIGIN_BYTES), None);
        let by_way = "longhaul_origin_received_bytes_total 5\nlonghaul_tunnel_received_bytes_total 7\n";
        assert_eq!(origin_bytes(by_way), Some(12));
    }
}

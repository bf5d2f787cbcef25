//! Sizes of responses on the hop, without what depends on time and load: acknowledgements, retransmissions, the
//! splitting into packets, and the effort of compression.
use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use longhaul_tests::client::ask;
use serde_json::Value;

use crate::pair::{LIMIT, Pair};

/// Lines of the gateway's configuration file for [`HopBytes::of`].
pub(crate) const METRICS: &str = "\n[metrics]\nlisten = '127.0.0.1:0'\n";
/// Maximum number of runs of each attack until the sizes after all of them are equal. One suffices on an idle machine.
const MAX_RUNS: usize = 20;

/// Responses whose sizes are compared.
const RESPONSES: u64 = 2;
/// A head has the hash of its body if the body was complete when the head was sent.
const HASH: u64 = 32;
/// The date of a head, if it differs from the one before.
const DATE: u64 = 10;

/// Encoded bodies by coder, and those with a dictionary. The gateway chooses the coder by the rate of the link as
/// the agent measures it, which on a busy machine varies.
pub(crate) type Effort = BTreeMap<String, u64>;

/// Bytes of responses on the hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HopBytes {
    /// Heads and manifests.
    heads: u64,
    /// Bodies as they are encoded.
    bodies: u64,
    /// What the bodies were encoded with.
    effort: Effort,
}

impl HopBytes {
    /// Waits until the gateway has reported responses with so many bytes of bodies from origins, and returns
    /// what they took on the hop since the programs started.
    ///
    /// A report may come in the middle of a response. The last response that `origin` contains must therefore
    /// be a small one that was requested after all others were complete.
    pub(crate) async fn of(pair: &Pair, origin: usize) -> Result<Self> {
        let origin = u64::try_from(origin)?;
        let status = pair
            .status_until(|status| bodies(status, "origin") >= origin)
            .await?;
        let mut effort = coders(pair).await?;
        effort.insert("dictionary".to_owned(), number(&status["dictionaries_used"]));
        Ok(Self {
            heads: number(&status["savings"]["flows"]["heads"]["hop"]),
            bodies: bodies(&status, "hop"),
            effort,
        })
    }

    /// The bytes since `before`.
    pub(crate) fn since(self, before: &Self) -> Self {
        let counts = self.effort.into_iter().map(|(coder, count)| {
            let earlier = before.effort.get(&coder).copied().unwrap_or(0);
            (coder, count - earlier)
        });
        Self {
            heads: self.heads - before.heads,
            bodies: self.bodies - before.bodies,
            effort: counts.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// The step of padding of a body that may be personal and takes more than 4 KiB (docs/protocol/body.md section 2).
const PADDING_STEP: u64 = 512;

/// Asserts that the same response has the same size after each attack. `measure` runs an attack with new
/// programs and returns the size of the response. Sizes are compared between runs with the same effort, to the
/// byte but for the padding, which depends on the session. A body that an origin sends in pieces, as on a busy machine,
/// takes some bytes more: attacks are run until the smallest sizes after all of them are equal.
pub(crate) async fn assert_equal_sizes(
    attacks: &[&str],
    measure: impl AsyncFn(&str) -> Result<HopBytes>,
) -> Result<()> {
    let mut runs: BTreeMap<Effort, BTreeMap<usize, Vec<HopBytes>>> = BTreeMap::new();
    for _ in 0..MAX_RUNS {
        for (number, attack) in attacks.iter().enumerate() {
            let size = measure(attack).await?;
            println!("attack {number}: {size:?}");
            let of_effort = runs.entry(size.effort.clone()).or_default();
            of_effort.entry(number).or_default().push(size);
            if of_effort.len() == attacks.len() && are_equal(of_effort) {
                return Ok(());
            }
        }
    }
    anyhow::bail!("the sizes differ, or no effort was the same after all attacks: {runs:?}")
}

fn are_equal(runs: &BTreeMap<usize, Vec<HopBytes>>) -> bool {
    let smallest = |size: fn(&HopBytes) -> u64| -> Vec<u64> {
        let of_attack = runs.values().filter_map(|runs| runs.iter().map(size).min());
        of_attack.collect()
    };
    let is_close = |sizes: Vec<u64>, is_explained: fn(u64) -> bool| {
        let least = sizes.iter().min().copied().unwrap_or_default();
        least > 0 && sizes.iter().all(|size| is_explained(size - least))
    };
    let is_padding = |difference| [0, PADDING_STEP].contains(&difference);
    is_close(smallest(|size| size.bodies), is_padding) && is_close(smallest(|size| size.heads), is_explained)
}

/// Returns true if heads may differ by so many bytes between two runs. Nothing else in a head depends on time.
fn is_explained(difference: u64) -> bool {
    (0..=RESPONSES).any(|hashes| difference.abs_diff(hashes * HASH) <= RESPONSES * DATE)
}

/// Encoded bodies by coder, from the gateway's metrics.
async fn coders(pair: &Pair) -> Result<Effort> {
    let log = pair.gateway().log().contains("metrics are served", LIMIT).await?;
    let line = log.lines().find(|line| line.contains("metrics are served"));
    let (_, address) = line
        .and_then(|line| line.split_once("address="))
        .context("an address")?;
    let address = address.split_whitespace().next().context("an address")?.parse()?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let metrics = ask(address, request).await?.text();
    let series = metrics.lines().filter_map(|line| {
        line.strip_prefix("longhaul_codings_total{coder=\"")?
            .split_once("\"} ")
    });
    series
        .map(|(coder, count)| Ok((coder.to_owned(), count.parse()?)))
        .collect()
}

/// Bytes of all bodies on one side of the gateway.
fn bodies(status: &Value, side: &str) -> u64 {
    let causes = ["coding", "base", "pictures", "unchanged"];
    let flows = causes.map(|cause| number(&status["savings"]["flows"][cause][side]));
    flows.iter().sum()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

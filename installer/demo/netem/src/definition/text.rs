//! Output of a link as TOML.
use std::{fmt::Write as _, time::Duration};

use longhaul_types::{BitRate, ByteCount, Timestamp};

use crate::{Capacity, LinkConfig, Loss, Probability, WhileOut};

use super::LinkDefinition;

/// A link that cannot be written as TOML.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a link from a trace cannot be written as TOML: define it with the path of its trace")]
pub struct NotExpressible;

impl LinkDefinition {
    /// Returns the link as TOML that [`parse_links`](super::parse_links) reads, with every key written out: a
    /// template for users' own links.
    ///
    /// # Errors
    /// The link is from a trace, and its path is not known.
    pub fn to_toml(&self) -> Result<String, NotExpressible> {
        let mut text = format!("[link.\"{}\"]\n", self.name);
        let (down, up) = (keys(&self.hop.down)?, keys(&self.hop.up)?);
        for ((key, down), (_, up)) in down.iter().zip(&up) {
            let line = match (down, up) {
                (None, None) => continue,
                (Some(down), Some(up)) if down == up => format!("{key} = {down}"),
                (Some(down), None) => format!("{key} = {{ down = {down} }}"),
                (None, Some(up)) => format!("{key} = {{ up = {up} }}"),
                (Some(down), Some(up)) => format!("{key} = {{ down = {down}, up = {up} }}"),
            };
            let _ = writeln!(text, "{line}");
        }
        let changes: Vec<_> = self.hop.address_changes.times().map(since_start).collect();
        if !changes.is_empty() {
            let _ = writeln!(text, "address-changes = [{}]", changes.join(", "));
        }
        Ok(text)
    }
}

/// Returns the keys of a direction in the order of output, with the values of those that are not at their
/// default.
fn keys(link: &LinkConfig) -> Result<Vec<(&'static str, Option<String>)>, NotExpressible> {
    let Capacity::Rate(rate) = link.capacity else {
        return Err(NotExpressible);
    };
    let share = |share: Probability| (share != Probability::ZERO).then(|| number(share));
    let arq = link.arq.map(|arq| {
        format!(
            "{{ frame-loss = {}, frame-size = {}, repair-delay = {}, max-transmissions = {} }}",
            number(arq.frame_loss),
            size(arq.frame_size),
            time(arq.repair_delay),
            arq.max_transmissions
        )
    });
    let codel = link.codel.map(|codel| {
        let (target, interval) = (time(codel.target), time(codel.interval));
        format!("{{ target = {target}, interval = {interval} }}")
    });
    let policer = link.policer.map(|policer| {
        let (rate, burst) = (bit_rate(policer.rate), size(policer.burst));
        format!("{{ rate = {rate}, burst = {burst} }}")
    });
    let reordering = link.reordering.map(|reordering| {
        format!(
            "{{ share = {}, extra-delay = {}, max-distance = {} }}",
            number(reordering.share),
            time(reordering.extra_delay),
            reordering.max_distance
        )
    });
    Ok(vec![
        ("rate", Some(bit_rate(rate))),
        ("delay", Some(time(link.delay))),
        ("jitter", (!link.jitter.is_zero()).then(|| time(link.jitter))),
        ("queue", Some(size(link.queue))),
        ("mtu", link.mtu.map(size)),
        ("loss", loss(link.loss)),
        ("arq", arq),
        ("codel", codel),
        ("policer", policer),
        ("reordering", reordering),
        ("duplication", share(link.duplication)),
        ("corruption", share(link.corruption)),
        ("outages", outages(link)),
    ])
}

fn loss(loss: Loss) -> Option<String> {
    match loss {
        Loss::Never => None,
        Loss::Random(probability) => Some(number(probability)),
        Loss::Bursts(model) => Some(format!(
            "{{ p-good-bad = {}, p-bad-good = {}, loss-good = {}, loss-bad = {} }}",
            number(model.p_gb),
            number(model.p_bg),
            number(model.loss_good),
            number(model.loss_bad)
        )),
    }
}

fn outages(link: &LinkConfig) -> Option<String> {
    let outages: Vec<_> = link
        .outages
        .outages()
        .map(|outage| {
            let (start, length) = (since_start(outage.start), time(outage.length));
            let behaviour = match outage.behaviour {
                WhileOut::Hold => "hold",
                WhileOut::Drop => "drop",
            };
            format!("{{ start = {start}, length = {length}, behaviour = \"{behaviour}\" }}")
        })
        .collect();
    (!outages.is_empty()).then(|| format!("[{}]", outages.join(", ")))
}

/// Returns the shortest decimal that parses to the same number.
fn number(probability: Probability) -> String {
    format!("{:?}", probability.value())
}

fn bit_rate(rate: BitRate) -> String {
    match rate.as_bps() {
        bps if bps % 1_000_000 == 0 => format!("\"{} Mbit/s\"", bps / 1_000_000),
        bps if bps % 1000 == 0 => format!("\"{} kbit/s\"", bps / 1000),
        bps if bps % 100 == 0 => format!("\"{}.{} kbit/s\"", bps / 1000, bps % 1000 / 100),
        bps => format!("\"{bps} bit/s\""),
    }
}

fn size(amount: ByteCount) -> String {
    match amount.bytes() {
        bytes if bytes > 0 && bytes % 1000 == 0 => format!("\"{} kB\"", bytes / 1000),
        bytes => format!("\"{bytes} B\""),
    }
}

fn since_start(at: Timestamp) -> String {
    time(at - Timestamp::ZERO)
}

fn time(time: Duration) -> String {
    match time.as_nanos() {
        nanos if nanos % 1_000_000_000 == 0 => format!("\"{} s\"", nanos / 1_000_000_000),
        nanos if nanos % 1_000_000 == 0 => format!("\"{} ms\"", nanos / 1_000_000),
        nanos => format!("\"{}.{:03} us\"", nanos / 1000, nanos % 1000),
    }
}

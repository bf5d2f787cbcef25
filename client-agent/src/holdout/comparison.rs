//! Which visit goes which way, and what the times say. Pure.
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::link_class::LinkClass;

/// One visit in this many goes the other way: 2 %.
const ONE_IN: u32 = 50;
/// Maximum number of links: kinds of networks that a laptop meets.
const MAX_LINKS: usize = 32;
/// Maximum number of hosts of a link; those that were visited last are kept.
const MAX_HOSTS: usize = 512;
/// Times that are kept of a host and way: enough for a median that one outlier does not move.
const MAX_TIMES: usize = 9;
/// Comparisons that are kept of a link.
const MAX_RATIOS: usize = 64;
/// Comparisons that a verdict needs.
const ENOUGH: usize = 8;
/// Longhaul loses if its median is slower than direct connections by this factor ...
const LOSES: f64 = 1.05;
/// ... in at least this share of the comparisons.
const MOSTLY: f64 = 0.75;
/// Longhaul no longer loses if its median of the last comparisons is at most this.
const EVEN: f64 = 1.0;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Tunnels: the time from the request to the host's first bytes.
    Tunnel,
    /// Pages that the agent reads: the time from the navigation to the end of the last response before a pause of a
    /// second.
    Page,
}

impl Kind {
    /// The name in status and log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tunnel => "tunnels",
            Self::Page => "pages",
        }
    }
}

/// Way of a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Gateway,
    Direct,
}

/// Consequence of a new time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Unchanged,
    /// Visits go direct from now on.
    Bypass,
    /// Visits go through the gateway again.
    Return,
}

/// What the comparisons of a link say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regression {
    /// Visits on this link.
    pub visits: u64,
    /// Visits that went the other way than most.
    pub held_out: u64,
    /// Number of comparisons.
    pub comparisons: usize,
    /// Share of the comparisons in which Longhaul was slower by more than 5 %; the regression rate.
    pub slower: Option<f64>,
    /// Time through Longhaul by direct time: median.
    pub median: Option<f64>,
    /// The same ratio: 95th percentile.
    pub p95: Option<f64>,
    /// True if visits go direct because Longhaul is slower.
    pub is_bypassed: bool,
}

/// All comparisons, by link and kind.
#[derive(Debug, Default)]
pub(super) struct Comparisons(BTreeMap<(LinkClass, Kind), OfLink>);

#[derive(Debug, Default)]
struct OfLink {
    visits: u64,
    held_out: u64,
    /// Visits since the last one that went the other way, of those that could have.
    since: u32,
    is_bypassed: bool,
    hosts: BTreeMap<u64, OfHost>,
    /// Logarithms of the ratios, oldest first.
    ratios: VecDeque<f64>,
    /// Number of the last visit of this link, in all visits.
    used: u64,
}

#[derive(Debug, Default)]
struct OfHost {
    gateway: VecDeque<f64>,
    direct: VecDeque<f64>,
    used: u64,
}

impl Comparisons {
    /// Chooses the way of a visit. `may_go_direct` is false where a direct connection is excluded.
    pub(super) fn choose(&mut self, kind: Kind, link: LinkClass, may_go_direct: bool) -> Way {
        let newest = self.0.values().map(|of_link| of_link.used).max().unwrap_or(0);
        self.make_room((link, kind));
        let of_link = self.0.entry((link, kind)).or_default();
        of_link.used = newest + 1;
        of_link.visits += 1;
        if !may_go_direct {
            return Way::Gateway;
        }
        of_link.since += 1;
        let is_held_out = of_link.since >= ONE_IN;
        if is_held_out {
            of_link.since = 0;
            of_link.held_out += 1;
        }
        if is_held_out == of_link.is_bypassed {
            Way::Gateway
        } else {
            Way::Direct
        }
    }

    /// Records the time of a visit.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        link: LinkClass,
        host: u64,
        way: Way,
        time: Duration,
    ) -> Verdict {
        let Some(of_link) = self.0.get_mut(&(link, kind)) else {
            return Verdict::Unchanged;
        };
        let seconds = time.as_secs_f64().max(1e-4);
        let ratio = of_link.add(host, way, seconds);
        let Some(ratio) = ratio else {
            return Verdict::Unchanged;
        };
        push(&mut of_link.ratios, ratio.ln(), MAX_RATIOS);
        of_link.judge()
    }

    /// What the comparisons say.
    pub(super) fn regression(&self, kind: Kind, link: LinkClass) -> Regression {
        self.0
            .get(&(link, kind))
            .map(OfLink::regression)
            .unwrap_or_default()
    }

    /// Removes the link that was used the longest time ago, if there is no room for another one.
    fn make_room(&mut self, link: (LinkClass, Kind)) {
        if self.0.len() < MAX_LINKS || self.0.contains_key(&link) {
            return;
        }
        let oldest = self.0.iter().min_by_key(|(_, of_link)| of_link.used);
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.0.remove(&oldest);
        }
    }
}

impl OfLink {
    /// Adds the time of a host. Returns the ratio of Longhaul's time to the direct one, if the visit went the other way
    /// than most and the host has times of the usual way.
    fn add(&mut self, host: u64, way: Way, seconds: f64) -> Option<f64> {
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(&host) {
            let oldest = self.hosts.iter().min_by_key(|(_, of_host)| of_host.used);
            if let Some(oldest) = oldest.map(|(host, _)| *host) {
                self.hosts.remove(&oldest);
            }
        }
        let of_host = self.hosts.entry(host).or_default();
        of_host.used = self.visits;
        let (own, other) = match way {
            Way::Gateway => (&mut of_host.gateway, &of_host.direct),
            Way::Direct => (&mut of_host.direct, &of_host.gateway),
        };
        push(own, seconds, MAX_TIMES);
        let is_held_out = (way == Way::Direct) != self.is_bypassed;
        let usual = quantile(other, 0.5).filter(|_| is_held_out)?;
        Some(match way {
            Way::Gateway => seconds / usual,
            Way::Direct => usual / seconds,
        })
    }

    fn judge(&mut self) -> Verdict {
        let last: VecDeque<f64> = self.ratios.iter().rev().take(ENOUGH).copied().collect();
        if last.len() < ENOUGH {
            return Verdict::Unchanged;
        }
        let slower = share(&last, LOSES);
        let Some(median) = quantile(&last, 0.5) else {
            return Verdict::Unchanged;
        };
        if !self.is_bypassed && median > LOSES.ln() && slower >= MOSTLY {
            self.is_bypassed = true;
        } else if self.is_bypassed && median <= EVEN.ln() {
            self.is_bypassed = false;
        } else {
            return Verdict::Unchanged;
        }
        // What follows is compared the other way round: old comparisons would end the change at once.
        self.ratios.clear();
        if self.is_bypassed {
            Verdict::Bypass
        } else {
            Verdict::Return
        }
    }

    fn regression(&self) -> Regression {
        let of = |part| quantile(&self.ratios, part).map(f64::exp);
        Regression {
            visits: self.visits,
            held_out: self.held_out,
            comparisons: self.ratios.len(),
            slower: (!self.ratios.is_empty()).then(|| share(&self.ratios, LOSES)),
            median: of(0.5),
            p95: of(0.95),
            is_bypassed: self.is_bypassed,
        }
    }
}

/// Share of the ratios above a factor.
fn share(ratios: &VecDeque<f64>, factor: f64) -> f64 {
    let above = ratios.iter().filter(|ratio| **ratio > factor.ln()).count();
    #[expect(clippy::cast_precision_loss, reason = "at most 64 ratios")]
    let share = above as f64 / ratios.len().max(1) as f64;
    share
}

/// The value below which a part of the values lies.
fn quantile(values: &VecDeque<f64>, part: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the index of at most 64 values"
    )]
    let index = ((sorted.len().checked_sub(1)? as f64) * part).round() as usize;
    sorted.get(index).copied()
}

fn push(values: &mut VecDeque<f64>, value: f64, most: usize) {
    if values.len() >= most {
        values.pop_front();
    }
    values.push_back(value);
}

//! Which visit goes which way, and what the times say. Pure.
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use super::record::{Link, LinkRecord, MAX_RATIOS, Records};

/// One visit in this many goes the other way: 2 %.
const ONE_IN: u32 = 50;
/// Maximum number of links, by network, class and kind of visits; those that were used last are kept.
pub(super) const MAX_LINKS: usize = 64;
/// Maximum number of hosts of a link; those that were visited last are kept.
const MAX_HOSTS: usize = 512;
/// Times that are kept of a host and way: enough for a median that one outlier does not move.
const MAX_TIMES: usize = 9;
/// Comparisons that a verdict is about: the last ones, and none that an earlier verdict was about.
const JUDGED: usize = 8;
/// Longhaul is slower in a comparison if it takes longer than a direct connection by this factor.
const LOSES: f64 = 1.05;
/// Longhaul loses if it is slower in so many of the judged comparisons: then it is slower in the median, too.
const LOST: usize = 6;
/// Longhaul is not slower in a comparison if its time is at most this part of the direct one.
const EVEN: f64 = 1.0;
/// Longhaul no longer loses if it is not slower in so many of the judged comparisons: then the median is even.
const REGAINED: usize = 5;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Tunnels: the time from the request to the host's first bytes.
    Tunnel,
    /// Pages that the agent reads: the time from the navigation to the end of the last response before a pause of a
    /// second or the next navigation.
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

/// Part of a visit in the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A direct connection was excluded: the time is not comparable.
    Excluded,
    /// It went the way of most visits.
    Usual,
    /// It went the other way.
    HeldOut,
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
pub(super) struct Comparisons(BTreeMap<(Link, Kind), OfLink>);

#[derive(Debug, Default)]
struct OfLink {
    record: LinkRecord,
    /// Visits since the last one that went the other way, of those that could have. Begins anew with the agent, so that
    /// no restart makes hold-outs more frequent.
    since: u32,
    hosts: BTreeMap<u64, OfHost>,
}

#[derive(Debug, Default)]
struct OfHost {
    gateway: VecDeque<f64>,
    direct: VecDeque<f64>,
    /// Visits that could have gone either way, and those that went the other way.
    visits: u32,
    held_out: u32,
    /// Number of the last visit, in the visits of the link.
    used: u64,
}

impl Comparisons {
    /// Chooses the way of a visit of a host at a time in seconds since 1970. `may_go_direct` is false where a direct connection is excluded. Of a link's
    /// visits at most 2 % are held out, and of a host's at most 2 % and one.
    pub(super) fn choose(
        &mut self,
        kind: Kind,
        link: Link,
        host: u64,
        may_go_direct: bool,
        now: u64,
    ) -> (Way, Role) {
        self.make_room((link, kind));
        let of_link = self.0.entry((link, kind)).or_default();
        of_link.record.last_visit = now;
        of_link.record.visits = of_link.record.visits.saturating_add(1);
        if !may_go_direct {
            return (Way::Gateway, Role::Excluded);
        }
        of_link.since = of_link.since.saturating_add(1);
        let is_held_out = of_link.since >= ONE_IN && of_link.may_hold_out(host);
        if is_held_out {
            of_link.since = 0;
            of_link.record.held_out = of_link.record.held_out.saturating_add(1);
        }
        let of_host = of_link.host(host);
        of_host.visits = of_host.visits.saturating_add(1);
        of_host.held_out += u32::from(is_held_out);
        let way = if is_held_out == of_link.record.is_bypassed {
            Way::Gateway
        } else {
            Way::Direct
        };
        (way, if is_held_out { Role::HeldOut } else { Role::Usual })
    }

    /// Records the time of a visit.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        link: Link,
        host: u64,
        (way, role): (Way, Role),
        time: Duration,
    ) -> Verdict {
        if role == Role::Excluded {
            return Verdict::Unchanged;
        }
        let Some(of_link) = self.0.get_mut(&(link, kind)) else {
            return Verdict::Unchanged;
        };
        let seconds = time.as_secs_f64().max(1e-4);
        let ratio = of_link.add(host, way, role, seconds);
        let Some(ratio) = ratio else {
            return Verdict::Unchanged;
        };
        push(&mut of_link.record.ratios, ratio.ln(), MAX_RATIOS);
        of_link.record.fresh = of_link.record.fresh.saturating_add(1);
        of_link.record.judge()
    }

    /// What the comparisons say.
    pub(super) fn regression(&self, kind: Kind, link: Link) -> Regression {
        self.0
            .get(&(link, kind))
            .map(|of_link| of_link.record.regression())
            .unwrap_or_default()
    }

    /// The records of earlier runs, as far as they are recent.
    pub(super) fn of_records(records: Records, now: u64) -> Self {
        let recent = records.into_iter().filter(|(_, record)| record.is_recent(now));
        let links = recent.map(|(key, record)| {
            let of_link = OfLink {
                record,
                ..OfLink::default()
            };
            (key, of_link)
        });
        Self(links.collect())
    }

    /// What lasts: the recent records of links with comparisons.
    pub(super) fn records(&self, now: u64) -> Records {
        let links = self.0.iter().map(|(key, of_link)| (*key, &of_link.record));
        links
            .filter(|(_, record)| !record.ratios.is_empty() && record.is_recent(now))
            .map(|(key, record)| (key, record.clone()))
            .collect()
    }

    /// Forgets the times of all hosts.
    pub(super) fn forget_hosts(&mut self) {
        self.0.values_mut().for_each(|of_link| of_link.hosts.clear());
    }

    /// Removes the link that was used the longest time ago, if there is no room for another one; first of those without
    /// comparisons.
    fn make_room(&mut self, link: (Link, Kind)) {
        if self.0.len() < MAX_LINKS || self.0.contains_key(&link) {
            return;
        }
        let oldest = self.0.iter().min_by_key(|(_, of_link)| {
            let record = &of_link.record;
            (!record.ratios.is_empty(), record.last_visit, record.visits)
        });
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.0.remove(&oldest);
        }
    }
}

impl OfLink {
    /// True if a visit of the host may be held out: it has times of the usual way, and not more than its share.
    fn may_hold_out(&self, host: u64) -> bool {
        self.hosts.get(&host).is_some_and(|of_host| {
            let usual = if self.record.is_bypassed {
                &of_host.direct
            } else {
                &of_host.gateway
            };
            !usual.is_empty() && of_host.held_out.saturating_mul(ONE_IN) <= of_host.visits
        })
    }

    /// The data of a host; the host that was visited the longest time ago makes room.
    fn host(&mut self, host: u64) -> &mut OfHost {
        if self.hosts.len() >= MAX_HOSTS && !self.hosts.contains_key(&host) {
            let oldest = self.hosts.iter().min_by_key(|(_, of_host)| of_host.used);
            if let Some(oldest) = oldest.map(|(host, _)| *host) {
                self.hosts.remove(&oldest);
            }
        }
        let of_host = self.hosts.entry(host).or_default();
        of_host.used = self.record.visits;
        of_host
    }

    /// Adds the time of a host. Returns the ratio of Longhaul's time to the direct one, if the visit was held out and the
    /// host has times of the usual way.
    fn add(&mut self, host: u64, way: Way, role: Role, seconds: f64) -> Option<f64> {
        let of_host = self.host(host);
        let (own, other) = match way {
            Way::Gateway => (&mut of_host.gateway, &of_host.direct),
            Way::Direct => (&mut of_host.direct, &of_host.gateway),
        };
        push(own, seconds, MAX_TIMES);
        let usual = quantile(other, 0.5).filter(|_| role == Role::HeldOut)?;
        Some(match way {
            Way::Gateway => seconds / usual,
            Way::Direct => usual / seconds,
        })
    }
}

impl LinkRecord {
    /// Judges the last comparisons. A verdict that the missing ones cannot change does not wait for them: it is the same
    /// as later, with the same errors.
    fn judge(&mut self) -> Verdict {
        let judged = || self.ratios.iter().rev().take(JUDGED.min(self.fresh));
        let slower = judged().filter(|ratio| **ratio > LOSES.ln()).count();
        let even = judged().filter(|ratio| **ratio <= EVEN.ln()).count();
        let changes = if self.is_bypassed {
            even >= REGAINED
        } else {
            slower >= LOST
        };
        if !changes {
            return Verdict::Unchanged;
        }
        self.is_bypassed = !self.is_bypassed;
        // Old comparisons would end the change at once.
        self.fresh = 0;
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

//! What the comparisons of a link have found, without hosts: the part of them that lasts.
use std::collections::{BTreeMap, VecDeque};

use super::{comparison::Kind, link_class::LinkClass};
use crate::networks::NetworkId;

/// Comparisons that are kept of a link.
pub(super) const MAX_RATIOS: usize = 64;
/// Time in seconds after which the record of a link that nobody used is dropped: as long as networks are remembered.
const LIFETIME: u64 = 30 * 24 * 3600;

/// A link: its network, if it has an identity, and its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) network: Option<NetworkId>,
    pub(super) class: LinkClass,
}

/// Records by link and kind.
pub(super) type Records = BTreeMap<(Link, Kind), LinkRecord>;

/// What is known about a kind of visits on a link.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LinkRecord {
    /// Time of the last visit, in seconds since 1970.
    pub(super) last_visit: u64,
    pub(super) visits: u64,
    pub(super) held_out: u64,
    pub(super) is_bypassed: bool,
    /// Number of ratios since the last verdict: older ones do not count for the next.
    pub(super) fresh: usize,
    /// Logarithms of Longhaul's time by the direct one, oldest first.
    pub(super) ratios: VecDeque<f64>,
}

impl LinkRecord {
    /// True if the link was used within the last month.
    pub(super) const fn is_recent(&self, now: u64) -> bool {
        now.saturating_sub(self.last_visit) < LIFETIME
    }
}

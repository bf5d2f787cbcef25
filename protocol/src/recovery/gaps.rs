//! The receiver's list of gaps, and the rules by which missing packets are declared lost (transport.md
//! section 5.2).
use std::{collections::VecDeque, ops::Range, time::Duration};

use longhaul_types::Timestamp;

use crate::wire::{GapKind, Gaps};

/// Initial reordering tolerance in later packets (RFC 9002 section 6.1.1).
const INITIAL_TOLERANCE: u64 = 3;
/// Maximum reordering tolerance in later packets.
const MAX_TOLERANCE: u64 = 64;
/// Number of packets in order after which the tolerance decreases by one (the rule of SRT).
const IN_ORDER_TO_SHRINK: u64 = 50;
/// Maximum number of gaps (48 bytes each). A packet that would open one more is dropped and counts as lost.
/// FORWARD frees space, because feedback reports the oldest gaps first.
const MAX_GAPS_KEPT: usize = 4096;

/// Maximum reordering delay after an IDLE packet, unless longer reordering was observed: the reordering of
/// radio link schedulers.
const END_DELAY: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Gap {
    range: Range<u64>,
    /// Arrival time of the packet after the gap.
    since: Timestamp,
    /// Packets received before the gap opened.
    received_before: u64,
    declared: bool,
    reported: bool,
}

/// Classification of an arriving packet number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The next number in order.
    InOrder,
    /// A number that opened a gap.
    OpenedGap,
    /// A number within a pending gap.
    Late,
    /// A number that had been declared lost.
    Spurious,
    /// A number below the floor, or received before.
    Old,
    /// The list is full: the packet must be dropped.
    Refused,
}

/// Missing packet numbers of one direction, and the observed reordering.
#[derive(Clone, Debug)]
pub struct GapList {
    gaps: VecDeque<Gap>,
    largest: Option<u64>,
    received: u64,
    /// Number of declared gaps. Declared gaps form a prefix, because both conditions grow with age.
    declared: usize,
    tolerance: u64,
    in_order: u64,
    /// Longest observed reordering delay, decaying.
    reorder_delay: Duration,
    decayed_at: Timestamp,
    /// Time before which nothing is declared lost, after a silence.
    patience: Timestamp,
    /// True if the newest packet is an IDLE packet, so that no later packet reveals a loss.
    ended: bool,
    lost_total: u64,
    spurious_total: u64,
}

impl Default for GapList {
    fn default() -> Self {
        Self {
            gaps: VecDeque::new(),
            largest: None,
            received: 0,
            declared: 0,
            tolerance: INITIAL_TOLERANCE,
            in_order: 0,
            reorder_delay: Duration::ZERO,
            decayed_at: Timestamp::ZERO,
            patience: Timestamp::ZERO,
            ended: false,
            lost_total: 0,
            spurious_total: 0,
        }
    }
}

impl GapList {
    /// Records the arrival of packet number `pn`.
    pub fn on_packet(&mut self, now: Timestamp, pn: u64) -> Arrival {
        let expected = self.largest.map_or(0, |largest| largest + 1);
        if pn >= expected {
            if pn > expected && self.gaps.len() >= MAX_GAPS_KEPT {
                return Arrival::Refused;
            }
            self.received += 1;
            self.largest = Some(pn);
            if pn == expected {
                self.in_order += 1;
                if self.in_order >= IN_ORDER_TO_SHRINK {
                    self.in_order = 0;
                    self.tolerance = (self.tolerance - 1).max(INITIAL_TOLERANCE);
                }
                return Arrival::InOrder;
            }
            self.in_order = 0;
            self.gaps.push_back(Gap {
                range: expected..pn,
                since: now,
                received_before: self.received - 1,
                declared: false,
                reported: false,
            });
            return Arrival::OpenedGap;
        }
        self.fill(now, pn)
    }

    fn fill(&mut self, now: Timestamp, pn: u64) -> Arrival {
        let at = self.gaps.partition_point(|gap| gap.range.end <= pn);
        let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.range.contains(&pn)) else {
            return Arrival::Old;
        };
        let (before, after) = (gap.range.start..pn, pn + 1..gap.range.end);
        if !before.is_empty() && !after.is_empty() && self.gaps.len() >= MAX_GAPS_KEPT {
            return Arrival::Refused;
        }
        let Some(gap) = self.gaps.get_mut(at) else {
            return Arrival::Old;
        };
        let later = self.received - gap.received_before;
        let delay = now.saturating_since(gap.since);
        let declared = gap.declared;
        self.received += 1;
        self.tolerance = self.tolerance.max((later + 1).min(MAX_TOLERANCE));
        self.reorder_delay = self.reorder_delay.max(delay);
        self.in_order = 0;
        if before.is_empty() && after.is_empty() {
            self.gaps.remove(at);
            self.declared -= usize::from(declared);
        } else if before.is_empty() {
            gap.range = after;
        } else if after.is_empty() {
            gap.range = before;
        } else {
            let mut second = gap.clone();
            gap.range = before;
            second.range = after;
            self.gaps.insert(at + 1, second);
            self.declared += usize::from(declared);
        }
        if declared {
            self.spurious_total += 1;
            self.lost_total -= 1;
            Arrival::Spurious
        } else {
            Arrival::Late
        }
    }

    /// Reordering delay: SRTT / 8 (at most 20 ms after an IDLE packet), or 5/4 of the longest observed
    /// reordering delay if that is longer; at least one packet time, at most SRTT / 2.
    pub fn delay(&self, srtt: Duration, packet_time: Duration) -> Duration {
        let longest = (srtt / 2).max(packet_time);
        let usual = if self.ended {
            END_DELAY.min(srtt / 8)
        } else {
            srtt / 8
        };
        // The observed delay decays until it is observed again.
        usual.max(self.reorder_delay * 5 / 4).clamp(packet_time, longest)
    }

    /// Declares due gaps lost; returns the number of packets newly declared lost.
    pub fn declare(&mut self, now: Timestamp, srtt: Duration, packet_time: Duration) -> u64 {
        self.decay(now, srtt);
        if now < self.patience {
            return 0;
        }
        let delay = self.delay(srtt, packet_time);
        let mut lost = 0;
        while let Some(gap) = self.gaps.get_mut(self.declared) {
            let waited = now.saturating_since(gap.since) >= delay;
            let passed = self.received - gap.received_before > self.tolerance;
            if !waited && !passed {
                break;
            }
            gap.declared = true;
            gap.reported = false;
            lost += gap.range.end - gap.range.start;
            self.declared += 1;
        }
        self.lost_total += lost;
        lost
    }

    /// Time of the next call of [`GapList::declare`] if no packet arrives before.
    pub fn next_declaration(&self, srtt: Duration, packet_time: Duration) -> Option<Timestamp> {
        let gap = self.gaps.get(self.declared)?;
        Some((gap.since + self.delay(srtt, packet_time)).max(self.patience))
    }

    fn decay(&mut self, now: Timestamp, srtt: Duration) {
        if srtt.is_zero() || now.saturating_since(self.decayed_at) < srtt {
            return;
        }
        self.decayed_at = now;
        self.reorder_delay -= self.reorder_delay / 16;
    }

    /// Records whether the newest packet is an IDLE packet.
    pub const fn set_ended(&mut self, ended: bool) {
        self.ended = ended;
    }

    /// Declares nothing before `until`: after a silence, base stations deliver packets that they held back.
    pub fn be_patient(&mut self, until: Timestamp) {
        self.patience = self.patience.max(until);
    }

    /// Removes the numbers below `floor`, for which the sender no longer waits (FORWARD).
    pub fn forward(&mut self, floor: u64) {
        while let Some(gap) = self.gaps.front_mut() {
            if gap.range.start >= floor {
                break;
            }
            if gap.range.end > floor {
                gap.range.start = floor;
                break;
            }
            self.declared -= usize::from(gap.declared);
            self.gaps.pop_front();
        }
    }

    /// Returns true if a gap or a declaration has not been reported: feedback is due at once.
    pub fn has_news(&self) -> bool {
        let newest = self.gaps.back().is_some_and(|gap| !gap.reported);
        let declared = self
            .declared
            .checked_sub(1)
            .and_then(|last| self.gaps.get(last))
            .is_some_and(|gap| !gap.reported);
        newest || declared
    }

    /// Returns the gaps for a FEEDBACK frame with at most `most` ranges.
    pub fn report(&mut self, most: usize) -> Gaps {
        let largest = self.largest.unwrap_or(0);
        for gap in self.gaps.iter_mut().rev() {
            if gap.reported && !gap.declared {
                continue;
            }
            if gap.reported {
                break;
            }
            gap.reported = true;
        }
        let ranges = self.gaps.iter().map(|gap| {
            let kind = if gap.declared {
                GapKind::Declared
            } else {
                GapKind::Pending
            };
            (kind, gap.range.clone())
        });
        Gaps::from_ranges(largest, ranges, most)
    }

    /// Largest number received.
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }
    /// Number of packets received.
    pub const fn received(&self) -> u64 {
        self.received
    }
    /// Number of packets declared lost that have not arrived since.
    pub const fn lost(&self) -> u64 {
        self.lost_total
    }
    /// Number of packets that arrived after they had been declared lost.
    pub const fn spurious(&self) -> u64 {
        self.spurious_total
    }
    /// Number of gaps in the list.
    pub fn count(&self) -> usize {
        self.gaps.len()
    }
    /// Current reordering tolerance in packets.
    pub const fn tolerance(&self) -> u64 {
        self.tolerance
    }
}

#[cfg(test)]
mod tests;

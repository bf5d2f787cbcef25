//! A set of `u64` as disjoint half-open ranges: byte ranges of a stream, numbers of closed streams.
use std::{collections::BTreeMap, ops::Range};

/// A set of integers as ordered, disjoint, non-adjacent half-open ranges. Every operation costs O(log n) for
/// each affected range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// Start to end of each range.
    ranges: BTreeMap<u64, u64>,
    /// Number of integers in all ranges.
    total: u64,
}

impl RangeSet {
    /// Creates an empty set.
    pub const fn new() -> Self {
        Self {
            ranges: BTreeMap::new(),
            total: 0,
        }
    }

    /// Adds `range`; returns the number of new integers.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.total;
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&s, &e)) = self.ranges.range(..=start).next_back()
            && e >= start
        {
            start = s;
            end = end.max(e);
        }
        while let Some((&s, &e)) = self.ranges.range(start..=end).next() {
            end = end.max(e);
            self.ranges.remove(&s);
            self.total -= e - s;
        }
        self.ranges.insert(start, end);
        self.total += end - start;
        self.total - before
    }

    /// Removes `range`; returns the number of removed integers.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let before = self.total;
        let mut from = match self.ranges.range(..range.start).next_back() {
            Some((&s, &e)) if e > range.start => s,
            _ => range.start,
        };
        while let Some((&s, &e)) = self.ranges.range(from..range.end).next() {
            self.ranges.remove(&s);
            self.total -= e - s;
            if s < range.start {
                self.ranges.insert(s, range.start);
                self.total += range.start - s;
            }
            from = range.start;
            if e > range.end {
                self.ranges.insert(range.end, e);
                self.total += e - range.end;
                break;
            }
        }
        before - self.total
    }

    /// Returns true if `value` is in the set.
    pub fn contains(&self, value: u64) -> bool {
        self.ranges
            .range(..=value)
            .next_back()
            .is_some_and(|(_, &end)| end > value)
    }

    /// The range with the smallest integers.
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.iter().next().map(|(&s, &e)| s..e)
    }

    /// Removes at most `limit` integers from the start of the first range.
    pub fn take_first(&mut self, limit: u64) -> Option<Range<u64>> {
        let first = self.first()?;
        let taken = first.start..first.end.min(first.start.saturating_add(limit));
        self.remove(taken.clone());
        Some(taken)
    }

    /// The parts of `range` that are not in the set, in order.
    pub fn missing_in(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut at = range.start;
        if let Some((_, &end)) = self.ranges.range(..=at).next_back() {
            at = at.max(end);
        }
        for (&s, &e) in self.ranges.range(range.start..range.end) {
            if s > at {
                missing.push(at..s);
            }
            at = at.max(e);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    /// Returns true if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
    /// Number of integers in the set.
    pub const fn total(&self) -> u64 {
        self.total
    }
    /// The ranges in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&s, &e)| s..e)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn elements(set: &RangeSet) -> BTreeSet<u64> {
        set.iter().flatten().collect()
    }

    proptest! {
        #[test]
        fn behaves_as_a_naive_set(ops in prop::collection::vec((any::<bool>(), 0u64..60, 0u64..12), 1..80)) {
            let mut set = RangeSet::new();
            let mut model = BTreeSet::new();
            for (insert, start, len) in ops {
                let range = start..start + len;
                let expected = if insert {
                    range.clone().filter(|&v| model.insert(v)).count()
                } else {
                    range.clone().filter(|v| model.remove(v)).count()
                };
                let changed = if insert { set.insert(range) } else { set.remove(range) };
                prop_assert_eq!(changed, expected as u64);
                prop_assert_eq!(&elements(&set), &model);
                prop_assert_eq!(set.total(), model.len() as u64);
                let ranges: Vec<_> = set.iter().collect();
                prop_assert!(ranges.windows(2).all(|w| w[0].end < w[1].start), "adjacent ranges are merged");
                let missing: BTreeSet<u64> = set.missing_in(5..50).into_iter().flatten().collect();
                prop_assert_eq!(missing, (5..50).filter(|v| !model.contains(v)).collect::<BTreeSet<_>>());
                prop_assert!((0..75).all(|v| set.contains(v) == model.contains(&v)));
            }
        }
    }

    #[test]
    fn ranges_are_taken_from_the_low_end() {
        let mut set = RangeSet::new();
        set.insert(10..20);
        set.insert(30..31);
        assert_eq!(set.take_first(4), Some(10..14));
        assert_eq!(set.take_first(40), Some(14..20));
        assert_eq!(set.take_first(40), Some(30..31));
        assert_eq!(set.take_first(1), None);
    }
}

//! Record of the times at which the link was backlogged.
use std::{collections::VecDeque, time::Duration};

use longhaul_types::Timestamp;

use crate::OutageSchedule;

/// Maximum number of stored intervals: 1 MiB of memory. A link that sends packets one at a time reaches it
/// after 65,536 packets.
const MAX_INTERVALS: usize = 65_536;

/// The times at which the link was backlogged. Adjacent intervals are merged.
#[derive(Default)]
pub(crate) struct BusyLog {
    /// Closed intervals, in order and disjoint.
    intervals: VecDeque<(Timestamp, Timestamp)>,
    since: Option<Timestamp>,
    /// Time before which intervals have been discarded.
    complete_from: Timestamp,
}

impl BusyLog {
    pub(crate) fn begin(&mut self, at: Timestamp) {
        if self.since.is_some() {
            return;
        }
        // A packet that arrives at the instant at which its predecessor departs continues the interval.
        self.since = match self.intervals.back() {
            Some((start, end)) if *end == at => {
                let start = *start;
                self.intervals.pop_back();
                Some(start)
            }
            _ => Some(at),
        };
    }

    pub(crate) fn end(&mut self, at: Timestamp) {
        let Some(since) = self.since.take() else { return };
        if self.intervals.len() == MAX_INTERVALS
            && let Some((_, end)) = self.intervals.pop_front()
        {
            self.complete_from = end;
        }
        self.intervals.push_back((since, at));
    }

    /// Returns the backlogged time between `from` and `to` in which no outage held the link; `None` if the
    /// log has discarded intervals of that time.
    pub(crate) fn between(
        &self,
        from: Timestamp,
        to: Timestamp,
        outages: &OutageSchedule,
    ) -> Option<Duration> {
        if from < self.complete_from {
            return None;
        }
        let first = self.intervals.partition_point(|(_, end)| *end <= from);
        let open = self.since.map(|since| (since, to));
        let busy = self
            .intervals
            .iter()
            .skip(first)
            .copied()
            .chain(open)
            .take_while(|(start, _)| *start < to)
            .map(|(start, end)| {
                let (start, end) = (start.max(from), end.min(to));
                (end - start).saturating_sub(outages.held_between(start, end))
            })
            .sum();
        Some(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_before_the_recorded_period_returns_none() {
        let at = |micros: u64| Timestamp::ZERO + Duration::from_micros(micros);
        let mut log = BusyLog::default();
        let count = MAX_INTERVALS as u64 + 10;
        for index in 0..count {
            log.begin(at(index * 2));
            log.end(at(index * 2 + 1));
        }
        let outages = OutageSchedule::default();
        assert_eq!(log.between(at(0), at(100), &outages), None);
        let recent = log.between(at(count), at(count * 2), &outages);
        assert_eq!(recent, Some(Duration::from_micros(count / 2)));
    }
}

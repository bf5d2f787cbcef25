//! Outages of a link.
use std::time::Duration;

use longhaul_types::Timestamp;

/// Treatment of packets during an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhileOut {
    /// The link stops sending and keeps its queue (and drops packets that do not fit into it); a partly sent
    /// packet is continued afterwards. Packets already in flight arrive.
    Hold,
    /// The link continues to send and nothing is received: a packet whose transmission overlaps the outage is
    /// lost.
    Drop,
}

/// One outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Start of the outage.
    pub start: Timestamp,
    /// Length of the outage; the link works again at `start + length`.
    pub length: Duration,
    /// Treatment of packets during the outage.
    pub behaviour: WhileOut,
}

/// Errors of a schedule of outages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutageError {
    /// An outage has no length.
    #[error("the outage at {0:?} has no length; leave it out")]
    Empty(Timestamp),
    /// Two outages overlap.
    #[error("the outage at {0:?} begins before the one ahead of it ends; merge or move them")]
    Overlap(Timestamp),
}

/// Schedule of outages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutageSchedule {
    holds: Vec<Window>,
    drops: Vec<Window>,
}

/// The period from `start` until just before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    start: Timestamp,
    end: Timestamp,
}

impl OutageSchedule {
    /// Creates a schedule of outages in any order.
    ///
    /// # Errors
    /// An outage has no length, or two outages overlap.
    pub fn new(mut outages: Vec<Outage>) -> Result<Self, OutageError> {
        outages.sort_by_key(|outage| outage.start);
        let mut schedule = Self::default();
        let mut free_from = Timestamp::ZERO;
        for outage in outages {
            if outage.length.is_zero() {
                return Err(OutageError::Empty(outage.start));
            }
            if outage.start < free_from {
                return Err(OutageError::Overlap(outage.start));
            }
            let window = Window {
                start: outage.start,
                end: outage.start + outage.length,
            };
            free_from = window.end;
            match outage.behaviour {
                WhileOut::Hold => schedule.holds.push(window),
                WhileOut::Drop => schedule.drops.push(window),
            }
        }
        Ok(schedule)
    }

    /// The outages, in order of their starts.
    pub fn outages(&self) -> impl Iterator<Item = Outage> {
        let of = |windows: &[Window], behaviour| {
            let outage = move |window: &Window| Outage {
                start: window.start,
                length: window.end - window.start,
                behaviour,
            };
            windows.iter().map(outage).collect::<Vec<_>>()
        };
        let mut outages = of(&self.holds, WhileOut::Hold);
        outages.extend(of(&self.drops, WhileOut::Drop));
        outages.sort_by_key(|outage| outage.start);
        outages.into_iter()
    }

    /// Returns the first time at or after `at` at which the link is not held.
    pub(crate) fn resumes(&self, at: Timestamp) -> Timestamp {
        ending_after(&self.holds, at)
            .take_while(|window| window.start <= at)
            .fold(at, |at, window| at.max(window.end))
    }

    /// Returns the end of `work` that begins at `began`, extended by the held times.
    pub(crate) fn finish(&self, began: Timestamp, work: Duration) -> Timestamp {
        let mut at = began;
        let mut left = work;
        for window in ending_after(&self.holds, began) {
            if at + left <= window.start {
                break;
            }
            left = left.saturating_sub(window.start - at);
            at = at.max(window.end);
        }
        at + left
    }

    /// Returns the time between `from` and `to` in which the link is held.
    pub(crate) fn held_between(&self, from: Timestamp, to: Timestamp) -> Duration {
        ending_after(&self.holds, from)
            .take_while(|window| window.start < to)
            .map(|window| window.end.min(to) - window.start.max(from))
            .sum()
    }

    /// Returns true if a transmission from `began` to `ended` is lost.
    pub(crate) fn loses(&self, began: Timestamp, ended: Timestamp) -> bool {
        // A transmission without length, as in a single opportunity of a trace, counts as an instant.
        let ended = ended.max(began + Duration::from_nanos(1));
        ending_after(&self.drops, began)
            .next()
            .is_some_and(|window| window.start < ended)
    }
}

fn ending_after(windows: &[Window], at: Timestamp) -> impl Iterator<Item = &Window> {
    let first = windows.partition_point(|window| window.end <= at);
    windows.iter().skip(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    fn outage(start: u64, length: u64, behaviour: WhileOut) -> Outage {
        Outage {
            start: at(start),
            length: Duration::from_millis(length),
            behaviour,
        }
    }

    #[test]
    fn overlapping_and_empty_outages_are_rejected() {
        let hold = |start, length| outage(start, length, WhileOut::Hold);
        assert_eq!(
            OutageSchedule::new(vec![hold(10, 5), hold(0, 11)]),
            Err(OutageError::Overlap(at(10)))
        );
        assert_eq!(
            OutageSchedule::new(vec![hold(3, 0)]),
            Err(OutageError::Empty(at(3)))
        );
        assert!(OutageSchedule::new(vec![hold(10, 5), hold(0, 10)]).is_ok());
    }

    #[test]
    fn held_time_extends_the_end_of_work() -> Result<(), OutageError> {
        let schedule = OutageSchedule::new(vec![
            outage(10, 5, WhileOut::Hold),
            outage(20, 10, WhileOut::Hold),
            outage(40, 10, WhileOut::Drop),
        ])?;
        let ms = Duration::from_millis;
        assert_eq!(schedule.finish(at(0), ms(10)), at(10));
        assert_eq!(schedule.finish(at(0), ms(11)), at(16));
        assert_eq!(schedule.finish(at(12), ms(1)), at(16));
        assert_eq!(schedule.finish(at(0), ms(16)), at(31));
        assert_eq!(schedule.finish(at(38), ms(5)), at(43));
        assert_eq!(schedule.resumes(at(10)), at(15));
        assert_eq!(schedule.resumes(at(15)), at(15));
        assert_eq!(schedule.held_between(at(12), at(25)), ms(8));
        assert!(schedule.loses(at(39), at(41)));
        assert!(schedule.loses(at(40), at(40)));
        assert!(!schedule.loses(at(39), at(40)));
        assert!(!schedule.loses(at(50), at(51)));
        Ok(())
    }
}

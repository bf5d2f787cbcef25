//! The last ten minutes of the hop, a sample for each second, and their curves. Pure.
use std::{collections::VecDeque, fmt::Write as _};

/// Number of kept samples.
pub(crate) const SAMPLES: usize = 600;
/// Samples that one point of a curve stands for.
const PER_POINT: usize = 2;
/// Size of a curve's drawing.
pub(crate) const WIDTH: usize = 600;
/// Height of a curve's drawing.
pub(crate) const HEIGHT: usize = 60;

/// What was seen of the hop in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Bytes towards the agent.
    pub(crate) down: u64,
    /// Bytes towards the gateway.
    pub(crate) up: u64,
    /// Round-trip time in ms, if one is measured.
    pub(crate) rtt_ms: Option<u64>,
    /// Queueing delay in ms.
    pub(crate) queue_ms: u64,
    /// Packets that arrived.
    pub(crate) received: u64,
    /// Packets that were lost.
    pub(crate) lost: u64,
    /// True if the session was open.
    pub(crate) is_open: bool,
}

/// Counters of a session at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Bytes towards the agent, of all sessions.
    pub(crate) down: u64,
    /// Bytes towards the gateway, of all sessions.
    pub(crate) up: u64,
    /// Packets that arrived in the session.
    pub(crate) received: u64,
    /// Packets that were lost in the session.
    pub(crate) lost: u64,
}

/// The kept samples.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    /// The newest is last.
    list: VecDeque<Sample>,
    before: Option<Counted>,
}

impl Samples {
    /// Adds the sample of a second, at whose end so much had been counted.
    pub(crate) fn add(&mut self, now: Counted, rest: Sample) {
        let before = self.before.replace(now).unwrap_or(now);
        self.list.push_back(Sample {
            down: now.down.saturating_sub(before.down),
            up: now.up.saturating_sub(before.up),
            received: now.received.saturating_sub(before.received),
            lost: now.lost.saturating_sub(before.lost),
            ..rest
        });
        if self.list.len() > SAMPLES {
            self.list.pop_front();
        }
    }

    /// The newest sample.
    pub(crate) fn newest(&self) -> Sample {
        self.list.back().copied().unwrap_or_default()
    }

    /// Packets that were lost, and all packets.
    pub(crate) fn loss(&self) -> (u64, u64) {
        let lost = self.list.iter().map(|sample| sample.lost).sum();
        let received: u64 = self.list.iter().map(|sample| sample.received).sum();
        (lost, received.saturating_add(lost))
    }

    /// The curve of the bytes towards the agent, filled; the scale is in bit/s.
    pub(crate) fn received(&self) -> Curve {
        self.curve(|samples| {
            let bytes: u64 = samples.iter().map(|sample| sample.down).sum();
            Some(bytes.saturating_mul(8) / samples.len() as u64)
        })
    }

    /// The curve of the round-trip time; the scale is in ms.
    pub(crate) fn round_trips(&self) -> Curve {
        self.curve(|samples| {
            samples
                .iter()
                .filter(|sample| sample.is_open)
                .filter_map(|sample| sample.rtt_ms)
                .max()
        })
    }

    /// Path of the times without an open session.
    pub(crate) fn absences(&self) -> String {
        let mut path = String::new();
        for (x, samples) in self.points() {
            if !samples.iter().all(|sample| sample.is_open) {
                let _infallible = write!(path, "M{x} 0v{HEIGHT}h{PER_POINT}V0z");
            }
        }
        path
    }

    fn curve(&self, value: impl Fn(&[Sample]) -> Option<u64>) -> Curve {
        let points: Vec<_> = self
            .points()
            .into_iter()
            .map(|(x, samples)| (x, value(&samples)))
            .collect();
        let most = points.iter().filter_map(|(_, value)| *value).max().unwrap_or(0);
        let mut path = String::new();
        let mut is_drawn = false;
        for (x, value) in points {
            let Some(value) = value else {
                is_drawn = false;
                continue;
            };
            let height = u128::from(value) * HEIGHT as u128 / u128::from(most.max(1));
            let y = HEIGHT as u128 - height;
            let command = if std::mem::replace(&mut is_drawn, true) {
                'L'
            } else {
                'M'
            };
            let _infallible = write!(path, "{command}{x} {y}");
        }
        Curve { path, most }
    }

    /// The samples of each point, with its place; the newest is at the right edge.
    fn points(&self) -> Vec<(usize, Vec<Sample>)> {
        let newest_first: Vec<Sample> = self.list.iter().rev().copied().collect();
        let points = newest_first.chunks(PER_POINT).enumerate();
        let mut points: Vec<_> = points
            .map(|(index, samples)| (WIDTH.saturating_sub((index + 1) * PER_POINT), samples.to_vec()))
            .collect();
        points.reverse();
        points
    }
}

/// A curve of the last ten minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Curve {
    /// Path of the line, in a drawing of [`WIDTH`] by [`HEIGHT`].
    pub(crate) path: String,
    /// The value at the top of the drawing.
    pub(crate) most: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_differences_and_bounded() {
        let mut samples = Samples::default();
        for second in 0..700 {
            let now = Counted {
                down: second * 100,
                received: second * 9,
                lost: second,
                ..Counted::default()
            };
            samples.add(now, Sample::default());
        }
        assert_eq!(samples.list.len(), SAMPLES);
        assert_eq!(samples.newest().down, 100);
        assert_eq!(samples.loss(), (600, 6000));
        // A new session counts packets from zero.
        samples.add(Counted::default(), Sample::default());
        assert_eq!(samples.newest(), Sample::default());
    }

    #[test]
    fn curves_end_at_the_right_and_break_where_nothing_was_measured() {
        let mut samples = Samples::default();
        assert_eq!(samples.received(), Curve::default());
        for (second, rtt_ms) in [Some(10), Some(10), None, None, Some(40), Some(40)]
            .into_iter()
            .enumerate()
        {
            let now = Counted {
                down: second as u64 * 1000,
                ..Counted::default()
            };
            let is_open = rtt_ms.is_some();
            samples.add(
                now,
                Sample {
                    rtt_ms,
                    is_open,
                    ..Sample::default()
                },
            );
        }
        let rtt = samples.round_trips();
        assert_eq!((rtt.path.as_str(), rtt.most), ("M594 45M598 0", 40));
        assert_eq!(samples.absences(), "M596 0v60h2V0z");
        assert_eq!(samples.received().path, "M594 30L596 0L598 0");
        assert_eq!(samples.received().most, 8000);
    }
}

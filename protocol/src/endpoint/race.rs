//! Race of the paths to the gateway (transport.md sections 3.9 and 8.3): which path gets the INIT, and when.
//!
//! The addresses begin one after the other, as in RFC 8305; each repeats the INIT at its own intervals. Every
//! transmission has the same bytes, so that the gateway opens one session whichever of them it receives.
use std::{net::SocketAddr, time::Duration};

use longhaul_types::Timestamp;

use crate::path::{Path, PathClass};

/// Maximum number of addresses of a race. A name with more is hardly a gateway's.
pub const MAX_ADDRESSES: usize = 8;
/// Maximum number of paths: the addresses, and links of other carriers.
const MAX_PATHS: usize = 16;

/// One path.
#[derive(Clone, Copy, Debug)]
struct Runner {
    remote: Path,
    due: Timestamp,
    interval: Duration,
    has_started: bool,
}

/// The paths of a session whose INIT is not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Race {
    runners: Vec<Runner>,
    interval: Duration,
    longest: Duration,
}

impl Race {
    /// A race that begins now with `first`; the others follow `delay` apart. Unanswered INITs are repeated after
    /// `interval`, which grows to `longest`.
    pub(super) fn new(
        now: Timestamp,
        first: Path,
        others: &[SocketAddr],
        delay: Duration,
        interval: Duration,
        longest: Duration,
    ) -> Self {
        let mut remotes = vec![first];
        for other in others.iter().map(|other| Path::from(*other)) {
            if remotes.len() < MAX_ADDRESSES && !remotes.contains(&other) {
                remotes.push(other);
            }
        }
        let mut due = now;
        let runners = remotes.into_iter().map(|remote| {
            let runner = Runner {
                remote,
                due,
                interval,
                has_started: false,
            };
            due += delay;
            runner
        });
        Self {
            runners: runners.collect(),
            interval,
            longest,
        }
    }

    /// Adds a path, which gets the INIT now; returns false if it takes part already or there are too many.
    pub(super) fn add(&mut self, now: Timestamp, remote: Path) -> bool {
        let is_known = self.runners.iter().any(|runner| runner.remote == remote);
        if is_known || self.runners.len() >= MAX_PATHS {
            return false;
        }
        self.runners.push(Runner {
            remote,
            due: now,
            interval: self.interval,
            has_started: false,
        });
        true
    }

    /// Sends the INIT no longer over `remote`.
    pub(super) fn remove(&mut self, remote: Path) {
        self.runners.retain(|runner| runner.remote != remote);
    }

    /// Time of the next transmission.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.runners.iter().map(|runner| runner.due).min()
    }

    /// Records that the INIT is sent now, and returns its destination.
    pub(super) fn sent(&mut self, now: Timestamp) -> Option<Path> {
        let longest = self.longest;
        let runner = self.runners.iter_mut().min_by_key(|runner| runner.due)?;
        runner.has_started = true;
        runner.due = match runner.remote.class() {
            PathClass::Datagram => now + runner.interval,
            // A link loses nothing, but the gateway's rate limits may have dropped the INIT.
            PathClass::Ordered => now + longest,
        };
        runner.interval = (runner.interval * 3 / 2).min(longest);
        Some(runner.remote)
    }

    /// True if the INIT was sent to `remote`: only then an answer may come from there.
    pub(super) fn includes(&self, remote: Path) -> bool {
        let mut started = self.runners.iter().filter(|runner| runner.has_started);
        started.any(|runner| runner.remote == remote)
    }

    /// True if the INIT was or will be sent over `remote`.
    pub(super) fn has(&self, remote: Path) -> bool {
        self.runners.iter().any(|runner| runner.remote == remote)
    }

    /// Makes the repetition over `remote` due now, if that path loses packets.
    pub(super) fn hurry(&mut self, now: Timestamp, remote: Path) {
        for runner in self.runners.iter_mut().filter(|runner| runner.remote == remote) {
            if runner.remote.class() == PathClass::Datagram {
                runner.due = runner.due.min(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::LinkId;

    fn address(last: u8) -> SocketAddr {
        ([192, 0, 2, last], 4433).into()
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    fn race(others: &[SocketAddr]) -> Race {
        let millis = Duration::from_millis;
        Race::new(
            at(0),
            address(1).into(),
            others,
            millis(250),
            millis(1_000),
            millis(3_000),
        )
    }

    /// Destinations of the INITs until `end`, with their times in ms.
    fn run(race: &mut Race, end: u64) -> Vec<(u64, Path)> {
        let mut sent = Vec::new();
        while let Some(due) = race.due().filter(|due| *due <= at(end)) {
            let remote = race.sent(due).unwrap();
            sent.push((due.as_nanos() / 1_000_000, remote));
        }
        sent
    }

    #[test]
    fn addresses_begin_one_after_the_other_and_repeat_independently() {
        let mut race = race(&[address(2), address(3)]);
        assert!(!race.includes(address(2).into()));
        let sent = run(&mut race, 1_600);
        let expected = [(0, 1), (250, 2), (500, 3), (1_000, 1), (1_250, 2), (1_500, 3)];
        assert_eq!(sent, expected.map(|(time, last)| (time, address(last).into())));
        assert!((1..=3).all(|last| race.includes(address(last).into())));
    }

    #[test]
    fn one_address_repeats_at_growing_intervals() {
        let mut race = race(&[address(1)]);
        let times: Vec<u64> = run(&mut race, 12_000).into_iter().map(|(time, _)| time).collect();
        assert_eq!(times, [0, 1_000, 2_500, 4_750, 7_750, 10_750]);
    }

    #[test]
    fn a_race_is_bounded() {
        let others: Vec<SocketAddr> = (2..100).map(address).collect();
        let mut race = race(&others);
        let sent = run(&mut race, 100_000);
        let last = sent.iter().map(|(_, remote)| *remote).max();
        assert_eq!(last, Some(address(u8::try_from(MAX_ADDRESSES).unwrap()).into()));
    }

    #[test]
    fn a_hurried_address_is_next() {
        let mut race = race(&[address(2)]);
        assert_eq!(run(&mut race, 300).len(), 2);
        race.hurry(at(400), address(2).into());
        assert_eq!(run(&mut race, 400), [(400, address(2).into())]);
    }

    #[test]
    fn a_link_gets_the_init_at_once_and_repeats_it_after_the_longest_interval() {
        let mut race = race(&[]);
        let link = Path::Link(LinkId::ordered(1));
        assert!(race.add(at(250), link) && !race.add(at(251), link));
        let sent = run(&mut race, 3_300);
        let times: Vec<u64> = sent
            .iter()
            .filter(|(_, path)| *path == link)
            .map(|(time, _)| *time)
            .collect();
        assert_eq!(times, [250, 3_250]);
        race.remove(link);
        assert!(!race.has(link));
    }
}

//! Links that are opened as soon as UDP is doubtful (docs/protocol/transport.md section 8.3): when it counts as silent, only
//! the change of the path is left.
use std::time::Duration;

use longhaul_types::Timestamp;

/// Pause after a link that was not needed, before the next one is opened so early. It doubles each time: on a link that
/// loses packets, single probes are lost all the time.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// Bounds of the early links of a session.
#[derive(Clone, Copy, Debug)]
pub struct Doubts {
    rests_until: Timestamp,
    pause: Duration,
    /// A link is being opened early.
    is_opening: bool,
}

impl Default for Doubts {
    fn default() -> Self {
        Self {
            rests_until: Timestamp::ZERO,
            pause: FIRST_PAUSE,
            is_opening: false,
        }
    }
}

impl Doubts {
    /// Returns true if a link is to be opened although UDP does not count as silent, and records that it is.
    /// `is_doubtful`: a probe is unanswered or the gateway reports late packets, and the user waits for data.
    pub fn begins(&mut self, now: Timestamp, is_doubtful: bool) -> bool {
        let begins = is_doubtful && now >= self.rests_until;
        self.is_opening |= begins;
        begins
    }

    /// True while a link is being opened early.
    pub const fn is_opening(&self) -> bool {
        self.is_opening
    }

    /// UDP counts as silent by now: the usual rules decide about the link. Whether it was needed is not known yet.
    pub const fn on_silence(&mut self) {
        self.is_opening = false;
    }

    /// A link was opened, or could not be, although UDP answers after all. It does not matter whether UDP counted as silent
    /// meanwhile: a queue that fills delays answers for long enough for either.
    pub fn in_vain(&mut self, now: Timestamp) {
        self.is_opening = false;
        self.rests_until = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
    }

    /// UDP is silent, and the session uses the link: doubts of this kind were right.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Nothing is known about another network.
    pub fn on_network_change(&mut self) {
        *self = Self {
            is_opening: self.is_opening,
            ..Self::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_links_become_rare() {
        let mut doubts = Doubts::default();
        let mut opened = Vec::new();
        for second in 0..3600 {
            let now = Timestamp::ZERO + Duration::from_secs(second);
            assert!(!doubts.begins(now, false));
            if doubts.begins(now, true) {
                assert!(doubts.is_opening());
                doubts.in_vain(now);
                opened.push(second);
            }
        }
        assert_eq!(opened[..6], [0, 10, 30, 70, 150, 310]);
        assert_eq!(opened[6..9], [610, 910, 1210]);
        let now = Timestamp::ZERO + Duration::from_secs(3601);
        doubts.on_network_change();
        assert!(doubts.begins(now, true));
        doubts.succeeded();
        assert!(doubts.begins(now, true), "it was needed");
    }

    /// An upload fills the uplink: UDP is doubtful, then silent, and answers when the link is open.
    #[test]
    fn a_link_that_outlives_the_silence_in_vain_counts_as_well() {
        let at = |seconds| Timestamp::ZERO + Duration::from_secs(seconds);
        let mut doubts = Doubts::default();
        for (begins, rests_until) in [(0, 11), (11, 32), (32, 73)] {
            assert!(doubts.begins(at(begins), true));
            doubts.on_silence();
            assert!(!doubts.is_opening());
            doubts.in_vain(at(begins + 1));
            assert!(!doubts.begins(at(rests_until - 1), true), "{rests_until}");
        }
        assert!(doubts.begins(at(73), true));
        doubts.on_silence();
        doubts.succeeded();
        assert!(doubts.begins(at(74), true), "no pause after a link that was used");
        doubts.in_vain(at(75));
        assert!(doubts.begins(at(85), true), "the first pause again");
    }
}

//! Return of an agent's session from a link to UDP, or to a link of datagrams (docs/protocol/transport.md section 8.3).
use std::time::Duration;

use tokio::time::Instant;

use crate::goodput::{Arrived, Goodput};

/// Times of the return to UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReturnTimes {
    /// Time on a link before UDP is probed for the first time. It doubles with each probe that fails and each return that
    /// had to be undone.
    pub first: Duration,
    /// Maximum of this time.
    pub longest: Duration,
    /// Time for which the link is kept after the return. A gateway ends unused links after 10 s.
    pub kept: Duration,
    /// Time for which a session in use waits for a pause before it returns: what is in flight is sent again.
    pub patience: Duration,
    /// Time before UDP is probed for the first time, if it is longer: an earlier session has found UDP worse than the link.
    pub avoided: Option<Duration>,
    /// Time before UDP is probed again in this network, after a return that carried less than the link and lost packets.
    pub worse: Duration,
    /// Pause after a trial of the link that showed UDP as the better path ([`LinkTrial`](crate::LinkTrial)); it doubles each
    /// time.
    pub trial_pause: Duration,
    /// False until trials are permitted ([`Session::permit_trials`](crate::Session::permit_trials)): each costs some kilobytes.
    pub permits_trials: bool,
}

impl Default for ReturnTimes {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(60),
            longest: Duration::from_secs(30 * 60),
            kept: Duration::from_secs(10),
            patience: Duration::from_secs(10),
            avoided: None,
            worse: Duration::from_secs(24 * 3600),
            trial_pause: Duration::from_secs(60),
            permits_trials: true,
        }
    }
}

/// Progress of the return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// The session uses UDP, or has only its link.
    Resting,
    /// The session uses its link; UDP is probed at this time.
    Waiting(Instant),
    Probing,
    /// UDP has answered: the session returns when its user waits for nothing, at the latest at this time.
    Answered(Instant),
    /// The session has returned, and keeps its link until this time.
    Returned(Instant),
}

/// What the session does at present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    /// It uses its link, and not UDP.
    pub(crate) is_on_link: bool,
    /// It has a connected link, in use or kept.
    pub(crate) has_link: bool,
    /// The path in use does not answer.
    pub(crate) is_silent: bool,
    /// The user waits for data.
    pub(crate) is_awaited: bool,
    /// What has arrived.
    pub(crate) arrived: Arrived,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Probe UDP.
    Probe,
    /// Change to UDP.
    Return,
    /// Change to the link again.
    Undo,
    /// End the link.
    EndLink,
}

/// State of the return to UDP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdpReturn {
    times: ReturnTimes,
    pause: Duration,
    progress: Progress,
    goodput: Goodput,
    /// Time before the first probe, until it has begun.
    avoided: Option<Duration>,
    /// A return was undone because UDP carried less.
    is_worse: bool,
}

impl UdpReturn {
    pub(crate) const fn new(times: ReturnTimes) -> Self {
        Self {
            times,
            pause: times.first,
            progress: Progress::Resting,
            goodput: Goodput::new(),
            avoided: times.avoided,
            is_worse: false,
        }
    }

    /// True if UDP has carried less than the link in this network.
    pub(crate) const fn is_worse(&self) -> bool {
        self.is_worse
    }

    /// The session has changed to its link.
    pub(crate) fn on_link(&mut self, now: Instant) {
        if matches!(self.progress, Progress::Returned(_)) {
            self.lengthen();
        }
        let pause = self.avoided.take().unwrap_or_default().max(self.pause);
        self.progress = Progress::Waiting(now + pause);
        self.goodput.on_change(now);
    }

    /// A trial has shown that UDP carries less than the link, which the session uses already.
    pub(crate) fn on_better_link(&mut self, now: Instant) {
        self.is_worse = true;
        self.progress = Progress::Waiting(now + self.times.worse);
    }

    /// The session uses UDP for another reason than a probe.
    pub(crate) const fn on_udp(&mut self) {
        self.progress = Progress::Resting;
    }

    /// In another network UDP may work: it is probed soon.
    pub(crate) fn on_network_change(&mut self, now: Instant) {
        self.pause = self.times.first;
        self.avoided = None;
        self.is_worse = false;
        if let Progress::Waiting(at) = &mut self.progress {
            // The session first has to be heard in the new network.
            *at = (*at).min(now + self.times.first / 10);
        }
    }

    /// Records the result of a probe; true if UDP works and is not slower than the link.
    pub(crate) fn on_probed(&mut self, now: Instant, works: bool) {
        if self.progress != Progress::Probing {
            return;
        }
        self.progress = if works {
            Progress::Answered(now + self.times.patience)
        } else {
            self.lengthen();
            Progress::Waiting(now + self.pause)
        };
    }

    /// The path by which the session was to return has ended.
    pub(crate) fn on_way_lost(&mut self, now: Instant) {
        if matches!(self.progress, Progress::Probing | Progress::Answered(_)) {
            self.progress = Progress::Probing;
            self.on_probed(now, false);
        }
    }

    /// The next step, if it is due.
    pub(crate) fn poll(&mut self, now: Instant, situation: Situation) -> Option<Step> {
        if !self.is_resting() {
            self.goodput.observe(now, situation.arrived, situation.is_awaited);
        }
        match self.progress {
            Progress::Resting => None,
            Progress::Returned(_) if !situation.is_on_link && situation.is_silent => {
                if !situation.has_link {
                    self.on_udp();
                    return None;
                }
                self.on_link(now);
                Some(Step::Undo)
            }
            Progress::Returned(_)
                if !situation.is_on_link && situation.has_link && self.goodput.is_worse() =>
            {
                self.on_link(now);
                self.is_worse = true;
                self.progress = Progress::Waiting(now + self.times.worse);
                Some(Step::Undo)
            }
            Progress::Returned(until) if until <= now => {
                self.on_udp();
                Some(Step::EndLink)
            }
            Progress::Returned(_) => None,
            Progress::Waiting(_) | Progress::Probing | Progress::Answered(_) if !situation.is_on_link => {
                self.on_udp();
                None
            }
            Progress::Waiting(at) if at <= now => {
                self.progress = Progress::Probing;
                Some(Step::Probe)
            }
            Progress::Answered(by) if by <= now || !situation.is_awaited => {
                self.progress = Progress::Returned(now + self.times.kept);
                self.goodput.on_change(now);
                Some(Step::Return)
            }
            Progress::Waiting(_) | Progress::Probing | Progress::Answered(_) => None,
        }
    }

    /// True if nothing is to be done: the session uses UDP, or has only its link.
    pub(crate) const fn is_resting(&self) -> bool {
        matches!(self.progress, Progress::Resting)
    }

    /// True while a link is kept beside UDP.
    pub(crate) const fn keeps_link(&self) -> bool {
        matches!(self.progress, Progress::Returned(_))
    }

    fn lengthen(&mut self) {
        self.pause = (self.pause * 2).min(self.times.longest);
    }

    /// Time of the next step.
    pub(crate) const fn due(&self) -> Option<Instant> {
        match self.progress {
            Progress::Waiting(at) | Progress::Answered(at) | Progress::Returned(at) => Some(at),
            Progress::Resting | Progress::Probing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON_LINK: Situation = Situation {
        is_on_link: true,
        has_link: true,
        is_silent: false,
        is_awaited: false,
        arrived: Arrived {
            bytes: 0,
            packets: 0,
            lost: 0,
        },
    };
    const ON_UDP: Situation = Situation {
        is_on_link: false,
        ..ON_LINK
    };

    /// A state whose probe has just been sent, and its time.
    fn probing() -> (UdpReturn, Instant) {
        let now = Instant::now();
        let mut state = UdpReturn::new(ReturnTimes::default());
        state.on_link(now);
        assert_eq!(state.poll(now, ON_LINK), None);
        let at = state.due().unwrap();
        assert_eq!(at, now + Duration::from_secs(60));
        assert_eq!(state.poll(at, ON_LINK), Some(Step::Probe));
        assert_eq!(state.poll(at, ON_LINK), None);
        (state, at)
    }

    #[test]
    fn the_pause_doubles_with_each_failure_up_to_half_an_hour() {
        let (mut state, mut now) = probing();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            state.on_probed(now, false);
            let at = state.due().unwrap();
            pauses.push((at - now).as_secs());
            now = at;
            assert_eq!(state.poll(now, ON_LINK), Some(Step::Probe));
        }
        assert_eq!(pauses, [120, 240, 480, 960, 1800, 1800]);
        state.on_probed(now, false);
        state.on_network_change(now);
        assert_eq!(state.due(), Some(now + Duration::from_secs(6)));
    }

    #[test]
    fn the_session_returns_when_nothing_is_awaited_or_patience_ends() {
        let busy = Situation {
            is_awaited: true,
            ..ON_LINK
        };
        let (mut state, now) = probing();
        state.on_probed(now, true);
        assert_eq!(state.poll(now, busy), None);
        assert_eq!(state.poll(now, ON_LINK), Some(Step::Return));
        assert!(state.keeps_link());
        assert_eq!(state.poll(now, ON_UDP), None);
        assert_eq!(state.poll(state.due().unwrap(), ON_UDP), Some(Step::EndLink));
        assert_eq!(state.due(), None);

        let (mut state, now) = probing();
        state.on_probed(now, true);
        assert_eq!(
            state.poll(now + Duration::from_secs(10), busy),
            Some(Step::Return)
        );
    }

    #[test]
    fn a_return_is_undone_over_the_kept_link_and_the_next_one_is_later() {
        let silent = Situation {
            is_silent: true,
            ..ON_UDP
        };
        let (mut state, now) = probing();
        state.on_probed(now, true);
        assert_eq!(state.poll(now, ON_LINK), Some(Step::Return));
        assert_eq!(state.poll(now, silent), Some(Step::Undo));
        assert_eq!(state.due(), Some(now + Duration::from_secs(120)));
        // Without its link the session stays on UDP, and the carrier is opened as at any silence.
        let (mut state, now) = probing();
        state.on_probed(now, true);
        assert_eq!(state.poll(now, ON_LINK), Some(Step::Return));
        let alone = Situation {
            has_link: false,
            ..silent
        };
        assert_eq!(state.poll(now, alone), None);
        assert_eq!(state.due(), None);
    }

    #[test]
    fn a_return_that_carries_less_and_loses_packets_is_undone_for_a_day() {
        for (rate, lost, undone) in [(100, 10, true), (100, 0, false), (900, 10, false)] {
            let mut busy = Situation {
                is_awaited: true,
                ..ON_LINK
            };
            let (mut state, mut now) = probing();
            let mut steps = Vec::new();
            for second in 0..30 {
                if second == 5 {
                    state.on_probed(now, true);
                }
                for _ in 0..10 {
                    now += Duration::from_millis(100);
                    let rate = if busy.is_on_link { 1000 } else { rate };
                    busy.arrived.bytes += rate;
                    busy.arrived.packets += 100;
                    busy.arrived.lost += if busy.is_on_link { 0 } else { lost };
                    match state.poll(now, busy) {
                        Some(Step::Return) => busy.is_on_link = false,
                        Some(step) => steps.push(step),
                        None => {}
                    }
                }
                if !steps.is_empty() {
                    break;
                }
            }
            if undone {
                assert_eq!(steps, [Step::Undo]);
                assert!(state.is_worse());
                assert_eq!(state.due(), Some(now + Duration::from_secs(24 * 3600)));
                state.on_network_change(now);
                assert_eq!(state.due(), Some(now + Duration::from_secs(6)));
                assert!(!state.is_worse(), "in another network");
            } else {
                assert!(!state.is_worse());
                assert!(!steps.contains(&Step::Undo), "{rate} {lost}: {steps:?}");
            }
        }
    }

    #[test]
    fn a_way_that_ends_before_the_return_counts_as_a_failed_probe() {
        let (mut state, now) = probing();
        state.on_probed(now, true);
        state.on_way_lost(now);
        assert_eq!(state.due(), Some(now + Duration::from_secs(120)));
        assert_eq!(state.poll(now, ON_LINK), None);
        // A session that has returned over it keeps its link.
        let (mut state, now) = probing();
        state.on_probed(now, true);
        assert_eq!(state.poll(now, ON_LINK), Some(Step::Return));
        state.on_way_lost(now);
        assert!(state.keeps_link());
    }

    #[test]
    fn udp_that_was_worse_in_an_earlier_session_is_avoided_in_this_network() {
        let hour = Duration::from_secs(3600);
        let times = ReturnTimes {
            avoided: Some(hour),
            ..ReturnTimes::default()
        };
        let now = Instant::now();
        let mut state = UdpReturn::new(times);
        state.on_link(now);
        assert_eq!(state.due(), Some(now + hour));
        assert_eq!(state.poll(now + hour, ON_LINK), Some(Step::Probe));
        state.on_probed(now + hour, false);
        assert_eq!(state.due(), Some(now + hour + Duration::from_secs(120)));

        let mut moved = UdpReturn::new(times);
        moved.on_link(now);
        moved.on_network_change(now);
        assert_eq!(moved.due(), Some(now + Duration::from_secs(6)));
    }

    #[test]
    fn results_and_times_of_a_session_that_left_its_link_change_nothing() {
        let (mut state, now) = probing();
        assert_eq!(state.poll(now, ON_UDP), None);
        state.on_probed(now, true);
        assert_eq!(state.due(), None);
    }
}

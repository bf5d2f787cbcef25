//! Trials of a link where a network limits UDP (docs/protocol/transport.md section 8.3).
//!
//! A policer drops what exceeds its rate, and no queue shows it. The trial moves the session to a link for a few seconds, with
//! the data that its user waits for, and keeps the better path. The state machine has no sockets; the driver task executes
//! its steps (`driver_task/udp_limit.rs`).
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::goodput::Arrived;

/// Length of an interval on UDP.
const INTERVAL: Duration = Duration::from_secs(1);
/// Number of intervals in a row with signs of a limit before a trial, and those with which the link is compared: a single
/// one can be a burst of losses.
const SIGNS: usize = 3;
/// Share of lost packets that is a sign by itself, as numerator and denominator: behind a policer far below the rate of
/// the link, the congestion control needs some seconds to find the bound.
const HEAVY: (u64, u64) = (3, 10);
/// Least number of packets in an interval for this sign.
const LEAST_PACKETS: u64 = 10;
/// Time of a trial during which the user waits for data. The first second contains the change of the path and the start of
/// the transfer on the link.
const TRIAL: Duration = Duration::from_secs(4);
/// Multiple of the bytes of the intervals on UDP that the link has to carry in this time: 1.5 times the rate, since the
/// intervals are three quarters of it.
const LEAST_GAIN: u64 = 2;
/// Time after which a link that carries next to nothing has failed, and the part of the bytes of UDP that this is.
const HOPELESS_AFTER: Duration = Duration::from_secs(2);
const HOPELESS_PART: u64 = 4;
/// Longest trial, with the time in which the user waits for nothing. The rules of the return to UDP apply then.
const LONGEST: Duration = Duration::from_secs(60);
/// Longest pause between two trials.
const LONGEST_PAUSE: Duration = Duration::from_secs(30 * 60);

/// What a session does at present.
#[derive(Clone, Copy, Debug)]
pub struct TrialSituation {
    /// It uses UDP.
    pub is_on_udp: bool,
    /// The user waits for data.
    pub is_awaited: bool,
    /// The path in use does not answer.
    pub is_silent: bool,
    /// Losses without a queue bound the rate ([`longhaul_protocol::connection::ConnectionStats::is_loss_limited`]).
    pub is_loss_limited: bool,
    /// What has arrived.
    pub arrived: Arrived,
}

/// What has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialStep {
    /// Open the link, while the session goes on over UDP; [`LinkTrial::on_changed`] follows when the session has changed
    /// to it.
    Open,
    /// Stay on the link: it carries more than UDP.
    Keep,
    /// Change to UDP again, and end the link.
    Return,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    Watching,
    /// The link is being opened.
    Opening,
    /// The session uses the link.
    Trying(Trying),
}

#[derive(Clone, Copy, Debug)]
struct Trying {
    /// What UDP carried in [`SIGNS`] intervals.
    on_udp: u64,
    began: Timestamp,
    /// Last call, and what had arrived by then.
    seen: (Timestamp, u64),
    /// Time in which the user waited for data, and what arrived in it.
    awaited: Duration,
    bytes: u64,
}

/// State of the trials of a session.
#[derive(Clone, Copy, Debug)]
pub struct LinkTrial {
    is_permitted: bool,
    /// Pause after the first trial that showed UDP as the better path, and after the next one.
    first_pause: Duration,
    pause: Duration,
    /// Time before which no trial begins.
    rests_until: Timestamp,
    progress: Progress,
    /// Start of the interval on UDP, and what had arrived by then; `None` while the session is not in use.
    interval: Option<(Timestamp, Arrived)>,
    /// Bytes of the newest intervals in a row with signs of a limit, the oldest first.
    limited: [u64; SIGNS],
    signs: usize,
}

impl LinkTrial {
    /// A session without a trial yet. After a trial that shows UDP as the better path, the next one begins after `pause` at the
    /// earliest; the pause doubles each time, up to half an hour.
    pub const fn new(pause: Duration, is_permitted: bool) -> Self {
        Self {
            is_permitted,
            first_pause: pause,
            pause,
            rests_until: Timestamp::ZERO,
            progress: Progress::Watching,
            interval: None,
            limited: [0; SIGNS],
            signs: 0,
        }
    }

    /// Permits trials, or begins no more of them.
    pub const fn permit(&mut self, is_permitted: bool) {
        self.is_permitted = is_permitted;
    }

    /// True if the session may spend some kilobytes for a better path.
    pub const fn is_permitted(&self) -> bool {
        self.is_permitted
    }

    /// True while the link is being opened for a trial.
    pub const fn is_opening(&self) -> bool {
        matches!(self.progress, Progress::Opening)
    }

    /// True while the session uses the link without a result.
    pub const fn is_trying(&self) -> bool {
        matches!(self.progress, Progress::Trying(_))
    }

    /// The session has changed to the link.
    pub fn on_changed(&mut self, now: Timestamp, arrived: Arrived) {
        self.progress = Progress::Trying(Trying {
            on_udp: self.carried(),
            began: now,
            seen: (now, arrived.bytes),
            awaited: Duration::ZERO,
            bytes: 0,
        });
    }

    /// The link could not be opened, or has ended.
    pub fn on_link_lost(&mut self, now: Timestamp) {
        if !matches!(self.progress, Progress::Watching) {
            self.rest(now);
        }
    }

    /// The session has changed its path for another reason, such as the silence of UDP.
    pub fn cancel(&mut self) {
        self.progress = Progress::Watching;
        self.forget();
    }

    /// Another network may limit nothing.
    pub fn on_network_change(&mut self) {
        self.pause = self.first_pause;
        self.rests_until = Timestamp::ZERO;
        self.cancel();
    }

    /// What UDP carries in [`SIGNS`] intervals: the first of them may have begun before the limit.
    fn carried(&self) -> u64 {
        let mut limited = self.limited;
        limited.sort_unstable();
        limited[SIGNS / 2] * SIGNS as u64
    }

    fn rest(&mut self, now: Timestamp) {
        self.rests_until = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.cancel();
    }

    fn forget(&mut self) {
        self.interval = None;
        self.signs = 0;
    }

    /// False if [`Self::poll`] would do nothing: the counters that it needs cost some time. `is_busy`: the user waits for data,
    /// and the path in use answers.
    pub fn is_due(&self, now: Timestamp, is_busy: bool) -> bool {
        match self.progress {
            Progress::Watching if is_busy => {
                let is_over = |(since, _): (Timestamp, Arrived)| now >= since + INTERVAL;
                self.is_permitted && now >= self.rests_until && self.interval.is_none_or(is_over)
            }
            Progress::Watching => self.interval.is_some(),
            Progress::Opening | Progress::Trying(_) => true,
        }
    }

    /// The next step, if it is due; to be called whenever something has arrived.
    pub fn poll(&mut self, now: Timestamp, situation: TrialSituation) -> Option<TrialStep> {
        match self.progress {
            Progress::Watching | Progress::Opening if !situation.is_on_udp => {
                self.cancel();
                None
            }
            Progress::Watching => self.watch(now, situation),
            Progress::Opening => None,
            Progress::Trying(_) if situation.is_on_udp => {
                self.cancel();
                None
            }
            Progress::Trying(trying) => self.compare(now, trying, situation),
        }
    }

    fn watch(&mut self, now: Timestamp, situation: TrialSituation) -> Option<TrialStep> {
        let is_busy = situation.is_awaited && !situation.is_silent;
        if !self.is_permitted || !is_busy || now < self.rests_until {
            self.forget();
            return None;
        }
        let (since, before) = *self.interval.get_or_insert((now, situation.arrived));
        if now.saturating_since(since) < INTERVAL {
            return None;
        }
        let of = situation.arrived.since(before);
        self.interval = Some((now, situation.arrived));
        let all = of.packets + of.lost;
        let is_heavy = all >= LEAST_PACKETS && of.lost * HEAVY.1 >= all * HEAVY.0;
        // An interval that is much too long contains an outage.
        if !(situation.is_loss_limited || is_heavy) || now.saturating_since(since) > INTERVAL * 2 {
            self.signs = 0;
            return None;
        }
        self.limited.rotate_left(1);
        self.limited[SIGNS - 1] = of.bytes;
        self.signs += 1;
        if self.signs < SIGNS {
            return None;
        }
        self.progress = Progress::Opening;
        Some(TrialStep::Open)
    }

    fn compare(&mut self, now: Timestamp, before: Trying, situation: TrialSituation) -> Option<TrialStep> {
        let mut trying = before;
        if situation.is_awaited {
            trying.awaited += now.saturating_since(before.seen.0);
            trying.bytes += situation.arrived.bytes.saturating_sub(before.seen.1);
        }
        trying.seen = (now, situation.arrived.bytes);
        self.progress = Progress::Trying(trying);
        if trying.bytes >= trying.on_udp * LEAST_GAIN {
            self.cancel();
            return Some(TrialStep::Keep);
        }
        let is_hopeless = trying.awaited >= HOPELESS_AFTER && trying.bytes * HOPELESS_PART < trying.on_udp;
        if situation.is_silent || is_hopeless || trying.awaited >= TRIAL {
            self.rest(now);
            return Some(TrialStep::Return);
        }
        if now.saturating_since(trying.began) >= LONGEST {
            self.cancel();
        }
        None
    }

    /// Time of the next call of [`Self::poll`], if nothing arrives before.
    pub fn due(&self) -> Option<Timestamp> {
        match self.progress {
            Progress::Watching => self.interval.map(|(since, _)| since + INTERVAL),
            Progress::Opening => None,
            Progress::Trying(trying) => {
                let next = if trying.awaited < HOPELESS_AFTER {
                    HOPELESS_AFTER
                } else {
                    TRIAL
                };
                Some(trying.seen.0 + next.saturating_sub(trying.awaited))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(60);

    /// A session with a download whose path carries so much, in steps of 100 ms.
    struct Download {
        trial: LinkTrial,
        now: Timestamp,
        situation: TrialSituation,
        steps: Vec<TrialStep>,
    }

    impl Download {
        fn new() -> Self {
            Self {
                trial: LinkTrial::new(PAUSE, true),
                now: Timestamp::ZERO,
                situation: TrialSituation {
                    is_on_udp: true,
                    is_awaited: true,
                    is_silent: false,
                    is_loss_limited: false,
                    arrived: Arrived::default(),
                },
                steps: Vec::new(),
            }
        }

        /// Goes on for this time, in which `rate` bytes a second arrive and `lost` of a hundred packets are lost.
        fn run(&mut self, time: Duration, rate: u64, lost: u64) {
            let end = self.now + time;
            while self.now < end {
                self.now += Duration::from_millis(100);
                self.situation.arrived.bytes += rate / 10;
                self.situation.arrived.packets += 100 - lost;
                self.situation.arrived.lost += lost;
                if let Some(step) = self.trial.poll(self.now, self.situation) {
                    self.steps.push(step);
                    self.situation.is_on_udp |= step == TrialStep::Return;
                }
            }
        }

        fn change(&mut self) {
            self.trial.on_changed(self.now, self.situation.arrived);
            self.situation.is_on_udp = false;
        }
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn signs_in_three_seconds_in_a_row_begin_a_trial() {
        let mut download = Download::new();
        download.run(seconds(30), 60_000, 20);
        assert_eq!(download.steps, [], "losses that do not bound the rate");
        download.situation.is_loss_limited = true;
        download.run(seconds(2), 60_000, 0);
        download.situation.is_loss_limited = false;
        download.run(seconds(2), 60_000, 0);
        assert_eq!(download.steps, [], "for two seconds only");
        download.run(seconds(4), 60_000, 50);
        assert_eq!(download.steps, [TrialStep::Open], "heavy losses");
        assert!(download.trial.is_opening());
    }

    #[test]
    fn nothing_is_tried_while_nobody_waits_or_it_is_not_permitted() {
        for (is_awaited, is_permitted) in [(false, true), (true, false)] {
            let mut download = Download::new();
            download.trial.permit(is_permitted);
            download.situation.is_awaited = is_awaited;
            download.situation.is_loss_limited = true;
            download.run(seconds(60), 60_000, 50);
            assert_eq!(download.steps, []);
        }
    }

    fn tried(rate_on_link: u64) -> Download {
        let mut download = Download::new();
        download.situation.is_loss_limited = true;
        download.run(seconds(4), 60_000, 10);
        assert_eq!(download.steps, [TrialStep::Open]);
        download.change();
        download.run(seconds(10), rate_on_link, 0);
        download
    }

    #[test]
    fn the_link_is_kept_if_it_carries_half_as_much_again() {
        for (rate, step) in [
            (100_000, TrialStep::Keep),
            (85_000, TrialStep::Return),
            (0, TrialStep::Return),
        ] {
            let download = tried(rate);
            assert_eq!(download.steps, [TrialStep::Open, step], "{rate}");
        }
    }

    #[test]
    fn a_link_that_carries_nothing_is_left_after_two_seconds_and_a_silent_one_at_once() {
        for silent in [false, true] {
            let mut download = Download::new();
            download.situation.is_loss_limited = true;
            download.run(seconds(4), 60_000, 10);
            download.change();
            let began = download.now;
            download.situation.is_silent = silent;
            while download.steps.len() < 2 {
                download.run(Duration::from_millis(100), 0, 0);
            }
            let expected = if silent {
                Duration::from_millis(100)
            } else {
                seconds(2)
            };
            assert_eq!(download.now - began, expected);
        }
    }

    #[test]
    fn trials_in_vain_become_rare_until_the_network_changes() {
        let mut download = Download::new();
        download.situation.is_loss_limited = true;
        let mut began = Vec::new();
        while download.now < Timestamp::ZERO + seconds(7200) {
            let before = download.steps.len();
            download.run(Duration::from_millis(100), 60_000, 10);
            if download.steps.len() > before && download.steps.last() == Some(&TrialStep::Open) {
                began.push((download.now - Timestamp::ZERO).as_secs());
                download.change();
            }
        }
        assert!(began.len() <= 8, "{began:?}");
        assert!(began.windows(2).all(|pair| pair[1] - pair[0] >= 60), "{began:?}");
        download.trial.on_network_change();
        download.situation.is_on_udp = true;
        let before = download.steps.len();
        download.run(seconds(5), 60_000, 10);
        assert_eq!(download.steps.len(), before + 1);
    }

    #[test]
    fn time_without_a_waiting_user_does_not_count() {
        let mut download = Download::new();
        download.situation.is_loss_limited = true;
        download.run(seconds(4), 60_000, 10);
        download.change();
        download.run(seconds(1), 60_000, 0);
        download.situation.is_awaited = false;
        download.run(seconds(50), 0, 0);
        assert!(download.trial.is_trying());
        download.situation.is_awaited = true;
        download.run(seconds(1), 1_000_000, 0);
        assert_eq!(download.steps, [TrialStep::Open, TrialStep::Keep]);
        // A trial that stays without a result ends; the session stays on the link, and returns by the usual rules.
        let mut download = Download::new();
        download.situation.is_loss_limited = true;
        download.run(seconds(4), 60_000, 10);
        download.change();
        download.situation.is_awaited = false;
        download.run(seconds(70), 0, 0);
        assert!(!download.trial.is_trying());
        assert_eq!(download.steps, [TrialStep::Open]);
    }

    #[test]
    fn a_link_that_cannot_be_opened_is_a_trial_in_vain() {
        let mut download = Download::new();
        download.situation.is_loss_limited = true;
        download.run(seconds(4), 60_000, 10);
        download.trial.on_link_lost(download.now);
        download.run(seconds(59), 60_000, 10);
        assert_eq!(download.steps, [TrialStep::Open]);
        download.run(seconds(6), 60_000, 10);
        assert_eq!(download.steps, [TrialStep::Open, TrialStep::Open]);
    }
}

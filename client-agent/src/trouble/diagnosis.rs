//! Conclusions from the observations of the hop. Pure: time is an argument.
use std::time::Duration;

use tokio::time::Instant;

use super::{ClockDifference, Trouble};

/// Time without an answer after which a hop counts as silent: three times the round trip of the slowest
/// links, and short enough that a user who looks into the status finds the reason there.
pub const SILENCE: Duration = Duration::from_secs(3);

/// A trouble and its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownTrouble {
    /// The trouble.
    pub trouble: Trouble,
    /// Its beginning. A trouble that is found again keeps its beginning.
    pub since: Instant,
}

/// What is known about the hop.
///
/// Calls: [`Self::expect_answer`] when an attempt or a stall begins; [`Self::found`] for each observation;
/// [`Self::handle_timeout`] at [`Self::poll_timeout`]; [`Self::answered`] when the gateway answers.
#[derive(Debug, Default)]
pub struct Diagnosis {
    hop: Option<KnownTrouble>,
    clock: Option<KnownTrouble>,
    /// Beginning of the current wait for an answer.
    waiting_since: Option<Instant>,
    /// True if the current wait has shown more than silence.
    has_evidence: bool,
    /// Kinds that were reported since the last answer. A hop that changes between two kinds reports each once.
    reported: Vec<&'static str>,
}

impl Diagnosis {
    /// Begins a wait for the gateway's answer.
    pub fn expect_answer(&mut self, now: Instant) {
        self.waiting_since = Some(now);
        self.has_evidence = false;
    }

    /// Time of the next call of [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        let is_known = self.has_evidence || self.is_silent();
        self.waiting_since
            .filter(|_| !is_known)
            .map(|since| since + SILENCE)
    }

    /// Concludes that the hop is silent if the wait has lasted long enough: `silence` is then what is known. Returns
    /// the trouble if it is news.
    pub fn handle_timeout(&mut self, now: Instant, silence: Trouble) -> Option<Trouble> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        self.found(now, silence)
    }

    /// Records an observation. Returns the trouble if it is news: then it belongs into the log.
    pub fn found(&mut self, now: Instant, trouble: Trouble) -> Option<Trouble> {
        let is_silence = matches!(trouble, Trouble::Silent(_));
        // The end of a silent wait says less than what was observed meanwhile.
        if is_silence && self.has_evidence {
            return None;
        }
        self.has_evidence |= !is_silence;
        let began = if is_silence {
            self.waiting_since.unwrap_or(now)
        } else {
            now
        };
        let since = match &self.hop {
            Some(known) if known.trouble.kind() == trouble.kind() => known.since,
            Some(_) | None => began,
        };
        self.hop = Some(KnownTrouble {
            trouble: trouble.clone(),
            since,
        });
        self.report(trouble)
    }

    /// Records that a look for the cause found nothing although the wait goes on: earlier evidence of it no
    /// longer holds.
    pub fn found_nothing(&mut self) {
        self.has_evidence = false;
    }

    /// Records that the gateway answered.
    pub fn answered(&mut self) {
        self.hop = None;
        self.waiting_since = None;
        self.has_evidence = false;
        self.reported.clear();
    }

    /// Records the comparison of the clocks at the beginning of a session. Returns the trouble if it is news.
    pub fn compared_clocks(&mut self, now: Instant, difference: Option<ClockDifference>) -> Option<Trouble> {
        let was_off = self.clock.take();
        let trouble = Trouble::ClockOff(difference?);
        let is_news = was_off.is_none();
        self.clock = Some(KnownTrouble {
            trouble: trouble.clone(),
            since: was_off.map_or(now, |known| known.since),
        });
        is_news.then_some(trouble)
    }

    /// The trouble at present: of the hop, else of the clock.
    pub fn current(&self) -> Option<&KnownTrouble> {
        self.hop.as_ref().or(self.clock.as_ref())
    }

    fn is_silent(&self) -> bool {
        self.hop
            .as_ref()
            .is_some_and(|known| matches!(known.trouble, Trouble::Silent(_)))
    }

    fn report(&mut self, trouble: Trouble) -> Option<Trouble> {
        let kind = trouble.kind();
        if self.reported.contains(&kind) {
            return None;
        }
        self.reported.push(kind);
        Some(trouble)
    }
}

//! Pauses after another agent with this device's key took the session over.
//!
//! A device has one session. Two agents that both opened sessions at once would end each other's without end.
use std::time::Duration;

/// Minimum pause after the first takeover: the agent that is in use may take the session back.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// Maximum of the minimum pause, which doubles with each takeover.
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Pause while no request arrives: the other agent may have ended.
pub(super) const IDLE_PAUSE: Duration = Duration::from_secs(15 * 60);
/// Duration of a session after which earlier takeovers no longer count.
const UNDISTURBED: Duration = Duration::from_secs(600);

/// The takeovers that followed each other.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Takeovers(u32);

impl Takeovers {
    /// Records the takeover of a session that lasted so long.
    pub(super) fn record(&mut self, lasted: Duration) {
        self.0 = if lasted < UNDISTURBED {
            self.0.saturating_add(1)
        } else {
            1
        };
    }

    /// Minimum pause before this agent opens another session, even if requests wait.
    pub(super) fn pause(self) -> Duration {
        let doublings = self.0.saturating_sub(1).min(16);
        (FIRST_PAUSE * 2u32.pow(doublings)).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit_until_a_session_was_undisturbed() {
        let mut takeovers = Takeovers::default();
        let pauses: Vec<u64> = (0..9)
            .map(|_| {
                takeovers.record(Duration::from_secs(60));
                takeovers.pause().as_secs()
            })
            .collect();
        assert_eq!(pauses, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        takeovers.record(UNDISTURBED);
        assert_eq!(takeovers.pause(), FIRST_PAUSE);
        let mut many = Takeovers(u32::MAX);
        many.record(Duration::ZERO);
        assert_eq!(many.pause(), LONGEST_PAUSE);
    }
}

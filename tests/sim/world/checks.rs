//! Checks of timers and memory during a run, and the description of a run that fails.
use std::time::Duration;

use longhaul_types::Timestamp;

use super::World;

/// Maximum time to the next timer of a side that is not done.
const LONGEST_TIMER: Duration = Duration::from_secs(60);

impl World {
    /// State of both sides, for failure messages.
    pub(crate) fn describe(&mut self) -> String {
        let mut text = format!("at {:?}", self.now - Timestamp::ZERO);
        for side in [&mut self.agent, &mut self.gateway] {
            let stats = side.stats();
            let events: Vec<_> = side.events.iter().rev().take(4).collect();
            text += &format!(
                "\n  {}\n    {stats:?}\n    {:?}\n    last events {events:?}",
                side.application.describe(),
                side.endpoint.counters()
            );
        }
        text
    }

    /// A side that waits must have a timer; otherwise a lost datagram would block it for ever.
    pub(super) fn check_timers(&self) {
        for (side, name) in [(&self.agent, "agent"), (&self.gateway, "gateway")] {
            if side.handle.is_none() || side.application.is_done() {
                continue;
            }
            let own = side.application.next_action();
            let next = side.endpoint.poll_timeout().into_iter().chain(own).min();
            // A gateway that only expects data may wait without a timer, because the agent sends keepalives.
            if name == "agent" {
                assert!(
                    next.is_some_and(|at| at - self.now <= LONGEST_TIMER),
                    "the {name}'s next timer is {next:?} at {:?}",
                    self.now
                );
            }
        }
    }

    /// Checks that the streams of a side hold no more than the configured limits.
    pub(super) fn watch_memory(&mut self) {
        /// Reading the counters of a session wakes it up, so they are read rarely enough that its own timers
        /// are tested.
        const EVERY: u64 = 61;
        self.steps += 1;
        if !self.steps.is_multiple_of(EVERY) {
            return;
        }
        let bounds = self.bounds;
        for (side, bounds) in [(&mut self.agent, bounds[0]), (&mut self.gateway, bounds[1])] {
            let Some(stats) = side.stats() else { continue };
            assert!(
                stats.receive_buffered <= bounds.received,
                "{} bytes received and not read",
                stats.receive_buffered
            );
            assert!(
                stats.send_buffered <= bounds.to_send,
                "{} bytes to be sent",
                stats.send_buffered
            );
        }
    }
}

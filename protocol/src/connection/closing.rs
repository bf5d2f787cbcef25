//! End of a connection: CLOSE, and the time in which late packets are answered (transport.md section 7.4).
use std::time::Duration;

use longhaul_types::Timestamp;

use super::{Connection, Keys, Lifecycle, timer::Timer};
use crate::endpoint::{CloseReason, Event};

impl Connection {
    /// Handles CLOSE of the peer.
    pub(super) fn closed_by_peer(&mut self, now: Timestamp, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.lifecycle = Lifecycle::Draining;
        self.drain_from(now);
    }

    fn drain_from(&mut self, now: Timestamp) {
        let drain = (self.probe_timeout() * 3).max(Duration::from_secs(1));
        self.timers.set(Timer::Drain, Some(now + drain));
        self.rearm();
    }

    /// Repeats CLOSE for a packet that the peer sent before it received CLOSE.
    pub(super) const fn on_late_packet(&mut self) {
        if let Lifecycle::Closing { due, answers, .. } = &mut self.lifecycle
            && *answers > 0
        {
            *answers -= 1;
            *due = true;
        }
    }

    pub(super) fn end(&mut self, reason: CloseReason) {
        self.events.push_back(Event::Closed(reason));
        self.lifecycle = Lifecycle::Drained;
        self.timers.clear();
    }

    /// Closes the session: sends CLOSE to the peer and answers late packets for a while.
    pub(super) fn close_with(&mut self, now: Timestamp, error: u64, reason: String, event: CloseReason) {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return;
        }
        self.events.push_back(Event::Closed(event));
        if matches!(self.keys, Keys::Early { .. }) {
            self.lifecycle = Lifecycle::Drained;
            self.timers.clear();
            return;
        }
        self.lifecycle = Lifecycle::Closing {
            error,
            reason,
            due: true,
            answers: 3,
        };
        self.drain_from(now);
    }

    /// Returns true if the connection is closed and answers no more packets, so that the endpoint may drop
    /// it.
    pub(crate) const fn is_drained(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Drained)
    }

    /// Returns true if the peer closed the connection, which sends nothing any more.
    pub(crate) const fn is_draining(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Draining)
    }
}

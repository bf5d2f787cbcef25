//! Pauses between attempts.
use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use tokio::time::{Instant, sleep};

use super::Dialer;
use crate::{gateway::takeovers::IDLE_PAUSE, trouble::Trouble};

/// First pause between attempts; it doubles after each attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Maximum pause while requests wait.
const PAUSE_WANTED: Duration = Duration::from_secs(3);
/// Maximum pause while no request waits: short enough to reconnect soon, long enough to cost little.
const PAUSE_IDLE: Duration = Duration::from_secs(15);
/// Maximum pause without a route: an attempt costs nothing then.
const PAUSE_OFFLINE: Duration = Duration::from_secs(3);
/// Maximum pause after a refusal, which only the operator can resolve.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);

impl Dialer {
    /// Waits until a request arrives, but at least the time that keeps two agents with one key from ending
    /// each other's sessions all the time.
    pub(super) async fn pause_after_takeover(&self) {
        let arrived = self.demand.arrived.notified();
        sleep(self.takeovers.pause()).await;
        if self.demand.waiting.load(Relaxed) > 0 {
            return;
        }
        tokio::select! {
            () = sleep(IDLE_PAUSE) => {}
            () = arrived => {}
        }
    }

    /// Waits before the next attempt; the pause is shorter if requests wait or arrive, or if the network changes.
    pub(super) async fn pause(&mut self) {
        let grown = FIRST_PAUSE * 2u32.saturating_pow(self.failures.min(10));
        let (refused, offline) = {
            let view = self.view.borrow();
            let offline = matches!(view.trouble(), Some(Trouble::Offline(_)));
            (view.is_refused(), offline)
        };
        let short = grown.min(PAUSE_WANTED);
        let long = grown.min(match (refused, offline) {
            (true, _) => PAUSE_REFUSED,
            (false, true) => PAUSE_OFFLINE,
            (false, false) => PAUSE_IDLE,
        });
        let arrived = self.demand.arrived.notified();
        let started = Instant::now();
        sleep(short).await;
        if self.demand.waiting.load(Relaxed) > 0 && !refused {
            return;
        }
        tokio::select! {
            () = sleep(long.saturating_sub(started.elapsed())) => {}
            () = arrived => {}
            () = self.link.watch.notified() => {}
        }
    }
}

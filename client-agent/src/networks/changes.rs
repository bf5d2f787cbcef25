//! Notices when this computer may have changed its network.
//!
//! Three things make the agent look at its way to the gateway: a notification of the kernel (Linux), a time, and a
//! suspension of the computer. Which network it is, only the look shows.
use std::time::Duration;
#[cfg(not(target_os = "linux"))]
use std::time::SystemTime;

use tokio::time::{Instant, sleep_until};
use tracing::debug;

#[cfg(target_os = "linux")]
use super::netlink::Notifications;

/// Time between two looks while the session is in use: a missed notification must not cost more.
const WHILE_ACTIVE: Duration = Duration::from_secs(5);
/// The same while it is idle: the interval of the keepalives.
const WHILE_IDLE: Duration = Duration::from_secs(25);
/// Time after a notification in which further ones count as the same change: a new lease changes interface, address
/// and routes within milliseconds.
const SETTLING: Duration = Duration::from_millis(100);
/// Difference of the clocks beyond which the computer was suspended: no ordinary pause of a process looks like it.
const SUSPENSION: Duration = Duration::from_secs(2);

/// Reason for a look at the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// Interfaces, addresses or routes have changed, or it is time.
    Look,
    /// The computer was suspended.
    Resumed,
}

/// The triggers of looks at the network.
#[derive(Debug)]
pub(crate) struct NetworkWatch {
    #[cfg(target_os = "linux")]
    notifications: Option<Notifications>,
    /// End of the time in which notifications count as one change.
    settles_at: Option<Instant>,
    clocks: Clocks,
    last_look: Instant,
}

impl NetworkWatch {
    /// Begins to watch. Must be called in the runtime that waits for changes.
    pub(crate) fn start() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            notifications: Notifications::subscribe()
                .inspect_err(|error| debug!(%error, "no notifications of network changes: looking every 5 s"))
                .ok(),
            settles_at: None,
            clocks: Clocks::now(),
            last_look: Instant::now(),
        }
    }

    /// Waits for the next reason to look. `is_active` says whether the session is in use by now: it may be idle when the
    /// wait begins, and busy later. Cancel safe.
    pub(crate) async fn next(&mut self, is_active: impl Fn() -> bool) -> Wake {
        let last_look = self.last_look;
        tokio::select! {
            () = Self::due(last_look, is_active) => {}
            () = self.notified() => {}
        }
        self.last_look = Instant::now();
        if self.clocks.jumped() {
            Wake::Resumed
        } else {
            Wake::Look
        }
    }

    /// Waits for the end of the time between two looks.
    async fn due(last_look: Instant, is_active: impl Fn() -> bool) {
        let idle = last_look + WHILE_IDLE;
        let mut due = last_look;
        while due < idle {
            due += WHILE_ACTIVE;
            sleep_until(due).await;
            if is_active() {
                return;
            }
        }
    }

    /// Waits for a change of interfaces, addresses or routes, and for those that follow it at once. Cancel safe.
    pub(crate) async fn notified(&mut self) {
        if self.settles_at.is_none() {
            self.notification().await;
            self.settles_at = Some(Instant::now() + SETTLING);
        }
        if let Some(settles_at) = self.settles_at {
            sleep_until(settles_at).await;
            self.settles_at = None;
        }
    }

    #[cfg(target_os = "linux")]
    async fn notification(&mut self) {
        if let Some(notifications) = &self.notifications {
            match notifications.next().await {
                Ok(()) => return,
                Err(error) => debug!(%error, "no more notifications of network changes"),
            }
        }
        self.notifications = None;
        std::future::pending().await
    }

    /// This system does not report changes.
    #[cfg(not(target_os = "linux"))]
    async fn notification(&mut self) {
        std::future::pending().await
    }
}

/// Two clocks, of which one stands still while the computer is suspended.
#[derive(Clone, Copy, Debug)]
struct Clocks {
    running: Duration,
    standing: Duration,
}

impl Clocks {
    fn now() -> Self {
        let (running, standing) = read_clocks();
        Self { running, standing }
    }

    /// True if the computer was suspended since the last call.
    fn jumped(&mut self) -> bool {
        let before = std::mem::replace(self, Self::now());
        let running = self.running.saturating_sub(before.running);
        let standing = self.standing.saturating_sub(before.standing);
        running.saturating_sub(standing) >= SUSPENSION
    }
}

/// The time since the start of the computer, with and without its suspensions.
#[cfg(target_os = "linux")]
fn read_clocks() -> (Duration, Duration) {
    use nix::time::{ClockId, clock_gettime};

    let read = |clock| clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
    (read(ClockId::CLOCK_BOOTTIME), read(ClockId::CLOCK_MONOTONIC))
}

/// The wall clock and the monotonic clock: setting the wall clock looks like a suspension, which only causes a look.
#[cfg(not(target_os = "linux"))]
fn read_clocks() -> (Duration, Duration) {
    use std::sync::LazyLock;

    static ORIGIN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (wall.unwrap_or_default(), ORIGIN.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspension_is_a_difference_of_the_clocks() {
        let mut clocks = Clocks::now();
        assert!(!clocks.jumped());
        clocks.running = clocks.running.saturating_sub(SUSPENSION * 2);
        assert!(clocks.jumped());
        assert!(!clocks.jumped(), "once for each suspension");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_between_looks_depends_on_the_use() {
        let mut watch = NetworkWatch::start();
        #[cfg(target_os = "linux")]
        {
            watch.notifications = None;
        }
        for (is_active, time) in [(true, WHILE_ACTIVE), (false, WHILE_IDLE)] {
            let started = Instant::now();
            assert_eq!(watch.next(|| is_active).await, Wake::Look);
            assert!(started.elapsed() >= time && started.elapsed() < time + Duration::from_millis(10));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_becomes_busy_is_looked_at_sooner() {
        let mut watch = NetworkWatch::start();
        #[cfg(target_os = "linux")]
        {
            watch.notifications = None;
        }
        let started = Instant::now();
        let busy_from = started + Duration::from_secs(7);
        assert_eq!(watch.next(|| Instant::now() >= busy_from).await, Wake::Look);
        let elapsed = started.elapsed();
        assert!(elapsed >= WHILE_ACTIVE * 2 && elapsed < WHILE_ACTIVE * 2 + Duration::from_millis(10));
        // A wait that is given up and begun again goes on from the last look.
        let begun = watch.last_look;
        for _ in 0..3 {
            let waited = tokio::time::timeout(Duration::from_secs(3), watch.next(|| false)).await;
            assert!(waited.is_err());
        }
        assert_eq!(watch.next(|| true).await, Wake::Look);
        assert_eq!(begun.elapsed().as_secs(), 9);
    }
}

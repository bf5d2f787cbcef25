//! Messages to the service manager.
use std::{fmt, time::Duration};

/// Shortest interval of the watchdog's messages, for a variable with a senseless time.
const SHORTEST: Duration = Duration::from_millis(1);

/// A message to the service manager (sd_notify(3)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notification {
    /// The service works; a text for people.
    Ready(String),
    /// The service reads its configuration again.
    Reloading,
    /// The service ends.
    Stopping,
    /// The service is not hung.
    Alive,
}

/// The service manager that started this process, or none.
pub struct ServiceManager {
    pub(crate) send: Box<dyn Fn(&Notification) + Send + Sync>,
    /// Time without [`Notification::Alive`] after which the service manager ends the process.
    pub(crate) watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The service manager of this process: systemd if the variable NOTIFY_SOCKET is set. Without it, nothing is
    /// sent.
    pub fn of_process() -> Self {
        crate::service_manager_of_process::of_process()
    }

    /// Interval of [`Notification::Alive`]: half of the time that is allowed, as sd_watchdog_enabled(3)
    /// recommends.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|time| (time / 2).max(SHORTEST))
    }
}

impl fmt::Debug for ServiceManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceManager")
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}

//! The service manager on Unix: systemd, or another program with the same protocol (sd_notify(3)).
use sd_notify::NotifyState;
use tracing::debug;

use crate::{ServiceManager, service_manager::Notification};

pub(crate) fn of_process() -> ServiceManager {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return ServiceManager {
            send: Box::new(|_| {}),
            watchdog: None,
        };
    }
    ServiceManager {
        send: Box::new(send),
        watchdog: sd_notify::watchdog_enabled(),
    }
}

fn send(notification: &Notification) {
    let sent = match notification {
        Notification::Ready(status) => sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]),
        Notification::Reloading => reloading(),
        Notification::Stopping => {
            sd_notify::notify(&[NotifyState::Stopping, NotifyState::Status("ending all sessions")])
        }
        Notification::Alive => sd_notify::notify(&[NotifyState::Watchdog]),
    };
    if let Err(error) = sent {
        // The service works without its manager.
        debug!(%error, "the service manager cannot be told the state");
    }
}

/// Type=notify-reload requires the time of the monotonic clock.
fn reloading() -> std::io::Result<()> {
    let now = NotifyState::monotonic_usec_now()?;
    sd_notify::notify(&[
        NotifyState::Reloading,
        now,
        NotifyState::Status("reading the configuration again"),
    ])
}

//! Whether the hop of a device works, as the device's sessions report it.
use std::{collections::BTreeMap, sync::Arc};

use longhaul_types::PublicKey;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Hops of the devices that have sessions or bodies in progress.
#[derive(Debug, Default)]
pub(super) struct DeviceHops(Mutex<BTreeMap<PublicKey, watch::Sender<OpenSessions>>>);

/// Sessions of one device.
#[derive(Clone, Copy, Debug, Default)]
struct OpenSessions {
    all: usize,
    /// Those whose hop works.
    working: usize,
}

/// The hop of one session, from its beginning to its end.
#[derive(Debug)]
pub struct SessionHop {
    hops: Arc<DeviceHops>,
    device: PublicKey,
    is_away: bool,
}

/// Changes of a device's hop.
#[derive(Debug)]
pub(super) struct HopWatch(watch::Receiver<OpenSessions>);

impl DeviceHops {
    /// Adds a session, whose hop works.
    pub(super) fn enter(self: &Arc<Self>, device: PublicKey) -> SessionHop {
        self.change(device, |sessions| {
            sessions.all += 1;
            sessions.working += 1;
        });
        SessionHop {
            hops: Arc::clone(self),
            device,
            is_away: false,
        }
    }

    /// Watches the hop of a device.
    pub(super) fn watch(&self, device: PublicKey) -> HopWatch {
        HopWatch(self.0.lock().entry(device).or_default().subscribe())
    }

    fn change(&self, device: PublicKey, change: impl FnOnce(&mut OpenSessions)) {
        let mut devices = self.0.lock();
        devices.entry(device).or_default().send_modify(change);
        devices.retain(|_, sessions| sessions.borrow().all > 0 || sessions.receiver_count() > 0);
    }
}

impl SessionHop {
    /// Records whether the hop is away: the device can receive nothing.
    pub fn set_away(&mut self, is_away: bool) {
        if self.is_away != is_away {
            self.is_away = is_away;
            self.hops.change(self.device, |sessions| {
                if is_away {
                    sessions.working -= 1;
                } else {
                    sessions.working += 1;
                }
            });
        }
    }
}

impl Drop for SessionHop {
    fn drop(&mut self) {
        let was_working = usize::from(!self.is_away);
        self.hops.change(self.device, |sessions| {
            sessions.all -= 1;
            sessions.working -= was_working;
        });
    }
}

impl HopWatch {
    /// Returns true if the device has sessions, and the hop of none of them works.
    pub(super) fn is_away(&mut self) -> bool {
        let sessions = *self.0.borrow_and_update();
        sessions.all > 0 && sessions.working == 0
    }

    /// Waits for a change since the last call of [`Self::is_away`]. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The entry exists as long as somebody watches it.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_away_if_no_hop_of_its_sessions_works() {
        let hops = Arc::new(DeviceHops::default());
        let (device, other) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
        let mut watch = hops.watch(device);
        assert!(!watch.is_away(), "no session");
        let (mut old, elsewhere) = (hops.enter(device), hops.enter(other));
        assert!(!watch.is_away());
        old.set_away(true);
        old.set_away(true);
        assert!(watch.is_away());
        let new = hops.enter(device);
        assert!(!watch.is_away(), "the agent opened another session");
        drop(new);
        assert!(watch.is_away());
        old.set_away(false);
        assert!(!watch.is_away());
        drop((old, elsewhere));
        assert!(!watch.is_away());
        drop(watch);
        drop(hops.enter(other));
        assert!(hops.0.lock().is_empty());
    }

    #[test]
    fn a_watch_outlives_the_sessions_of_its_device() {
        let hops = Arc::new(DeviceHops::default());
        let (device, other) = (PublicKey::from_bytes([1; 32]), PublicKey::from_bytes([2; 32]));
        let mut watch = hops.watch(device);
        drop(hops.enter(device));
        drop(hops.enter(other));
        let mut session = hops.enter(device);
        session.set_away(true);
        assert!(watch.is_away(), "the agent came back and lost its hop");
    }
}

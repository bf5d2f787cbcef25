//! The device list of a running gateway: applies each change to the transport at once.
use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use parking_lot::{Mutex, MutexGuard};

use longhaul_driver::Admission;
use longhaul_types::{DeviceId, PublicKey};
use tracing::{info, warn};

use crate::{
    admin::{device_usage, session_ledger::SessionLedger},
    admission::{
        devices::{Device, Devices, DevicesError, DevicesWatch, PendingInvite},
        state::{StateDir, StateError},
    },
    quota::Quotas,
};

/// The device list of a running gateway.
pub struct DeviceRegister {
    state: StateDir,
    admission: Admission,
    records: DeviceRecords,
    /// Held during a change, so that changes reach file and transport in the same order.
    list: tokio::sync::Mutex<AppliedList>,
    /// Invites without session, for the start of a session. Never held across a wait.
    pending: Mutex<BTreeMap<PublicKey, PendingInvite>>,
}

/// What a running gateway knows of devices beside the list.
pub struct DeviceRecords {
    /// Open sessions and activity.
    pub ledger: Arc<SessionLedger>,
    /// Quotas.
    pub quotas: Arc<Quotas>,
}

struct AppliedList {
    devices: Devices,
    watch: DevicesWatch,
}

/// What a device may do in a session that it has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionPurpose {
    /// Everything.
    Ordinary,
    /// Only replace the key of its one-time invite by its own key.
    KeyReplacement,
}

impl DeviceRegister {
    /// Reads the list.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn load(state: &StateDir) -> Result<(Devices, DevicesWatch), DevicesError> {
        Devices::remove_temporaries(state)?;
        let mut watch = DevicesWatch::new(state.clone());
        let devices = watch.look().transpose()?.unwrap_or_default();
        Ok((devices, watch))
    }

    /// Creates the register of a listener that admits the devices of this list already.
    pub fn new(
        state: StateDir,
        admission: Admission,
        loaded: (Devices, DevicesWatch),
        records: DeviceRecords,
    ) -> Self {
        let (devices, watch) = loaded;
        let pending = devices.pending_invites(SystemTime::now());
        Self {
            state,
            admission,
            records,
            list: tokio::sync::Mutex::new(AppliedList { devices, watch }),
            pending: Mutex::new(pending),
        }
    }

    /// Changes the file, and applies the new list: sessions of removed devices end at once.
    ///
    /// # Errors
    /// The file cannot be changed, or `change` returned an error.
    pub async fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Devices, &StateDir) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<DevicesError> + Send + 'static,
    {
        let mut list = self.list.lock().await;
        let state = self.state.clone();
        let written =
            tokio::task::spawn_blocking(move || Devices::updated(&state, |devices| change(devices, &state)));
        // The task panics only if the change does, which then has not been written.
        let written = written.await.map_err(|panic| {
            let source = std::io::Error::other(panic);
            let path = self.state.path().to_owned();
            E::from(DevicesError::Read { path, source })
        })?;
        let (outcome, devices) = written?;
        self.apply(&mut list, devices, SystemTime::now()).await;
        Ok(outcome)
    }

    /// Applies changes that other processes made, and the end of invites. Called about twice a second.
    pub async fn look(&self) {
        let now = SystemTime::now();
        let mut list = self.list.lock().await;
        match list.watch.look() {
            None => {}
            // The gateway's own change.
            Some(Ok(devices)) if devices == list.devices => {}
            Some(Ok(devices)) => {
                info!(devices = devices.iter().count(), "the list of devices changed");
                return self.apply(&mut list, devices, now).await;
            }
            Some(Err(error)) => {
                warn!(%error, "the list of devices cannot be used; the previous list stays in force");
            }
        }
        let expired: Vec<PublicKey> = {
            let pending = self.pending();
            let ended = pending.iter().filter(|(_, invite)| invite.expires <= now);
            ended.map(|(key, _)| *key).collect()
        };
        if !expired.is_empty() {
            for key in &expired {
                info!(device = %DeviceId::of(key), "an invite was not used in time and has expired");
            }
            let devices = list.devices.clone();
            self.apply(&mut list, devices, now).await;
        }
    }

    async fn apply(&self, list: &mut AppliedList, devices: Devices, now: SystemTime) {
        self.admission.set_devices(devices.statuses(now)).await;
        *self.pending() = devices.pending_invites(now);
        self.records.quotas.set_devices(&devices);
        list.devices = devices;
    }

    /// Notes that a device opened a session: its invite, if it came with one, does not expire any more.
    pub fn opened(self: &Arc<Self>, device: PublicKey) -> SessionPurpose {
        let mut pending = self.pending();
        match pending.get(&device) {
            None => SessionPurpose::Ordinary,
            Some(invite) if invite.is_one_time => SessionPurpose::KeyReplacement,
            Some(_) => {
                pending.remove(&device);
                // The session does not wait for the disk.
                tokio::spawn(Arc::clone(self).note_use(device));
                SessionPurpose::Ordinary
            }
        }
    }

    async fn note_use(self: Arc<Self>, device: PublicKey) {
        let noted = self.change(move |devices, _| {
            devices.note_use(&device);
            Ok::<_, DevicesError>(())
        });
        if let Err(error) = noted.await {
            warn!(%error, "the first use of an invite cannot be recorded; the invite may expire");
        }
    }

    /// Replaces the key of a one-time invite by the device's own key, and ends the sessions of the old key.
    ///
    /// # Errors
    /// The invite is no longer valid, or the file cannot be changed.
    pub async fn replace_key(&self, old: PublicKey, new: PublicKey) -> Result<Device, DevicesError> {
        self.change(move |devices, _| devices.replace_key(&old, new, SystemTime::now()))
            .await
    }

    /// The list as it is in force.
    pub async fn devices(&self) -> Devices {
        self.list.lock().await.devices.clone()
    }

    /// Writes what is known of the devices, if it has changed since the last call.
    ///
    /// # Errors
    /// The file cannot be written.
    pub async fn keep_usage(&self) -> Result<(), StateError> {
        let Some(usage) = self.records.ledger.take_changed() else {
            return Ok(());
        };
        let devices = self.devices().await;
        let state = self.state.clone();
        let clients = self.records.quotas.clients();
        let listed = devices.iter().map(|device| device.key).chain(clients).collect();
        let written = tokio::task::spawn_blocking(move || device_usage::store(&state, &usage, &listed)).await;
        // A panic would be a defect, which the runtime reports.
        let written = written.unwrap_or(Ok(()));
        if written.is_err() {
            self.records.ledger.not_kept();
        }
        written
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<PublicKey, PendingInvite>> {
        // No code can panic while the guarded data is inconsistent.
        self.pending.lock()
    }
}

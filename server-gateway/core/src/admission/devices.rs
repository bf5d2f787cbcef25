//! The admitted devices: `devices.toml` in the state directory, which operators and other processes may also
//! change.
//!
//! This file has the list and its changes, `file` its form on disk, `watch` finds changes by other processes.
mod file;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    io,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use longhaul_protocol::endpoint::DeviceStatus;
use longhaul_types::{DeviceId, PublicKey, is_misleading};

use super::state::{StateError, readable};
use crate::quota_limits::DeviceQuota;

pub use watch::DevicesWatch;

/// Maximum length of a device name, in characters.
const MAX_NAME: usize = 64;
/// Maximum number of devices: each takes about 150 bytes in memory and on disk, and each change rewrites the
/// file.
const MAX_DEVICES: usize = 100_000;

/// A device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Name that the operator chose.
    pub name: String,
    /// Static public key.
    pub key: PublicKey,
    /// Time of admission, as an HTTP date (RFC 9110 section 5.6.7).
    pub added: String,
    /// Time of revocation, if the device is revoked.
    pub revoked: Option<String>,
    /// The invite with this key, if no device has used it yet.
    pub invite: Option<PendingInvite>,
    /// Limits of the device.
    pub quota: DeviceQuota,
}

/// An invite that waits for its first session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingInvite {
    /// End of its validity, in whole seconds, as the file has it.
    pub expires: SystemTime,
    /// True if the first agent has to replace the key of the invite by its own (docs/protocol/session.md
    /// section 11).
    pub is_one_time: bool,
}

impl PendingInvite {
    /// An invite that is valid for a time from now, rounded up to a second.
    pub fn new(now: SystemTime, validity: Duration, is_one_time: bool) -> Self {
        let exact = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default() + validity;
        let seconds = exact.as_secs() + u64::from(exact.subsec_nanos() != 0);
        Self {
            expires: SystemTime::UNIX_EPOCH + Duration::from_secs(seconds),
            is_one_time,
        }
    }
}

/// Whether a device may open sessions, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// The device may open sessions.
    Admitted,
    /// The device may open sessions; no agent has used its invite yet.
    Invited,
    /// The invite has not been used in time.
    Expired,
    /// The operator removed the device, or another key replaced its key.
    Revoked,
}

impl DeviceState {
    /// The word for operators.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Invited => "invited",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
        }
    }
}

impl Device {
    /// State of the device at this time.
    pub fn state(&self, now: SystemTime) -> DeviceState {
        match (&self.revoked, &self.invite) {
            (Some(_), _) => DeviceState::Revoked,
            (None, None) => DeviceState::Admitted,
            (None, Some(invite)) if invite.expires <= now => DeviceState::Expired,
            (None, Some(_)) => DeviceState::Invited,
        }
    }

    /// The device's id.
    pub fn id(&self) -> DeviceId {
        DeviceId::of(&self.key)
    }

    fn is_called(&self, which: &str) -> bool {
        self.name == which || self.id().to_string() == which || self.key.to_string() == which
    }
}

/// The contents of `devices.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    devices: Vec<Device>,
}

/// Errors of reading or changing the device list.
#[derive(Debug, thiserror::Error)]
pub enum DevicesError {
    /// The file cannot be read, or the lock cannot be acquired.
    #[error("{path} cannot be read: {source}; {}", readable(source), path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is malformed.
    #[error("{path} is damaged: {problem}; correct it or restore it from a backup", path = path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        problem: String,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] StateError),
    /// The name is empty, too long or contains control characters.
    #[error("`{0}` cannot be the name of a device: a name has 1 to {MAX_NAME} printable characters")]
    BadName(String),
    /// Another admitted device has this name.
    #[error(
        "a device named `{0}` is admitted already; remove it first (`invite --replace` does both), or choose another name"
    )]
    NameTaken(String),
    /// The key is already in the list.
    #[error("the key is that of the device `{name}`{state}; every device needs its own key")]
    KeyTaken {
        /// Name of the device with this key.
        name: String,
        /// A note in the message if that device is revoked, else empty.
        state: &'static str,
    },
    /// No admitted device has this name, id or key.
    #[error("no admitted device has the name, id or key `{0}`; `longhaul-gateway device list` lists them")]
    NotFound(String),
    /// No device at all has this name, id or key.
    #[error("no device has the name, id or key `{0}`; `longhaul-gateway device list` lists them")]
    Unknown(String),
    /// The device is not removed.
    #[error("the device `{0}` is not removed, so there is nothing to restore")]
    NotRemoved(String),
    /// Several removed devices have this name.
    #[error("several removed devices are named `{name}`; restore one of them by its id: {ids}")]
    Ambiguous {
        /// The name.
        name: String,
        /// Their ids.
        ids: String,
    },
    /// The list is full.
    #[error("the list of devices is full ({MAX_DEVICES})")]
    Full,
}

impl Devices {
    /// Admits a device.
    ///
    /// # Errors
    /// The name or key is invalid or already in use, or the list is full.
    pub fn add(&mut self, name: &str, key: PublicKey, now: SystemTime) -> Result<(), DevicesError> {
        self.admit(name, key, None, now)
    }

    /// Admits a device whose key is in an invite.
    ///
    /// # Errors
    /// The name or key is invalid or already in use, or the list is full.
    pub fn invite(
        &mut self,
        name: &str,
        key: PublicKey,
        invite: PendingInvite,
        now: SystemTime,
    ) -> Result<(), DevicesError> {
        self.admit(name, key, Some(invite), now)
    }

    fn admit(
        &mut self,
        name: &str,
        key: PublicKey,
        invite: Option<PendingInvite>,
        now: SystemTime,
    ) -> Result<(), DevicesError> {
        check_name(name)?;
        if self.devices.len() >= MAX_DEVICES {
            return Err(DevicesError::Full);
        }
        if let Some(device) = self.devices.iter().find(|device| device.key == key) {
            let state = if device.revoked.is_some() {
                ", which is revoked"
            } else {
                ""
            };
            return Err(DevicesError::KeyTaken {
                name: device.name.clone(),
                state,
            });
        }
        self.check_free(name)?;
        self.devices.push(Device {
            name: name.to_owned(),
            key,
            added: httpdate::fmt_http_date(now),
            revoked: None,
            invite,
            quota: DeviceQuota::default(),
        });
        Ok(())
    }

    fn check_free(&self, name: &str) -> Result<(), DevicesError> {
        let is_taken = |device: &Device| device.revoked.is_none() && device.name == name;
        if self.devices.iter().any(is_taken) {
            return Err(DevicesError::NameTaken(name.to_owned()));
        }
        Ok(())
    }

    /// Revokes the admitted device with this name, id or key. It stays in the list, so that its agent is told.
    ///
    /// # Errors
    /// No admitted device matches.
    pub fn revoke(&mut self, which: &str, now: SystemTime) -> Result<Device, DevicesError> {
        let device = self.admitted(which)?;
        device.revoked = Some(httpdate::fmt_http_date(now));
        device.invite = None;
        Ok(device.clone())
    }

    /// Admits a removed device again, with the key that its agent has.
    ///
    /// # Errors
    /// No removed device matches, several have the name, or another admitted device has its name.
    pub fn restore(&mut self, which: &str) -> Result<Device, DevicesError> {
        let removed = self.devices.iter().enumerate();
        let removed: Vec<(usize, &Device)> = removed
            .filter(|(_, device)| device.revoked.is_some() && device.is_called(which))
            .collect();
        let (place, name) = match removed[..] {
            [(place, device)] => (place, device.name.clone()),
            [] if self.devices.iter().any(|device| device.is_called(which)) => {
                return Err(DevicesError::NotRemoved(which.to_owned()));
            }
            [] => return Err(DevicesError::Unknown(which.to_owned())),
            _ => {
                let ids: Vec<String> = removed
                    .iter()
                    .map(|(_, device)| device.id().to_string())
                    .collect();
                return Err(DevicesError::Ambiguous {
                    name: which.to_owned(),
                    ids: ids.join(", "),
                });
            }
        };
        self.check_free(&name)?;
        let device = self
            .devices
            .get_mut(place)
            .ok_or_else(|| DevicesError::Unknown(which.to_owned()))?;
        device.revoked = None;
        Ok(device.clone())
    }

    /// Changes the limits of the admitted device with this name, id or key.
    ///
    /// # Errors
    /// No admitted device matches.
    pub fn set_quota(
        &mut self,
        which: &str,
        change: impl FnOnce(&mut DeviceQuota),
    ) -> Result<Device, DevicesError> {
        let device = self.admitted(which)?;
        change(&mut device.quota);
        Ok(device.clone())
    }

    /// Gives the admitted device with this name, id or key another name.
    ///
    /// # Errors
    /// No admitted device matches, or the new name is invalid or in use.
    pub fn rename(&mut self, which: &str, name: &str) -> Result<Device, DevicesError> {
        check_name(name)?;
        let current = self.admitted(which)?.name.clone();
        if current != name {
            self.check_free(name)?;
        }
        let device = self.admitted(which)?;
        name.clone_into(&mut device.name);
        Ok(device.clone())
    }

    /// Notes that an agent has used the invite with this key, which from now on does not expire. A one-time
    /// invite stays, because its key is still to be replaced.
    pub fn note_use(&mut self, key: &PublicKey) {
        let device = self.devices.iter_mut().find(|device| device.key == *key);
        if let Some(device) = device {
            device.invite = device.invite.filter(|invite| invite.is_one_time);
        }
    }

    /// Replaces the key of a one-time invite by the device's own key.
    ///
    /// # Errors
    /// The invite is no longer valid, or the new key is in use.
    pub fn replace_key(
        &mut self,
        old: &PublicKey,
        new: PublicKey,
        now: SystemTime,
    ) -> Result<Device, DevicesError> {
        let is_pending = |device: &&Device| {
            device.key == *old
                && device.state(now) == DeviceState::Invited
                && device.invite.is_some_and(|invite| invite.is_one_time)
        };
        let device = self.devices.iter().find(is_pending).cloned();
        let device = device.ok_or_else(|| DevicesError::NotFound(DeviceId::of(old).to_string()))?;
        let mut changed = self.clone();
        changed.revoke(&old.to_string(), now)?;
        changed.add(&device.name, new, now)?;
        changed.set_quota(&new.to_string(), |quota| *quota = device.quota)?;
        *self = changed;
        Ok(device)
    }

    fn admitted(&mut self, which: &str) -> Result<&mut Device, DevicesError> {
        let mut admitted = self.devices.iter_mut().filter(|device| device.revoked.is_none());
        admitted
            .find(|device| device.is_called(which))
            .ok_or_else(|| DevicesError::NotFound(which.to_owned()))
    }

    /// The devices in the order of their admission.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter()
    }

    /// The invites that no agent has used, except expired ones.
    pub fn pending_invites(&self, now: SystemTime) -> BTreeMap<PublicKey, PendingInvite> {
        let invited = self
            .devices
            .iter()
            .filter(|device| device.state(now) == DeviceState::Invited);
        invited
            .filter_map(|device| Some((device.key, device.invite?)))
            .collect()
    }

    /// Status of each device at this time, as the transport requires it.
    pub fn statuses(&self, now: SystemTime) -> BTreeMap<PublicKey, DeviceStatus> {
        let status = |device: &Device| match device.state(now) {
            DeviceState::Admitted | DeviceState::Invited => DeviceStatus::Admitted,
            DeviceState::Expired => DeviceStatus::Expired,
            DeviceState::Revoked => DeviceStatus::Revoked,
        };
        self.devices
            .iter()
            .map(|device| (device.key, status(device)))
            .collect()
    }
}

fn check_name(name: &str) -> Result<(), DevicesError> {
    if name.is_empty() || name.chars().count() > MAX_NAME || name.contains(is_misleading) {
        return Err(DevicesError::BadName(name.escape_debug().to_string()));
    }
    Ok(())
}

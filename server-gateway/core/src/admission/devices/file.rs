//! The form of the device list on disk, and its changes under a lock against other processes.
use std::{collections::BTreeSet, fs, io, str::FromStr, time::SystemTime};

use serde::{Deserialize, Serialize};

use super::{Device, Devices, DevicesError, MAX_DEVICES, PendingInvite};
use crate::{
    admission::state::StateDir,
    quota_limits::{DeviceQuota, Limit, LimitError},
};

/// Name of the file in the state directory.
pub(super) const FILE: &str = "devices.toml";
const LOCK: &str = "devices.lock";

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "device")]
    devices: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Entry {
    name: String,
    key: String,
    added: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// End of the validity of an invite that no agent has used yet, as an HTTP date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    invite_expires: Option<String>,
    /// True if the first agent has to replace the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    one_time: bool,
    /// Rate, such as `2Mbit/s`; `none` for no limit. Without it the gateway's default applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_rate: Option<String>,
    /// Bytes of a month, such as `5GB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    quota_month: Option<String>,
}

impl Devices {
    /// Reads the list; returns an empty list if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn load(state: &StateDir) -> Result<Self, DevicesError> {
        let path = state.file(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(DevicesError::Read { path, source }),
        };
        Self::parse(&text).map_err(|problem| DevicesError::Damaged { path, problem })
    }

    /// Reads the list, applies `change` and replaces the file, under a lock against other processes. The file
    /// keeps its owner.
    ///
    /// # Errors
    /// The file cannot be read or written, or `change` returned an error.
    pub fn update<T, E: From<DevicesError>>(
        state: &StateDir,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::updated(state, change).map(|(outcome, _)| outcome)
    }

    /// Like `update`, and returns the new list.
    pub fn updated<T, E: From<DevicesError>>(
        state: &StateDir,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<(T, Self), E> {
        let lock = state.lock_file(LOCK).map_err(DevicesError::Write)?;
        // The lock is released with the file handle on every return path.
        lock.lock().map_err(|source| DevicesError::Read {
            path: state.file(LOCK),
            source,
        })?;
        let mut devices = Self::load(state)?;
        let before = devices.clone();
        let outcome = change(&mut devices)?;
        if devices != before {
            let written = state.replace(FILE, devices.text().as_bytes());
            written.map_err(DevicesError::Write)?;
        }
        Ok((outcome, devices))
    }

    /// Removes temporary files that killed processes left.
    ///
    /// # Errors
    /// The lock cannot be acquired.
    pub fn remove_temporaries(state: &StateDir) -> Result<(), DevicesError> {
        let lock = state.lock_file(LOCK)?;
        lock.lock().map_err(|source| DevicesError::Read {
            path: state.file(LOCK),
            source,
        })?;
        state.remove_temporaries(FILE);
        Ok(())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Document =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if document.devices.len() > MAX_DEVICES {
            return Err(format!("it lists more than {MAX_DEVICES} devices"));
        }
        let devices = document.devices.into_iter().map(Entry::into_device);
        let devices: Vec<Device> = devices.collect::<Result<_, String>>()?;
        let mut keys = BTreeSet::new();
        match devices.iter().find(|device| !keys.insert(device.key)) {
            Some(twice) => Err(format!("the key of device `{}` is listed twice", twice.name)),
            None => Ok(Self { devices }),
        }
    }

    fn text(&self) -> String {
        let document = Document {
            devices: self.devices.iter().map(Entry::of).collect(),
        };
        // Structures of strings always serialise; if they did not, an empty list would lock out all devices.
        toml::to_string(&document).unwrap_or_default()
    }
}

impl Entry {
    fn of(device: &Device) -> Self {
        Self {
            name: device.name.clone(),
            key: device.key.to_string(),
            added: device.added.clone(),
            revoked: device.revoked.clone(),
            invite_expires: device
                .invite
                .map(|invite| httpdate::fmt_http_date(invite.expires)),
            one_time: device.invite.is_some_and(|invite| invite.is_one_time),
            quota_rate: written(device.quota.rate),
            quota_month: written(device.quota.month),
        }
    }

    fn into_device(self) -> Result<Device, String> {
        let wrong = |problem: &dyn std::fmt::Display| format!("device `{}`: {problem}", self.name);
        let key = self.key.parse().map_err(|error| wrong(&error))?;
        let date = |text: &str| -> Result<SystemTime, String> {
            httpdate::parse_http_date(text)
                .map_err(|_| wrong(&"invite-expires is not a date such as \"Fri, 02 Jan 1970 00:00:00 GMT\""))
        };
        let expires = self.invite_expires.as_deref().map(date).transpose()?;
        if expires.is_none() && self.one_time {
            return Err(wrong(&"one-time needs invite-expires"));
        }
        let invite = expires.map(|expires| PendingInvite {
            expires,
            is_one_time: self.one_time,
        });
        let quota = DeviceQuota {
            rate: read(self.quota_rate.as_deref()).map_err(|error| wrong(&error))?,
            month: read(self.quota_month.as_deref()).map_err(|error| wrong(&error))?,
        };
        Ok(Device {
            name: self.name,
            key,
            added: self.added,
            revoked: self.revoked,
            invite,
            quota,
        })
    }
}

/// A limit as the file has it; nothing for the default.
fn written<T>(limit: Limit<T>) -> Option<String>
where
    Limit<T>: ToString + PartialEq,
{
    (limit != Limit::Default).then(|| limit.to_string())
}

fn read<T>(text: Option<&str>) -> Result<Limit<T>, LimitError>
where
    Limit<T>: FromStr<Err = LimitError>,
{
    text.map_or(Ok(Limit::Default), str::parse)
}

//! The admitted devices: `devices.toml` in the state directory, which operators and other processes may also
//! change.
use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    path::PathBuf,
    time::SystemTime,
};

use longhaul_protocol::endpoint::DeviceStatus;
use longhaul_types::{DeviceId, PublicKey};
use serde::{Deserialize, Serialize};

use super::state::{StateDir, StateError};

const FILE: &str = "devices.toml";
const LOCK: &str = "devices.lock";
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
}

/// The contents of `devices.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    devices: Vec<Device>,
}

/// Errors of reading or changing the device list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevicesError {
    /// The file cannot be read, or the lock cannot be acquired.
    #[error("{path} cannot be read: {source}; it must belong to the user that runs the gateway", path = path.display())]
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
    #[error("a device named `{0}` is admitted already; revoke it first, or choose another name")]
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
    /// The list is full.
    #[error("the list of devices is full ({MAX_DEVICES})")]
    Full,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default, rename = "device")]
    devices: Vec<Entry>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    key: String,
    added: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
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

    /// Reads the list, applies `change` and replaces the file, under a lock against other processes.
    ///
    /// # Errors
    /// The file cannot be read or written, or `change` returned an error.
    pub fn update<T>(
        state: &StateDir,
        change: impl FnOnce(&mut Self) -> Result<T, DevicesError>,
    ) -> Result<T, DevicesError> {
        let path = state.file(LOCK);
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path);
        let lock = lock.map_err(|source| {
            DevicesError::Write(StateError::Write {
                path: path.clone(),
                source,
            })
        })?;
        // The lock is released with the file handle on every return path.
        lock.lock()
            .map_err(|source| DevicesError::Read { path, source })?;
        let mut devices = Self::load(state)?;
        let outcome = change(&mut devices)?;
        state.replace(FILE, devices.text().as_bytes())?;
        Ok(outcome)
    }

    /// Admits a device.
    ///
    /// # Errors
    /// The name or key is invalid or already in use, or the list is full.
    pub fn add(&mut self, name: &str, key: PublicKey, now: SystemTime) -> Result<(), DevicesError> {
        if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(DevicesError::BadName(name.escape_debug().to_string()));
        }
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
        if self
            .devices
            .iter()
            .any(|device| device.revoked.is_none() && device.name == name)
        {
            return Err(DevicesError::NameTaken(name.to_owned()));
        }
        self.devices.push(Device {
            name: name.to_owned(),
            key,
            added: httpdate::fmt_http_date(now),
            revoked: None,
        });
        Ok(())
    }

    /// Revokes the admitted device with this name, id or key.
    ///
    /// # Errors
    /// No admitted device matches.
    pub fn revoke(&mut self, which: &str, now: SystemTime) -> Result<Device, DevicesError> {
        let meant = |device: &&mut Device| {
            device.revoked.is_none()
                && (device.name == which
                    || DeviceId::of(&device.key).to_string() == which
                    || device.key.to_string() == which)
        };
        let device = self.devices.iter_mut().find(meant);
        let device = device.ok_or_else(|| DevicesError::NotFound(which.to_owned()))?;
        device.revoked = Some(httpdate::fmt_http_date(now));
        Ok(device.clone())
    }

    /// The devices in the order of their admission.
    pub fn iter(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter()
    }

    /// Status of each device, as the transport requires it.
    pub fn statuses(&self) -> BTreeMap<PublicKey, DeviceStatus> {
        let status = |device: &Device| match device.revoked {
            None => DeviceStatus::Admitted,
            Some(_) => DeviceStatus::Revoked,
        };
        self.devices
            .iter()
            .map(|device| (device.key, status(device)))
            .collect()
    }

    fn parse(text: &str) -> Result<Self, String> {
        let document: Document =
            toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if document.devices.len() > MAX_DEVICES {
            return Err(format!("it lists more than {MAX_DEVICES} devices"));
        }
        let device = |entry: Entry| {
            let key = entry
                .key
                .parse()
                .map_err(|error| format!("device `{}`: {error}", entry.name))?;
            Ok(Device {
                name: entry.name,
                key,
                added: entry.added,
                revoked: entry.revoked,
            })
        };
        let devices: Vec<Device> = document
            .devices
            .into_iter()
            .map(device)
            .collect::<Result<_, String>>()?;
        let mut keys = std::collections::BTreeSet::new();
        match devices.iter().find(|device| !keys.insert(device.key)) {
            Some(twice) => Err(format!("the key of device `{}` is listed twice", twice.name)),
            None => Ok(Self { devices }),
        }
    }

    fn text(&self) -> String {
        let entry = |device: &Device| Entry {
            name: device.name.clone(),
            key: device.key.to_string(),
            added: device.added.clone(),
            revoked: device.revoked.clone(),
        };
        let document = Document {
            devices: self.devices.iter().map(entry).collect(),
        };
        // Structures of strings always serialise; if they did not, an empty list would lock out all devices.
        toml::to_string(&document).unwrap_or_default()
    }
}

/// Detects changes of the device list by other processes.
#[derive(Debug)]
pub struct DevicesWatch {
    state: StateDir,
    seen: Option<Fingerprint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    modified: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl DevicesWatch {
    /// Creates a watch of the list in a state directory. The first call of `look` always reports a change, so
    /// that no change between a load and the start of the watch is missed.
    pub fn new(state: StateDir) -> Self {
        Self { state, seen: None }
    }

    /// Returns the new list if the file changed since the last call.
    ///
    /// # Errors
    /// The file changed and cannot be read; it is read again after its next change.
    pub fn look(&mut self) -> Option<Result<Devices, DevicesError>> {
        let now = fs::metadata(self.state.file(FILE)).ok().map(|found| Fingerprint {
            modified: found.modified().ok(),
            length: found.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&found),
        });
        if now == self.seen {
            return None;
        }
        self.seen = now;
        Some(Devices::load(&self.state))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longhaul_types::SecretKey;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_bytes([seed; 32]).public()
    }

    #[test]
    fn add_revoke_and_read_back() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        assert_eq!(Devices::load(&state).unwrap(), Devices::default());
        Devices::update(&state, |devices| devices.add("laptop \"one\"", key(1), NOW)).unwrap();
        Devices::update(&state, |devices| devices.add("phone", key(2), NOW)).unwrap();
        let later = NOW + Duration::from_secs(86_400);
        Devices::update(&state, |devices| devices.revoke("phone", later)).unwrap();
        let devices = Devices::load(&state).unwrap();
        assert_eq!(
            devices.statuses(),
            [(key(1), DeviceStatus::Admitted), (key(2), DeviceStatus::Revoked)].into()
        );
        assert_eq!(devices.iter().next().unwrap().name, "laptop \"one\"");
        assert_eq!(
            devices.iter().nth(1).unwrap().revoked.as_deref(),
            Some("Fri, 02 Jan 1970 00:00:00 GMT")
        );
    }

    #[test]
    fn names_and_keys_are_unique_among_the_admitted() {
        let mut devices = Devices::default();
        devices.add("a", key(1), NOW).unwrap();
        assert!(matches!(
            devices.add("a", key(2), NOW),
            Err(DevicesError::NameTaken(_))
        ));
        assert!(matches!(
            devices.add("b", key(1), NOW),
            Err(DevicesError::KeyTaken { state: "", .. })
        ));
        for name in ["", "a\nb", &"x".repeat(65)] {
            assert!(matches!(
                devices.add(name, key(3), NOW),
                Err(DevicesError::BadName(_))
            ));
        }
        devices.revoke(&DeviceId::of(&key(1)).to_string(), NOW).unwrap();
        assert!(matches!(devices.revoke("a", NOW), Err(DevicesError::NotFound(_))));
        devices.add("a", key(2), NOW).unwrap();
        devices.revoke(&key(2).to_string(), NOW).unwrap();
        assert!(matches!(
            devices.add("c", key(2), NOW),
            Err(DevicesError::KeyTaken { .. })
        ));
    }

    #[test]
    fn a_damaged_list_is_reported_and_never_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        for text in [
            "[[device]]\nname = 'x'\nkey = 'short'\nadded = ''\n",
            "[[device]\n",
            "[[gadget]]\n",
        ] {
            fs::write(state.file(FILE), text).unwrap();
            let error = Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap_err();
            assert!(matches!(error, DevicesError::Damaged { .. }), "{error}");
            assert_eq!(fs::read_to_string(state.file(FILE)).unwrap(), text);
        }
    }

    #[test]
    fn concurrent_changes_all_count() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        std::thread::scope(|scope| {
            for seed in 1..=8 {
                let state = &state;
                scope.spawn(move || {
                    Devices::update(state, |devices| devices.add(&seed.to_string(), key(seed), NOW)).unwrap();
                });
            }
        });
        assert_eq!(Devices::load(&state).unwrap().iter().count(), 8);
    }

    #[test]
    fn the_watch_sees_each_change_once() {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(home.path()).unwrap();
        let mut watch = DevicesWatch::new(state.clone());
        assert!(watch.look().is_none(), "no file, no change");
        Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap();
        assert_eq!(watch.look().unwrap().unwrap().iter().count(), 1);
        assert!(watch.look().is_none());
        Devices::update(&state, |devices| devices.revoke("a", NOW)).unwrap();
        assert_eq!(
            watch.look().unwrap().unwrap().statuses()[&key(1)],
            DeviceStatus::Revoked
        );
    }
}

//! The state directory with the gateway's keys, created at the first start and readable by its owner only.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use longhaul_protocol::crypto::token::EpochKeys;
use longhaul_service::{NotPrivate, check_private_directory};
use longhaul_types::SecretKey;

use super::ownership::adopt;

const GATEWAY_KEY: &str = "gateway.key";
const EPOCH_KEY: &str = "epoch.key";
const RESET_KEY: &str = "reset.key";

/// A directory of keys and devices.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
}

/// The secrets of a gateway.
#[derive(Clone, Debug)]
pub struct GatewayKeys {
    /// Static key, which agents pin.
    pub secret: SecretKey,
    /// Key and epoch for tokens.
    pub epoch: EpochKeys,
    /// Key for reset tags.
    pub reset: SecretKey,
}

impl GatewayKeys {
    /// The token key with the random number of a new epoch: a counter would count the same numbers once more after the state
    /// directory was restored from a snapshot of the machine, and early data recorded since then would be accepted again.
    ///
    /// # Errors
    /// The operating system provides no randomness.
    pub fn next_epoch(&self) -> Result<EpochKeys, StateError> {
        loop {
            let mut number = [0; 4];
            getrandom::fill(&mut number).map_err(StateError::Random)?;
            let epoch = u32::from_ne_bytes(number);
            if epoch != self.epoch.epoch {
                let key = self.epoch.key;
                return Ok(EpochKeys { epoch, key });
            }
        }
    }
}

/// What the operator can do if a file cannot be written.
fn writable(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::StorageFull {
        "free some space on this disk, then try again"
    } else if error.kind() == io::ErrorKind::QuotaExceeded {
        "this user's disk quota is used up: delete some files, then try again"
    } else if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        "the disk is mounted read-only, or the service may not write there (systemd: ReadWritePaths=): choose another \
         directory with --state-dir, or permit it"
    } else {
        "use `sudo`, give this user the right to, or choose another directory with --state-dir"
    }
}

/// What the operator can do if a file cannot be read.
pub(super) fn readable(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        "only the user that runs the gateway may: use `sudo`, or choose another directory with --state-dir"
    } else {
        "restore it, or choose another directory with --state-dir"
    }
}

/// Errors of the state directory.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// A file or the directory cannot be created or written.
    #[error("{path} cannot be written: {source}; {}", writable(source), path = path.display())]
    Write {
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file cannot be read.
    #[error("{path} cannot be read: {source}; {}", readable(source), path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A key file does not contain a key.
    #[error(
        "{path} does not hold a key; restore it from a backup, or remove it to make a new one{consequence}",
        path = path.display()
    )]
    BadKey {
        /// Path of the file.
        path: PathBuf,
        /// Consequence of a new key, for the message.
        consequence: &'static str,
    },
    /// Others could replace the keys.
    #[error(transparent)]
    NotPrivate(#[from] NotPrivate),
    /// The operating system provides no randomness.
    #[error("the system provides no random numbers: {0}")]
    Random(getrandom::Error),
}

impl StateDir {
    /// Opens the directory; creates it if it does not exist.
    ///
    /// # Errors
    /// It cannot be created, is not a directory, or others could replace its files.
    pub fn open(path: &Path) -> Result<Self, StateError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(path).map_err(|source| StateError::Write {
            path: path.to_owned(),
            source,
        })?;
        check_private_directory(path)?;
        warn_if_open_to_others(path);
        Ok(Self {
            path: path.to_owned(),
        })
    }

    /// Path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Reads the keys; creates those that do not exist.
    ///
    /// # Errors
    /// A key file cannot be read or written, or is malformed.
    pub fn keys(&self) -> Result<GatewayKeys, StateError> {
        let secret = self.key(
            GATEWAY_KEY,
            "; every agent then needs a new invite, because agents trust this gateway by that key",
        )?;
        let epoch = self.epoch()?;
        let reset = self.reset_key(&secret)?;
        Ok(GatewayKeys { secret, epoch, reset })
    }

    /// Stores the epoch that a gateway has begun (docs/protocol/transport.md section 3.7). A restarted
    /// gateway has lost its record of accepted stamps, so tokens of earlier epochs must no longer open early
    /// data.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_epoch(&self, keys: &EpochKeys) -> Result<(), StateError> {
        self.replace(EPOCH_KEY, epoch_text(keys).as_bytes())
    }

    /// Opens a file whose lock processes use; creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be created or opened.
    pub fn lock_file(&self, name: &str) -> Result<File, StateError> {
        let path = self.file(name);
        let opened = File::options().write(true).open(&path).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // Created under a temporary name, so that the owner is set when other processes find it.
            let created = self.create(name, "").map_err(io::Error::other);
            created.and_then(|_| File::options().write(true).open(&path))
        });
        opened.map_err(|source| StateError::Write { path, source })
    }

    /// Removes temporary files of `name` that a killed process left. The caller excludes other writers.
    pub(super) fn remove_temporaries(&self, name: &str) {
        let Ok(entries) = fs::read_dir(&self.path) else {
            return;
        };
        let prefix = format!(".{name}.");
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                // A file that stays is only untidy.
                let _left = fs::remove_file(entry.path());
            }
        }
    }

    /// Replaces a file atomically: readers see either the old or the new contents. The new file has the owner
    /// and mode of the old one, or the owner of the directory.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn replace(&self, name: &str, contents: &[u8]) -> Result<(), StateError> {
        let temporary = self.temporary(name, contents)?;
        let path = self.file(name);
        fs::rename(&temporary, &path).map_err(|source| {
            // Failure to remove the temporary file is harmless; the directory may be read-only by now.
            let _left = fs::remove_file(&temporary);
            StateError::Write { path, source }
        })?;
        // The renaming reaches the disk sooner. Some file systems cannot do this; the file is complete anyway.
        let _unsupported = File::open(&self.path).and_then(|directory| directory.sync_all());
        Ok(())
    }

    fn key(&self, name: &str, consequence: &'static str) -> Result<SecretKey, StateError> {
        let key = match self.read(name)? {
            Some(text) => text,
            None => self.create(name, &format!("{}\n", random_key()?.to_secret_text()))?,
        };
        self.parsed(name, &key, consequence)
    }

    /// Derives the reset key from the static key if the file does not exist: agents accept resets only under
    /// this key, and would otherwise wait for sessions that this gateway has lost.
    fn reset_key(&self, secret: &SecretKey) -> Result<SecretKey, StateError> {
        let key = match self.read(RESET_KEY)? {
            Some(text) => text,
            None => {
                let derived = blake3::derive_key("longhaul 1 reset key", secret.as_bytes());
                let derived = SecretKey::from_bytes(derived);
                self.create(RESET_KEY, &format!("{}\n", derived.to_secret_text()))?
            }
        };
        self.parsed(
            RESET_KEY,
            &key,
            "; agents with a lost session then notice it later",
        )
    }

    fn parsed(&self, name: &str, text: &str, consequence: &'static str) -> Result<SecretKey, StateError> {
        text.parse().map_err(|_| StateError::BadKey {
            path: self.file(name),
            consequence,
        })
    }

    fn epoch(&self) -> Result<EpochKeys, StateError> {
        let text = match self.read(EPOCH_KEY)? {
            Some(text) => text,
            None => {
                let keys = EpochKeys {
                    epoch: 0,
                    key: *random_key()?.as_bytes(),
                };
                self.create(EPOCH_KEY, &epoch_text(&keys))?
            }
        };
        let parsed = text.trim().split_once(' ').and_then(|(epoch, key)| {
            let key: SecretKey = key.parse().ok()?;
            Some(EpochKeys {
                epoch: epoch.parse().ok()?,
                key: *key.as_bytes(),
            })
        });
        parsed.ok_or_else(|| StateError::BadKey {
            path: self.file(EPOCH_KEY),
            consequence: "; every device's next session then opens without early data",
        })
    }

    fn read(&self, name: &str) -> Result<Option<String>, StateError> {
        let path = self.file(name);
        match fs::read(&path) {
            Ok(bytes) => {
                warn_if_open_to_others(&path);
                // Contents that are not UTF-8 are not a key; the caller reports them.
                Ok(Some(String::from_utf8(bytes).unwrap_or_default()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(StateError::Read { path, source }),
        }
    }

    /// Creates a file. If another process created it first, returns that file's contents.
    fn create(&self, name: &str, contents: &str) -> Result<String, StateError> {
        let path = self.file(name);
        let temporary = self.temporary(name, contents.as_bytes())?;
        let linked = fs::hard_link(&temporary, &path);
        let _left = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(contents.to_owned()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::read_to_string(&path).map_err(|source| StateError::Read { path, source })
            }
            Err(source) => Err(StateError::Write { path, source }),
        }
    }

    fn temporary(&self, name: &str, contents: &[u8]) -> Result<PathBuf, StateError> {
        let mut suffix = [0; 8];
        getrandom::fill(&mut suffix).map_err(StateError::Random)?;
        let path = self.file(&format!(".{name}.{:016x}", u64::from_ne_bytes(suffix)));
        let write = |file: io::Result<File>| {
            let mut file = file?;
            adopt(&file, &self.file(name), &self.path)?;
            file.write_all(contents)?;
            file.sync_all()
        };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match write(options.open(&path)) {
            Ok(()) => Ok(path),
            Err(source) => {
                let _left = fs::remove_file(&path);
                Err(StateError::Write {
                    path: self.path.clone(),
                    source,
                })
            }
        }
    }
}

/// Generates a random secret key.
///
/// # Errors
/// The operating system provides no randomness.
pub fn random_key() -> Result<SecretKey, StateError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(StateError::Random)?;
    Ok(SecretKey::from_bytes(bytes))
}

fn epoch_text(keys: &EpochKeys) -> String {
    format!(
        "{} {}\n",
        keys.epoch,
        SecretKey::from_bytes(keys.key).to_secret_text()
    )
}

fn warn_if_open_to_others(path: &Path) {
    if is_open_to_others(path) {
        tracing::warn!(path = %path.display(), "other users can read this file; run `chmod go-rwx` on it");
    }
}

#[cfg(unix)]
fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o077 != 0)
}

#[cfg(not(unix))]
const fn is_open_to_others(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests;

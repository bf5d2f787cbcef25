//! Backups: keys, devices with their quotas and counts, clients and the configuration in one file.
//!
//! The token key is not in a backup: its epoch must never be used twice, or requests that were recorded at the one machine
//! could be replayed at the other. The first session of each agent at the new machine takes one more round trip. The cache
//! is not in a backup, either.
//!
//! `archive` is the form of the file; this file reads and writes the state directory.
use longhaul_gateway_core::{
    admin::device_usage,
    admission::{
        devices::{Devices, DevicesError},
        gateway_lock::{GatewayLock, LockError},
        state::{StateDir, StateError},
    },
};

mod archive;

use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use self::archive::Archive;
pub use self::archive::ArchiveError;

/// The gateway's key, which a restore writes last: a directory without it has no gateway.
const KEY: &str = "gateway.key";
/// Files of the state directory that a backup has if they exist.
const FILES: [&str; 7] = [
    KEY,
    "reset.key",
    "devices.toml",
    "clients.toml",
    device_usage::FILE,
    "carrier.pem",
    "carrier.key",
];
/// The configuration, as it took effect.
pub(crate) const CONFIGURATION: &str = "gateway.toml";
/// Largest backup that is read: 100,000 devices, their counts, and a reserve.
const MAX_BACKUP: u64 = 256 * 1024 * 1024;

/// Errors of a backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The text of the backup is not usable.
    #[error("{path}: {source}", path = path.display())]
    Archive {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        source: ArchiveError,
    },
    /// The list of devices cannot be read.
    #[error(transparent)]
    Devices(#[from] DevicesError),
    /// The file of the backup exists.
    #[error("{path} exists already; choose another name, or remove it", path = .0.display())]
    Exists(PathBuf),
    /// A gateway runs with the state directory.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There is no gateway.
    #[error("{path} has no gateway: there is no {KEY}; name its directory by --state-dir", path = .0.display())]
    NoGateway(PathBuf),
    /// The disk is full.
    #[error("there is no space for {path}; nothing was changed", path = .0.display())]
    NoSpace(PathBuf),
    /// The state directory has a gateway.
    #[error("{path} exists already: a backup is restored only into a state directory without a gateway; choose another --state-dir", path = .0.display())]
    Occupied(PathBuf),
    /// The backup or a file of the state directory cannot be read.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error(transparent)]
    State(StateError),
    /// The backup is too large to be one.
    #[error("{path} is larger than any backup", path = .0.display())]
    TooLarge(PathBuf),
    /// The backup cannot be written.
    #[error("{path} cannot be written: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl From<StateError> for BackupError {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Write { path, source } if source.kind() == io::ErrorKind::StorageFull => {
                Self::NoSpace(path)
            }
            other @ (StateError::Write { .. }
            | StateError::Read { .. }
            | StateError::BadKey { .. }
            | StateError::NotPrivate(_)
            | StateError::Random(_)) => Self::State(other),
        }
    }
}

/// Writes a backup of a state directory, also beside a running gateway. Only the user can read the file.
///
/// # Errors
/// See [`BackupError`]; then there is no file.
pub(crate) fn write(state: &StateDir, configuration: &str, to: &Path) -> Result<usize, BackupError> {
    if !state.file(KEY).exists() {
        return Err(BackupError::NoGateway(state.path().to_owned()));
    }
    // Under the lock of the list, so that the list and the counts belong together. Each file is replaced as a whole.
    let mut archive = Devices::update(state, |_| collect(state))?;
    archive.add(CONFIGURATION, configuration.as_bytes().to_vec());
    let failed = |source: io::Error| {
        let (path, kind) = (to.to_owned(), source.kind());
        if kind == io::ErrorKind::AlreadyExists {
            BackupError::Exists(path)
        } else if kind == io::ErrorKind::StorageFull {
            BackupError::NoSpace(path)
        } else {
            BackupError::Write { path, source }
        }
    };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(to).map_err(failed)?;
    let written = file.write_all(&archive.to_bytes()).and_then(|()| file.sync_all());
    written.map_err(|error| {
        // Half a backup would be taken for one.
        let _left = fs::remove_file(to);
        failed(error)
    })?;
    Ok(archive.len())
}

fn collect(state: &StateDir) -> Result<Archive, BackupError> {
    let mut archive = Archive::default();
    for name in FILES {
        let path = state.file(name);
        match fs::read(&path) {
            Ok(contents) => archive.add(name, contents),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(BackupError::Read { path, source }),
        }
    }
    Ok(archive)
}

/// Reads a backup into a state directory without a gateway; returns the number of files.
///
/// # Errors
/// See [`BackupError`]; then the directory is as it was.
pub(crate) async fn read(state: &StateDir, from: &Path) -> Result<usize, BackupError> {
    let archive = open(from)?;
    for name in FILES.into_iter().chain([CONFIGURATION]) {
        let path = state.file(name);
        if path.exists() {
            return Err(BackupError::Occupied(path));
        }
    }
    let _lock = GatewayLock::acquire(state).await?;
    let mut written = Vec::new();
    for (name, contents) in archive
        .iter()
        .filter(|(name, _)| *name != KEY)
        .chain(archive.get(KEY))
    {
        if let Err(error) = state.replace(name, contents) {
            for name in written {
                let _left = fs::remove_file(state.file(name));
            }
            return Err(error.into());
        }
        written.push(name);
    }
    Ok(written.len())
}

fn open(from: &Path) -> Result<Archive, BackupError> {
    let failed = |source| BackupError::Read {
        path: from.to_owned(),
        source,
    };
    let file = fs::File::open(from).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_BACKUP + 1)
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BACKUP {
        return Err(BackupError::TooLarge(from.to_owned()));
    }
    parse(&bytes).map_err(|source| BackupError::Archive {
        path: from.to_owned(),
        source,
    })
}

fn parse(bytes: &[u8]) -> Result<Archive, ArchiveError> {
    let archive = Archive::parse(bytes, |name| FILES.contains(&name) || name == CONFIGURATION)?;
    match archive.get(KEY) {
        Some(_) => Ok(archive),
        None => Err(ArchiveError::Damaged(format!("it has no {KEY}"))),
    }
}

/// The bytes of a backup as this program writes the same files.
///
/// # Errors
/// The bytes are no usable backup.
pub fn reencode_backup(bytes: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    Ok(parse(bytes)?.to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> (tempfile::TempDir, StateDir) {
        let home = tempfile::tempdir().unwrap();
        let state = StateDir::open(&home.path().join("state")).unwrap();
        (home, state)
    }

    #[tokio::test]
    async fn keys_and_devices_move_to_another_directory_and_the_epoch_does_not() {
        let (home, state) = directory();
        let keys = state.keys().unwrap();
        Devices::update(&state, |devices| {
            devices.add("laptop", keys.reset.public(), std::time::SystemTime::UNIX_EPOCH)
        })
        .unwrap();
        let file = home.path().join("backup");
        write(&state, "listen = \"[::]:4433\"\n", &file).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = fs::metadata(&file).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);
        }
        assert!(matches!(write(&state, "", &file), Err(BackupError::Exists(_))));
        let (_other_home, other) = directory();
        assert_eq!(read(&other, &file).await.unwrap(), 4);
        let moved = other.keys().unwrap();
        assert_eq!(moved.secret.public(), keys.secret.public());
        assert_ne!(moved.epoch.key, keys.epoch.key);
        assert_eq!(Devices::load(&other).unwrap(), Devices::load(&state).unwrap());
        let text = fs::read_to_string(other.file(CONFIGURATION)).unwrap();
        assert_eq!(text, "listen = \"[::]:4433\"\n");
        assert!(matches!(read(&other, &file).await, Err(BackupError::Occupied(_))));
    }

    #[tokio::test]
    async fn a_damaged_backup_changes_nothing_and_says_why() {
        let (home, state) = directory();
        state.keys().unwrap();
        let file = home.path().join("backup");
        write(&state, "", &file).unwrap();
        let good = fs::read(&file).unwrap();
        let (_other_home, other) = directory();
        let mut flipped = good.clone();
        *flipped.last_mut().unwrap() ^= 1;
        for (bytes, expected) in [
            (&good[..good.len() - 1], "damaged"),
            (&flipped[..], "damaged"),
            (&b"PK"[..], "no backup"),
            (
                &[b"longhaul-gateway-backup 2 ", &good[26..]].concat()[..],
                "version 2",
            ),
        ] {
            fs::write(&file, bytes).unwrap();
            let error = read(&other, &file).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_directory_without_a_gateway_has_no_backup() {
        let (home, state) = directory();
        let error = write(&state, "", &home.path().join("backup")).unwrap_err();
        assert!(matches!(error, BackupError::NoGateway(_)));
    }
}

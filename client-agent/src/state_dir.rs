//! The agent's files: the invite, the newest token and, while the agent runs, its addresses and the token of
//! its control port.
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use longhaul_service::{NotPrivate, check_private_directory};
use longhaul_types::{Invite, ParseInviteError, SecretKey, UnixTime};
use serde::{Deserialize, Serialize};

/// Maximum size of a small file; an invite has less than 600 characters.
const MAX_FILE: u64 = 64 * 1024;

/// File of the control port's token.
const CONTROL_TOKEN: &str = "control-token";
/// File of the key that replaces the key of a one-time invite.
const DEVICE_KEY: &str = "device-key";
/// The secret by which the cache knows requests with equal credentials.
const CREDENTIALS_SECRET: &str = "credentials-secret";

/// The state directory. Only the owner can read its files.
#[derive(Clone, Debug)]
pub struct StateDir(PathBuf);

/// Errors of reading the invite.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InviteError {
    /// There is no invite.
    #[error(
        "this device is not enrolled: run `longhaul enroll LINE` with the line that your gateway's operator gave you \
         (looked for {})", path.display()
    )]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("{} cannot be read: {source}; run as the user who enrolled this device, or choose another state directory with --state-dir", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a valid invite.
    #[error("{}: {source}; then run `longhaul enroll --replace LINE`", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error in the file.
        source: ParseInviteError,
    },
}

/// Errors of writing the state directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// A file cannot be written.
    #[error("{} cannot be written: {source}; {}", path.display(), remedy(source))]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Others could replace the keys.
    #[error(transparent)]
    NotPrivate(#[from] NotPrivate),
}

/// What the user can do if a file cannot be written.
fn remedy(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::StorageFull {
        "free some space on this disk, then start again"
    } else if error.kind() == io::ErrorKind::QuotaExceeded {
        "this user's disk quota is used up: delete some files, then start again"
    } else if error.kind() == io::ErrorKind::ReadOnlyFilesystem {
        "the disk is mounted read-only: `longhaul doctor` says how to change that, or choose another state directory with \
         --state-dir"
    } else {
        "check its owner, or choose another state directory with --state-dir"
    }
}

/// Contents of `agent.json`, by which commands find a running agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentFile {
    /// Address of the proxy.
    pub proxy: SocketAddr,
    /// Address of the dashboard.
    pub control: SocketAddr,
    /// The process id.
    pub pid: u32,
    /// The agent's version.
    pub version: String,
}

impl StateDir {
    /// Returns the directory at `path`, which need not exist yet.
    pub const fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// The directory's path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Creates the directory, accessible to its owner only.
    ///
    /// # Errors
    /// The directory cannot be created, or others could replace its files.
    pub fn create(&self) -> Result<(), StateError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(|source| StateError::Write {
            path: self.0.clone(),
            source,
        })?;
        Ok(check_private_directory(&self.0)?)
    }

    /// Reads the invite that `longhaul enroll` wrote.
    ///
    /// # Errors
    /// There is no invite, or it is damaged.
    pub fn invite(&self) -> Result<Invite, InviteError> {
        let path = self.0.join("invite");
        match read_small(&path) {
            Ok(line) => line
                .parse()
                .map_err(|source| InviteError::Damaged { path, source }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(InviteError::Missing { path }),
            Err(source) => Err(InviteError::Unreadable { path, source }),
        }
    }

    /// True if there is an invite, or something in its place.
    pub fn has_invite(&self) -> bool {
        !matches!(self.invite(), Err(InviteError::Missing { .. }))
    }

    /// Stores the invite of a device that has none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_invite(&self, invite: &Invite) -> Result<(), StateError> {
        self.replace("invite", format!("{}\n", invite.to_line()).as_bytes())
    }

    /// Returns the newest token of an earlier run with the gateway and device of `invite`, else the token of
    /// the invite.
    pub fn token(&self, invite: &Invite) -> [u8; 32] {
        read_small(&self.0.join("token"))
            .ok()
            .and_then(|text| parse_token(&text, invite))
            .unwrap_or_else(|| *invite.token())
    }

    /// Stores a token for later runs.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_token(&self, invite: &Invite, token: &[u8; 32]) -> Result<(), StateError> {
        let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        self.replace("token", format!("{} {hex}\n", binding(invite)).as_bytes())
    }

    /// Returns the key that this device made for itself to replace the key of a one-time invite
    /// (docs/protocol/session.md section 11); `None` if it has made none for this invite.
    pub fn own_key(&self, invite: &Invite) -> Option<SecretKey> {
        let text = read_small(&self.0.join(DEVICE_KEY)).ok()?;
        let key = text.trim().strip_prefix(&binding(invite))?;
        key.strip_prefix(' ')?.parse().ok()
    }

    /// Stores the key that replaces the key of a one-time invite.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_own_key(&self, invite: &Invite, key: &SecretKey) -> Result<(), StateError> {
        let text = format!("{} {}\n", binding(invite), key.to_secret_text());
        self.replace(DEVICE_KEY, text.as_bytes())
    }

    /// Returns the secret by which the cache knows requests with equal credentials; `None` before it was stored.
    pub fn credentials_secret(&self) -> Option<[u8; 32]> {
        let text = read_small(&self.0.join(CREDENTIALS_SECRET)).ok()?;
        let bytes = blake3::Hash::from_hex(text.trim()).ok()?;
        Some(*bytes.as_bytes())
    }

    /// Stores the secret of [`Self::credentials_secret`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_credentials_secret(&self, secret: &[u8; 32]) -> Result<(), StateError> {
        let hex = blake3::Hash::from_bytes(*secret).to_hex();
        self.replace(CREDENTIALS_SECRET, format!("{hex}\n").as_bytes())
    }

    /// Returns the wall-clock stamp of the newest session attempt.
    pub fn stamp(&self) -> Option<UnixTime> {
        let text = read_small(&self.0.join("stamp")).ok()?;
        text.trim()
            .parse()
            .ok()
            .map(|seconds| UnixTime::new(Duration::from_secs(seconds)))
    }

    /// Stores the stamp of a session attempt, rounded up to a second.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_stamp(&self, stamp: UnixTime) -> Result<(), StateError> {
        self.replace(
            "stamp",
            format!("{}\n", stamp.since_epoch().as_secs() + 1).as_bytes(),
        )
    }

    /// Publishes the addresses of the agent.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn publish(&self, agent: &AgentFile) -> Result<(), StateError> {
        let text = serde_json::to_string(agent).map_err(|error| StateError::Write {
            path: self.0.join("agent.json"),
            source: error.into(),
        })?;
        self.replace("agent.json", format!("{text}\n").as_bytes())
    }

    /// Returns the published addresses of the running agent; `None` if there are none.
    pub fn published(&self) -> Option<AgentFile> {
        serde_json::from_str(&read_small(&self.0.join("agent.json")).ok()?).ok()
    }

    /// Stores the token of the control port, for this user's own commands.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn keep_control_token(&self, hex: &str) -> Result<(), StateError> {
        self.replace(CONTROL_TOKEN, format!("{hex}\n").as_bytes())
    }

    /// Returns the control port's token of the running agent; `None` if there is none, or if another user
    /// owns it.
    pub fn control_token(&self) -> Option<String> {
        let text = read_small(&self.0.join(CONTROL_TOKEN)).ok()?;
        let hex = text.trim();
        blake3::Hash::from_hex(hex).ok().map(|_| hex.to_owned())
    }

    /// Removes the files of [`Self::publish`] and the control token, unless another agent has published
    /// since.
    pub fn withdraw(&self) {
        if self
            .published()
            .is_some_and(|agent| agent.pid == std::process::id())
        {
            drop(fs::remove_file(self.0.join("agent.json")));
            drop(fs::remove_file(self.0.join(CONTROL_TOKEN)));
        }
    }

    /// Returns what the gateway has announced of itself, as `gateway/announced.rs` writes it.
    pub(crate) fn announced(&self) -> Option<String> {
        read_small(&self.0.join(ANNOUNCED)).ok()
    }

    /// Stores what the gateway has announced of itself.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_announced(&self, text: &str) -> Result<(), StateError> {
        self.replace(ANNOUNCED, text.as_bytes())
    }

    /// Returns the pending deletions for the gateway, as [`crate::forget`] writes them.
    pub(crate) fn forgets(&self) -> Option<String> {
        read_small(&self.0.join(FORGETS)).ok()
    }

    /// Stores the pending deletions for the gateway.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_forgets(&self, text: &str) -> Result<(), StateError> {
        self.replace(FORGETS, text.as_bytes())
    }

    /// Returns the file of the remembered networks, at most `limit` bytes of it; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn networks(&self, limit: u64) -> io::Result<Option<String>> {
        match read_limited(&self.0.join(NETWORKS), limit) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores what is remembered about networks.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_networks(&self, text: &str) -> Result<(), StateError> {
        self.replace(NETWORKS, text.as_bytes())
    }

    /// Returns the secret from which the identities of networks are derived.
    pub(crate) fn network_secret(&self) -> Option<[u8; 32]> {
        let text = read_small(&self.0.join(NETWORK_SECRET)).ok()?;
        blake3::Hash::from_hex(text.trim())
            .ok()
            .map(|bytes| *bytes.as_bytes())
    }

    /// Stores the secret from which the identities of networks are derived.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_network_secret(&self, secret: &[u8; 32]) -> Result<(), StateError> {
        let hex = blake3::Hash::from_bytes(*secret).to_hex();
        self.replace(NETWORK_SECRET, format!("{hex}\n").as_bytes())
    }

    /// Removes what is remembered about networks, and the secret.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub(crate) fn remove_networks(&self) -> Result<(), StateError> {
        [NETWORKS, NETWORK_SECRET]
            .into_iter()
            .try_for_each(|name| self.remove(name))
    }

    /// Returns at most `limit` bytes of a file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn read(&self, name: &str, limit: u64) -> io::Result<String> {
        read_limited(&self.0.join(name), limit)
    }

    /// Removes a file that need not exist.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StateError> {
        let path = self.0.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(StateError::Write { path, source })
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Writes a temporary file and renames it, so that readers see either the old or the new contents.
    pub(crate) fn replace(&self, name: &str, contents: &[u8]) -> Result<(), StateError> {
        let path = self.0.join(name);
        let beside = self.0.join(format!("{name}.{}.new", std::process::id()));
        let written = write_private(&beside, contents).and_then(|()| fs::rename(&beside, &path));
        written.map_err(|source| {
            drop(fs::remove_file(&beside));
            StateError::Write { path, source }
        })
    }
}

const FORGETS: &str = "forget.json";
/// What the gateway has announced of itself.
const ANNOUNCED: &str = "gateway-announced";
/// File of the remembered networks, and of the secret from which their identities are derived.
const NETWORKS: &str = "networks";
const NETWORK_SECRET: &str = "network-secret";

fn read_small(path: &Path) -> io::Result<String> {
    read_limited(path, MAX_FILE)
}

fn read_limited(path: &Path, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(contents)?;
    file.sync_all()
}

/// Identifies gateway and device: a token is valid only for both.
fn binding(invite: &Invite) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(invite.gateway().as_bytes())
        .update(invite.device().public().as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}

fn parse_token(text: &str, invite: &Invite) -> Option<[u8; 32]> {
    let hex = text.trim().strip_prefix(&binding(invite))?.strip_prefix(' ')?;
    blake3::Hash::from_hex(hex).ok().map(|bytes| *bytes.as_bytes())
}

#[cfg(test)]
mod tests;

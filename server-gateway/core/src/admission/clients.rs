//! The clients without an agent that have a name and a password, in `clients.toml` of the state directory.
use std::{fmt, fs, io, path::PathBuf, time::SystemTime};

use blake3::Hash;
use longhaul_session::ImageLevel;
use longhaul_types::{ByteCount, PublicKey, SecretKey};
use serde::{Deserialize, Serialize};

use super::{
    file_watch::FileWatch,
    state::{StateDir, StateError},
};
use crate::{config::clientless::LEVELS, quota_limits::Limit};

const FILE: &str = "clients.toml";
const LOCK: &str = "clients.lock";
/// Maximum number of clients: each request searches the list.
const MAX_CLIENTS: usize = 1000;
/// Maximum length of a name in bytes.
const MAX_NAME: usize = 64;

/// Errors of the list of clients.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientsError {
    /// The file is malformed.
    #[error("{path} is damaged: {problem}; restore it from a backup, or remove it and add the clients anew", path = path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The defect.
        problem: String,
    },
    /// There are too many clients.
    #[error("there are {MAX_CLIENTS} clients, which is the limit; remove one first")]
    Full,
    /// The name is not usable.
    #[error(
        "`{0}` is no name of a client: use 1 to {MAX_NAME} letters, digits, dots, hyphens and underscores"
    )]
    Name(String),
    /// The name is in use.
    #[error("there is a client `{0}`; remove it first, or choose another name")]
    Taken(String),
    /// No client has the name.
    #[error("there is no client `{0}`; `longhaul-gateway client list` shows them")]
    Unknown(String),
    /// The state directory cannot be used.
    #[error(transparent)]
    State(#[from] StateError),
}

/// A client.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NamedClient {
    /// Its name, which the browser's user enters.
    pub name: String,
    /// Date of its addition.
    pub added: String,
    /// Keyed hash of name and password, in hexadecimal.
    password: String,
    /// Image level of the client; that of the settings if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    level: Option<String>,
    /// Bytes of a month, such as `5GB`; `none` for no limit. Without it the gateway's default applies.
    #[serde(default, rename = "quota-month", skip_serializing_if = "Option::is_none")]
    quota_month: Option<String>,
}

impl NamedClient {
    fn password(&self) -> Option<Hash> {
        Hash::from_hex(&self.password).ok()
    }

    /// Its own image level.
    pub fn level(&self) -> Option<ImageLevel> {
        let name = self.level.as_deref()?;
        LEVELS.into_iter().find(|level| level.name() == name)
    }

    /// Its bytes of a month.
    pub fn month(&self) -> Limit<ByteCount> {
        let text = self.quota_month.as_deref();
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Owner of what belongs to the client, among those of devices.
    pub fn owner(&self) -> Option<PublicKey> {
        Some(ClientIdentity::of(&self.password()?).owner())
    }
}

/// Identity of a client. A client that gets the name of a removed one has another identity, and so does not own what the
/// earlier one has left in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientIdentity([u8; 32]);

impl ClientIdentity {
    fn of(password: &Hash) -> Self {
        Self(blake3::derive_key(
            "longhaul clientless client",
            password.as_bytes(),
        ))
    }

    /// The identity with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Bytes that no other client has.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Owner of what belongs to the client, among those of devices.
    pub const fn owner(self) -> PublicKey {
        PublicKey::from_bytes(self.0)
    }
}

/// The list of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    #[serde(default, rename = "client")]
    clients: Vec<NamedClient>,
}

/// The key of the hashes of passwords: a copy of the list alone does not permit to try passwords.
#[derive(Clone)]
pub struct PasswordKey([u8; 32]);

impl fmt::Debug for PasswordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordKey")
    }
}

impl PasswordKey {
    /// Derives the key from the gateway's static key.
    pub fn derived_from(secret: &SecretKey) -> Self {
        Self(blake3::derive_key(
            "longhaul clientless passwords",
            secret.as_bytes(),
        ))
    }

    fn hash(&self, name: &str, password: &str) -> Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // The length separates name and password.
        hasher.update(&(name.len() as u64).to_be_bytes());
        hasher.update(name.as_bytes());
        hasher.update(password.as_bytes());
        hasher.finalize()
    }
}

impl Clients {
    /// Reads the list; returns an empty list if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read or is malformed.
    pub fn load(state: &StateDir) -> Result<Self, ClientsError> {
        let path = state.file(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => return Err(StateError::Read { path, source }.into()),
        };
        let damaged = |problem| ClientsError::Damaged { path, problem };
        let list: Self = match toml::from_str(&text) {
            Ok(list) => list,
            Err(error) => return Err(damaged(error.to_string().trim_end().to_owned())),
        };
        match list.defect() {
            Some(defect) => Err(damaged(defect)),
            None => Ok(list),
        }
    }

    fn defect(&self) -> Option<String> {
        if self.clients.len() > MAX_CLIENTS {
            return Some(format!("it lists more than {MAX_CLIENTS} clients"));
        }
        let mut names: Vec<&str> = self.names().collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Some(format!("client `{}` is listed twice", twice[0]));
        }
        let bad = self.clients.iter().find(|client| {
            let is_level = client.level.is_none() || client.level().is_some();
            let month = client.quota_month.as_deref();
            let is_month = month.is_none_or(|text| text.parse::<Limit<ByteCount>>().is_ok());
            !is_name(&client.name) || client.password().is_none() || !is_level || !is_month
        })?;
        Some(format!("the entry of client `{}` is malformed", bad.name))
    }

    /// Adds a client with a new password; returns the password, which is not stored.
    ///
    /// # Errors
    /// The name is unusable or in use, or the file cannot be changed.
    pub fn add(
        state: &StateDir,
        key: &PasswordKey,
        name: &str,
        now: SystemTime,
    ) -> Result<String, ClientsError> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(StateError::Random)?;
        let password = format!("{:032x}", u128::from_be_bytes(random));
        let client = NamedClient {
            name: name.to_owned(),
            added: httpdate::fmt_http_date(now),
            password: key.hash(name, &password).to_string(),
            level: None,
            quota_month: None,
        };
        Self::update(state, |list| {
            if !is_name(name) {
                return Err(ClientsError::Name(name.to_owned()));
            }
            if list.names().any(|other| other == name) {
                return Err(ClientsError::Taken(name.to_owned()));
            }
            if list.clients.len() >= MAX_CLIENTS {
                return Err(ClientsError::Full);
            }
            list.clients.push(client);
            Ok(())
        })?;
        Ok(password)
    }

    /// Gives a client an image level of its own, or that of the settings.
    ///
    /// # Errors
    /// There is no such client, or the file cannot be changed.
    pub fn set_level(state: &StateDir, name: &str, level: Option<ImageLevel>) -> Result<(), ClientsError> {
        Self::update(state, |list| {
            let client = list.clients.iter_mut().find(|client| client.name == name);
            let client = client.ok_or_else(|| ClientsError::Unknown(name.to_owned()))?;
            client.level = level.map(|level| level.name().to_owned());
            Ok(())
        })
    }

    /// Sets the bytes of a month of a client.
    ///
    /// # Errors
    /// There is no such client, or the file cannot be changed.
    pub fn set_month(state: &StateDir, name: &str, month: Limit<ByteCount>) -> Result<(), ClientsError> {
        Self::update(state, |list| {
            let client = list.clients.iter_mut().find(|client| client.name == name);
            let client = client.ok_or_else(|| ClientsError::Unknown(name.to_owned()))?;
            client.quota_month = (month != Limit::Default).then(|| month.to_string());
            Ok(())
        })
    }

    /// Removes a client.
    ///
    /// # Errors
    /// There is no such client, or the file cannot be changed.
    pub fn remove(state: &StateDir, name: &str) -> Result<(), ClientsError> {
        Self::update(state, |list| {
            let before = list.clients.len();
            list.clients.retain(|client| client.name != name);
            if list.clients.len() == before {
                return Err(ClientsError::Unknown(name.to_owned()));
            }
            Ok(())
        })
    }

    fn update(
        state: &StateDir,
        change: impl FnOnce(&mut Self) -> Result<(), ClientsError>,
    ) -> Result<(), ClientsError> {
        let lock = state.lock_file(LOCK)?;
        // The lock is released with the file handle on every return path.
        lock.lock().map_err(|source| StateError::Read {
            path: state.file(LOCK),
            source,
        })?;
        let mut list = Self::load(state)?;
        change(&mut list)?;
        // Structures of strings always serialise; if they did not, an empty list would lock out all clients.
        let text = toml::to_string(&list).unwrap_or_default();
        Ok(state.replace(FILE, text.as_bytes())?)
    }

    /// The clients.
    pub fn iter(&self) -> impl Iterator<Item = &NamedClient> {
        self.clients.iter()
    }

    /// The names of the clients.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.clients.iter().map(|client| client.name.as_str())
    }

    /// Returns true if there is no client.
    pub const fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Returns the client that has this name and password, and its image level. Takes the same time for each password of a name,
    /// because hashes are compared in constant time.
    pub fn admit(
        &self,
        key: &PasswordKey,
        name: &str,
        password: &str,
    ) -> Option<(ClientIdentity, Option<ImageLevel>)> {
        let presented = key.hash(name, password);
        let client = self.clients.iter().find(|client| client.name == name)?;
        (client.password()? == presented).then(|| (ClientIdentity::of(&presented), client.level()))
    }

    /// Returns true if this client is in the list.
    pub fn contains(&self, identity: ClientIdentity) -> bool {
        self.identities().any(|other| other == identity)
    }

    /// The clients of the list.
    pub fn identities(&self) -> impl Iterator<Item = ClientIdentity> {
        let hashes = self.clients.iter().filter_map(NamedClient::password);
        hashes.map(|hash| ClientIdentity::of(&hash))
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    !name.is_empty() && name.len() <= MAX_NAME && name.chars().all(is_allowed)
}

/// Detects changes of the list by other processes.
#[derive(Debug)]
pub struct ClientsWatch {
    state: StateDir,
    file: FileWatch,
}

impl ClientsWatch {
    /// Creates a watch. The first call of `look` reports a change if there is a list.
    pub fn new(state: StateDir) -> Self {
        let file = FileWatch::new(state.file(FILE));
        Self { state, file }
    }

    /// Returns the new list if the file changed since the last call.
    pub fn look(&mut self) -> Option<Result<Clients, ClientsError>> {
        self.file.has_changed().then(|| Clients::load(&self.state))
    }
}

#[cfg(test)]
mod tests;

//! Who uses the agent.
use std::{fmt, sync::Arc};

use longhaul_types::ClientId;

/// A user of the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(u32);

impl UserId {
    /// The user with this number.
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The user that this process runs as, and whose sockets it opens.
    pub fn own() -> Self {
        Self(nix::unistd::geteuid().as_raw())
    }

    /// Its number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One client of the agent: what one client loads and keeps is nobody else's.
///
/// Two connections have the same client if the kernel names the same user for both and both showed the same credential.
/// A peer on another machine has no user, so that only its credential tells it from others; where the system does not tell
/// users at all (see `listener/peer`), all programs of this machine are one client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Client {
    user: Option<UserId>,
    credential: Option<Arc<str>>,
}

impl Client {
    /// A client.
    pub const fn new(user: Option<UserId>, credential: Option<Arc<str>>) -> Self {
        Self { user, credential }
    }

    /// The operating-system user at the other end; `None` for peers on other machines and where the system does not tell.
    pub const fn user(&self) -> Option<UserId> {
        self.user
    }

    /// What it is called towards the gateway and in the cache.
    pub fn id(&self) -> ClientId {
        match (self.user, &self.credential) {
            (None, None) => ClientId::OWNER,
            (Some(user), None) if user == UserId::own() => ClientId::OWNER,
            (user, credential) => {
                let user = user.map_or_else(|| "-".to_owned(), |user| user.to_string());
                // No number of a user has a space, so no two clients have one description.
                ClientId::of(&format!("{user} {}", credential.as_deref().unwrap_or_default()))
            }
        }
    }

    /// The name of the proxy credential that it showed; `None` where no password is configured.
    pub fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }
}

//! The clients of the agent.
use std::sync::Arc;

use longhaul_tcp_info::UserId;
use longhaul_types::ClientId;

/// One client of the agent. Data that one client loads and stores is not shared with other clients.
///
/// Two connections have the same client if the kernel reports the same user for both and both have the same
/// credential. A peer on another machine has no user, so only its credential identifies it. On systems that
/// do not report users (see [`longhaul_tcp_info::peer`]), all programs of this machine are one client.
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

    /// The operating-system user of the peer; `None` for peers on other machines and on systems that do not
    /// report users.
    pub const fn user(&self) -> Option<UserId> {
        self.user
    }

    /// The client's identifier in the session and the cache.
    pub fn id(&self) -> ClientId {
        match (self.user, &self.credential) {
            (None, None) => ClientId::OWNER,
            (Some(user), None) if user == UserId::own() => ClientId::OWNER,
            (user, credential) => {
                let user = user.map_or_else(|| "-".to_owned(), |user| user.to_string());
                // User numbers contain no space, so the descriptions of two clients differ.
                ClientId::of(&format!("{user} {}", credential.as_deref().unwrap_or_default()))
            }
        }
    }

    /// The name of the client's proxy credential; `None` if no password is configured.
    pub fn credential(&self) -> Option<&str> {
        self.credential.as_deref()
    }
}

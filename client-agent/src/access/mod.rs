//! Who is served: the clients of the agent, and access control by user, address and password.
mod access_control;
mod client;
mod passwords;
mod peer;

pub(crate) use access_control::Denial;
pub use access_control::{Access, AccessRules};
pub use client::{Client, UserId};
pub use passwords::{Passwords, PasswordsError};
pub(crate) use peer::{Peer, find as find_peer, owns_datagram_port, prepare as prepare_peer_lookup};

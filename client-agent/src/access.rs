//! Who is served: the clients of the agent, and access control by user, address and password.
mod access_control;
mod client;
mod passwords;

pub(crate) use access_control::Denial;
pub use access_control::{Access, AccessRules};
pub use client::Client;
pub use longhaul_tcp_info::UserId;
pub use passwords::{Passwords, PasswordsError};

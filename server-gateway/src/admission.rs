//! Admission: the list of admitted devices, the clients without an agent, agents that share a key, and the state directory with the gateway's keys.
//!
//! [`devices`] is the list and its file, [`clients`] the list of clients without an agent, [`state`] the directory. `invites` makes invites, `gateway_lock` keeps a second gateway out of the directory.
pub mod clients;
pub mod devices;
pub(crate) mod file_watch;
pub(crate) mod gateway_lock;
pub(crate) mod invites;
mod ownership;
pub(crate) mod shared_keys;
pub mod state;

//! Admission: the list of admitted devices, the clients without an agent, agents that share a key, and the state directory with the gateway's keys.
//!
//! [`devices`] is the list and its file, [`clients`] the list of clients without an agent, [`state`] the directory. `invites` makes invites, `gateway_lock` keeps a second gateway out of the directory.
pub mod clients;
pub mod devices;
pub mod file_watch;
pub mod gateway_lock;
pub mod invites;
mod ownership;
pub mod shared_keys;
pub mod state;

//! The Longhaul gateway: admits the sessions of agents and fetches for them from the fast network.
//!
//! * `server` listens, accepts sessions of the admitted devices, and starts a task for each of their streams. `session` is the
//!   state of one session; that of all sessions is in [`longhaul_gateway_core`].
//! * `fetch` serves requests from the HTTP cache ([`longhaul_webcache`]) and responds on a response stream;
//!   `tunnel` relays CONNECT tunnels, `association` UDP datagrams.
//! * [`longhaul_images`] transcodes images in separate processes, [`longhaul_delivery`] encodes bodies for the agent,
//!   [`longhaul_pageload`] announces and pushes the objects of a page load.
//! * Clients without an agent are served by `longhaul_clientless`, with the feature `clientless`.
//! * `backup` writes keys, devices, quotas and the configuration into one file, and reads it.
//! * `commands` are the operator's commands, `operator` the admin socket by which they reach a running gateway.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod association;
mod backup;
pub mod cli;
pub mod commands;
mod fetch;
mod operator;
mod server;
mod session;
mod tunnel;

pub use backup::{ArchiveError, reencode_backup};
pub use server::{ReloadError, Server, ServerControl, ServerError};

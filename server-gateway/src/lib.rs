//! The Longhaul gateway: admits the sessions of agents and fetches for them from the fast network.
//!
//! * `accept` accepts sessions of admitted devices; `session` starts a task for each of their streams.
//! * `fetch` serves requests from the HTTP cache ([`longhaul_webcache`]) and responds on a response stream.
//! * Bodies are encoded for the agent by [`longhaul_delivery`]; `upload` reads the bodies of requests.
//! * `images` transcodes images in the processes of `picture_workers`.
//! * `bundle` announces and pushes the objects of a page load; `tunnel` relays CONNECT tunnels.
//! * `config`, `state` and `devices` hold the operator's settings and state.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod bundle;
pub mod cli;
pub mod commands;
pub mod config;
mod control;
pub mod devices;
mod fetch;
mod forget;
mod images;
mod incoming;
mod logins;
mod metrics;
mod metrics_server;
mod open_files;
pub mod picture_workers;
mod session;
pub mod state;
mod tunnel;
mod upload;

pub use accept::{Server, ServerError};
pub use metrics::{LinkBytes, Metrics, Outcome};

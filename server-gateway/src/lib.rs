//! The Longhaul gateway: takes sessions of agents in and fetches for them from the fast network.
//!
//! The way of a request: `accept` takes a session of an admitted device, `session` makes a task of each of its streams,
//! `fetch` asks the `store` (the cache, and behind it [`longhaul_origin`]) and answers on a response stream, `body` and
//! `upload` carry the bodies, `images` makes pictures smaller, in `picture_workers`, `bases` finds what they can be coded against, `coded` keeps what they were coded to, `computing` is where that is done, `bundle` announces and pushes what a page will ask for, `tunnel` the CONNECT tunnels. `config`, `state` and `devices` are what the operator sets and keeps.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod asker;
mod bases;
mod body;
mod bundle;
pub mod cli;
mod coded;
pub mod commands;
mod computing;
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
mod store;
mod tunnel;
mod upload;

pub use accept::{Server, ServerError};
pub use metrics::{LinkBytes, Metrics, Outcome};

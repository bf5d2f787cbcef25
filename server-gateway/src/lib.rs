//! The Longhaul gateway: admits the sessions of agents and fetches for them from the fast network.
//!
//! * `server` listens, accepts sessions of the devices that `admission` lists, and starts a task for each of
//!   their streams. `device_register` applies changes of the list of devices. `session` is the state of one session, `gateway` that of all sessions.
//! * `fetch` serves requests from the HTTP cache ([`longhaul_webcache`]) and responds on a response stream;
//!   `tunnel` relays CONNECT tunnels, `association` UDP datagrams.
//! * `images` transcodes images in separate processes. [`longhaul_delivery`] encodes bodies for the agent.
//! * `pageload` announces and pushes the objects of a page load.
//! * `origin_reports` tells agents what origins sent for them.
//! * `quota` paces devices and counts their bytes of the month within `quota_limits`, `drain` ends the gateway when nothing is in progress.
//! * `failure` maps failures to the reasons that the agent receives.
//! * `backup` writes keys, devices, quotas and the configuration into one file, and reads it.
//! * `config` and `commands` are the operator's settings and commands, `operator` the admin socket by which
//!   commands reach a running gateway, `admin` the counters.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod admin;
mod admission;
mod association;
mod association_slots;
mod backup;
mod body_words;
pub mod cli;
mod client;
mod clientless;
pub mod commands;
pub mod config;
mod device_register;
mod device_streams;
mod drain;
mod failure;
mod fetch;
mod file_problem;
mod gateway;
mod images;
mod lessons;
mod operator;
mod origin_reports;
mod origin_request;
mod page_parsers;
mod pageload;
mod port_error;
mod predicted_request;
mod quota;
pub mod quota_limits;
mod rfc3339;
mod server;
mod session;
mod tunnel;

pub use admin::{
    device_usage::reencode_usage,
    metrics::{LinkBytes, Metrics, Outcome},
};
pub use admission::{clients, devices, state};
pub use backup::{ArchiveError, reencode_backup};
pub use clientless::{
    AccessError, BadChunk, CertificateError, ChunkEvent, ChunkedDecoder, ClientlessError, DnsQuestion,
    HeadError, HeadReader, OpenProxy, Reply, RequestHead, RequestTarget, RulesError, check_http2,
    redirect_rules,
};
pub use images::picture_workers;
pub use port_error::{PortError, PortProtocol, SettingPort};
pub use server::{ReloadError, Server, ServerControl, ServerError};

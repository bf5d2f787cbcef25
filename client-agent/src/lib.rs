//! The agent: the HTTP proxy of a browser on the slow side of the hop.
//!
//! Path of a request: [`listener`] accepts it from the browser on a connection of [`connection`], after
//! [`access`] has decided whom the agent serves; `request` runs it through its phases: [`store`] may have a stored
//! response, [`pageload`] may have an entry or a push for it, otherwise [`gateway`] carries it over the hop (or
//! [`upstream::direct`] fetches it if no gateway answers). [`pages`] explains failures, [`trouble`] those of the hop. [`images`] applies the
//! user's image level. [`socks`] serves other programs than browsers. `CONNECT` goes to `tunnel`, or to `https_server` for the hosts that [`https`] accelerates.
//! [`networks`] remembers the links of networks. [`control`] serves the dashboard of [`dashboard`]. [`savings`] counts what was saved,
//! and [`history`] keeps it; [`journal`] has the last requests.
//!
//! Components get what they use through five handles ([`handles`]): [`upstream`], [`store::Storage`],
//! [`acceleration`], [`counters`] and [`mod@journal`]. Only [`mod@agent`] reads the settings ([`config`]) and connects the
//! components; no component imports one that is above it.
//!
//! Deliberately absent: a cookie jar, following of redirects, repetition of requests that are not safe, and
//! delivery of unverified bytes to the browser.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod acceleration;
pub mod access;
pub mod agent;
pub mod config;
pub mod connection;
pub mod control;
pub mod control_client;
pub mod counters;
pub mod dashboard;
pub mod forget;
pub mod gateway;
pub mod handles;
pub mod history;
pub mod holdout;
pub mod host_name;
pub mod https;
mod https_server;
pub mod images;
pub mod journal;
pub mod listener;
pub mod networks;
#[cfg(not(unix))]
#[path = "open_files_portable.rs"]
mod open_files;
#[cfg(unix)]
#[path = "open_files_unix.rs"]
mod open_files;
pub mod pageload;
pub mod pages;
mod private_database;
pub mod proxy_body;
mod request;
pub mod rules;
pub mod savings;
pub mod service;
pub mod session_serial;
pub mod setup;
pub mod socks;
pub mod state_dir;
pub mod state_lock;
pub mod store;
pub mod trouble;
mod tunnel;
pub mod upstream;
mod wall_clock;

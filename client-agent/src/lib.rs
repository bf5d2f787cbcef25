//! The agent: the HTTP proxy of a browser on the slow side of the hop.
//!
//! Path of a request: [`listener`] accepts it from the browser; [`request`] runs it through its phases:
//! [`store`] may have a stored response, [`pageload`] may have an entry or a push for it, otherwise [`gateway`]
//! carries it over the hop (or [`direct`] fetches it if no gateway answers). [`pages`] explains failures in
//! plain words. [`pictures`] applies the user's image level. `CONNECT` goes to [`tunnel`]. [`control`] serves
//! the status page of [`dashboard`].
//!
//! Deliberately absent: a cookie jar, following of redirects, repetition of requests that are not safe, and
//! delivery of unverified bytes to the browser.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod config;
pub mod control;
pub mod counters;
pub mod dashboard;
pub mod direct;
mod fallback;
pub mod forget;
pub mod gateway;
pub mod https;
pub mod listener;
pub mod pageload;
pub mod pages;
pub mod pictures;
pub mod request;
pub mod state_dir;
pub mod status;
pub mod store;
pub mod tunnel;

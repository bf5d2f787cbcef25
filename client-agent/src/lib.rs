//! The agent: the HTTP proxy of a browser on the slow side of the hop.
//!
//! The way of a request: [`listener`] takes it from the browser, [`request`] leads it through its phases: [`store`] may
//! have its answer, [`bundle`] may have it promised or here, and else [`session`] carries it over the hop (or [`direct`] around it, when no gateway answers), and [`pages`] says in plain words what
//! went wrong. [`pictures`] knows how much of them the user wants to see. `CONNECT` goes to [`tunnel`]. [`control`] serves the status page of [`dashboard`].
//!
//! What is deliberately absent: a cookie jar, redirects, the repetition of a request that is not safe, and any byte for
//! the browser that was not verified before.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod agent;
pub mod bundle;
pub mod config;
pub mod control;
pub mod counters;
pub mod dashboard;
pub mod direct;
mod fallback;
pub mod forget;
pub mod https;
pub mod listener;
pub mod pages;
pub mod pictures;
pub mod request;
pub mod session;
pub mod state_dir;
pub mod status;
pub mod store;
pub mod tunnel;

//! Headless Chromium, driven over the DevTools protocol.
//!
//! A [`Browser`] is one Chromium with a profile of its own, new and empty; it ends with the value. It does nothing of
//! its own on the network (see `flags`), so that what crosses a link is the page's.
//!
//! Everything runs on the caller's thread and runtime, a current-thread runtime included: the program is started, and
//! the connection to it made, in the network namespace of the thread that calls.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bodies;
mod browser;
mod devtools;
mod flags;
mod load;
mod outcome;
mod paint;
mod requests;
mod response;
mod still;
mod tab;

pub use browser::{Browser, ChromiumError};
pub use devtools::DevToolsError;
pub use flags::{BrowserOptions, Http2, Names, Viewport};
pub use load::{Cache, EvaluateError, LoadError, LoadOptions, Loaded};
pub use still::Motion;

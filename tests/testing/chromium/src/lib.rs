//! Headless Chromium, controlled over the DevTools protocol.
//!
//! A [`Browser`] is one Chromium with its own new and empty profile; dropping it ends it. It sends no
//! requests of its own (see `flags`), so that all traffic on a link belongs to the page.
//!
//! Everything runs on the caller's thread and runtime, which may be a current-thread runtime: the program is
//! started, and the connection to it opened, in the network namespace of the calling thread.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bodies;
mod browser;
mod devtools;
mod flags;
mod load;
mod motion;
mod outcome;
mod paint;
mod requests;
mod response;
mod tab;
mod usage;

pub use browser::{Browser, ChromiumError};
pub use devtools::DevToolsError;
pub use flags::{BrowserOptions, Http2, Names, ProxyScheme, ProxySetting, Viewport};
pub use load::{Cache, EvaluateError, LoadError, LoadOptions, Loaded};
pub use motion::Motion;
pub use usage::Usage;

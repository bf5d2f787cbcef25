//! Recorded pages: a WARC reader ([`warc`]), an HTTP server that answers for every recorded host ([`origin`]), a test
//! certificate authority ([`tls`]), and a page loader without scripts ([`page`]).
//! [`serve_connections`] accepts connections up to a limit.
//!
//! The crate does not depend on agent or gateway.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod connections;
pub mod origin;
pub mod page;
pub mod tls;
pub mod warc;

pub use connections::serve_connections;

//! The HTTP rules that agent and gateway share, on the types of the `http` crate and free of I/O.
//!
//! * [`hop`]: hop-by-hop fields, `Via`, `Alt-Svc` (RFC 9110 section 7.6)
//! * [`framing`]: what body a message has (RFC 9112 section 6)
//! * [`target`]: the request targets that a proxy gets (RFC 9112 section 3.2)
//! * [`coding`]: content codings, and the fields that describe coded bytes
//! * [`conditional`]: conditional and range requests (RFC 9110 sections 13 and 14)
//! * [`policy`]: what a cache may store, reuse and share, and how it validates (RFC 9111)
//! * [`vary`]: the request fields that choose among the variants of a response (RFC 9111 section 4.1)
//! * [`cookies`]: the `Cookie` field, byte for byte
//! * [`credentials`]: logins that belong to a connection
//! * [`method`]: which requests may be repeated or sent early
//! * [`picture`]: pictures in the place of others
//! * [`acceleration`]: for which hosts HTTPS is accelerated
//! * [`pac`]: the proxy auto-configuration script
//! * [`site`]: schemeful sites by the public suffix list
//! * [`request_context`]: who asks, and what may be reused for whom
//! * [`clear_site_data`]: origins that ask to be forgotten
//! * [`limits`]: bounds on header sections
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod acceleration;
pub mod clear_site_data;
pub mod coding;
pub mod conditional;
pub mod cookies;
pub mod credentials;
mod date;
mod directives;
pub mod framing;
pub mod hop;
pub mod limits;
mod list;
pub mod method;
pub mod pac;
pub mod picture;
pub mod policy;
pub mod request_context;
pub mod site;
pub mod target;
pub mod vary;

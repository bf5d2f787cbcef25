//! The HTTP rules that agent and gateway share, on the types of the `http` crate and free of I/O.
//!
//! * [`hop_by_hop`]: hop-by-hop fields, `Via`, `Alt-Svc` (RFC 9110 section 7.6)
//! * [`framing`]: length of message bodies (RFC 9112 section 6)
//! * [`target`]: request targets of a proxy (RFC 9112 section 3.2)
//! * [`client_software`]: browsers and programs
//! * [`coding`]: content codings, and the fields that describe coded bytes
//! * [`conditional`]: conditional and range requests (RFC 9110 sections 13 and 14)
//! * [`policy`]: storage, reuse, sharing and validation of responses (RFC 9111)
//! * [`vary`]: the request fields that select a variant of a response (RFC 9111 section 4.1)
//! * [`expectation`]: requests whose body waits until it is asked for
//! * [`field_list`]: header fields as pairs of name and value
//! * [`redirection`]: redirections that browsers follow
//! * [`cookies`]: the `Cookie` field, byte for byte
//! * [`credentials`]: connection-bound logins
//! * [`method`]: requests that may be repeated or sent as early data
//! * [`transcoded_image`]: transcoded images
//! * [`acceleration`]: hosts whose HTTPS is accelerated
//! * [`captive_portal`]: detection of captive portals
//! * [`client_hello`]: the first message of TLS, for proxies that pass it on (RFC 8446)
//! * [`pac`]: the proxy auto-configuration script
//! * [`site`]: schemeful sites by the Public Suffix List
//! * [`request_context`]: requester, partition and credentials of a request
//! * [`clear_site_data`]: the `Clear-Site-Data` field
//! * [`url_credentials`]: user names and passwords in URLs
//! * [`local_network`]: names that only a local network has
//! * [`limits`]: limits of header sections
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod acceleration;
mod browser_notices;
pub mod captive_portal;
pub mod clear_site_data;
pub mod client_hello;
pub mod client_software;
pub mod coding;
pub mod conditional;
pub mod cookies;
pub mod credentials;
mod date;
mod directives;
pub mod expectation;
pub mod field_list;
pub mod framing;
pub mod hop_by_hop;
pub mod limits;
pub mod list;
pub mod local_network;
pub mod method;
pub mod pac;
pub mod policy;
pub mod redirection;
pub mod request_context;
pub mod site;
pub mod target;
pub mod target_encoder;
#[cfg(test)]
mod test_fields;
pub mod transcoded_image;
pub mod url_credentials;
pub mod vary;

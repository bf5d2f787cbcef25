//! Connections through the HTTP proxy of a network that lets nothing else out.
//!
//! [`HttpProxy::tunnel`] opens a connection to a host by CONNECT (RFC 9110 section 9.3.6). Which hosts are reached
//! through the proxy follows from its [`Exceptions`]. The proxy is the one of the environment ([`of_environment`]), or
//! a configured [`ProxyUrl`].
//!
//! Not built: proxies that are themselves reached over TLS, SOCKS, PAC scripts, and logins other than Basic. Local
//! programs exist that turn these into an HTTP proxy on this machine.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod answer;
mod environment;
mod error;
mod exceptions;
mod http_proxy;
mod url;

pub use answer::{Answer, MAX_HEAD, login_wanted, parse as parse_answer};
pub use environment::{VARIABLES, of_environment};
pub use error::{ProxyError, Whose};
pub use exceptions::Exceptions;
pub use http_proxy::{HttpProxy, LONGEST};
pub use url::{Credentials, CredentialsError, ProxyUrl, ProxyUrlError};

//! Connections of browsers: acceptance, a bounded number with fair shares, HTTP/1.1, and the state of one
//! connection ([`ConnectionScope`]).
mod accept;
mod close;
mod connection_limit;
mod connection_slot;
mod declared_body;
mod departure;
mod error_page_stream;
mod evictable_stream;
mod http1;
mod request_targets;
mod scope;

pub(crate) use accept::{Accepted, accept};
pub use accept::{BindError, bind};
pub(crate) use close::close_after_answer;
pub(crate) use connection_limit::{ConnectionLimits, ConnectionPermit};
pub(crate) use connection_slot::{InUse, Owner};
pub(crate) use declared_body::has_body;
pub(crate) use evictable_stream::{EvictableStream, InUseBody};
pub(crate) use http1::{serve_http, serve_http1};
pub use scope::ConnectionScope;

//! The Internet of a test network: servers of the pages' hosts, their name server, and a proxy that splits
//! connections.
//!
//! * [`Hosting`] answers for every host of a page from a [`Content`], as a current web server does: HTTP/1.1
//!   with pipelining, HTTP/2 where TLS negotiates it, certificates of a [`TestAuthority`] by server name.
//! * [`HostAddresses`] assigns every host an address, and [`NameServer`] answers DNS queries with it.
//! * [`SplittingProxy`] terminates TCP connections that are redirected to it and opens a connection of its
//!   own to the origin: the performance-enhancing proxy of RFC 3135 section 3.1.
//!
//! # Runtime
//! All sockets are opened, and all tasks spawned, by the runtime that runs the caller. If that is a
//! current-thread runtime on a thread inside a network namespace, everything is in that namespace. Servers
//! end when they are dropped.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
pub mod authority;
mod connection;
mod content;
mod cork;
mod exchanges;
mod hosting;
mod listening;
mod names;
mod options;
mod response;
mod splitting;
mod statistics;

pub use address::{HostAddresses, TooManyHosts};
pub use authority::{AuthorityError, TestAuthority, key_pin};
pub use content::{Content, Scheme};
pub use exchanges::Exchange;
pub use hosting::{Hosting, HostingError, Listen, OpenRequests};
pub use names::{NameServer, NameServerError, QuestionCounts};
pub use options::{Announcement, CloseAfter, Compression, HostingOptions, Http2, KeepAlive};
pub use splitting::{Destination, Sender, SplitStatistics, SplittingProxy, SplittingProxyError};
pub use statistics::{HostStatistics, HostingStatistics};

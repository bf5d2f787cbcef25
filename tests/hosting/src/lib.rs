//! The Internet of a testbed: pages' hosts, the name server that knows them, and a proxy that splits connections.
//!
//! * [`Hosting`] answers for every host of a page from a [`Content`], as a web server of today would: HTTP/1.1 with
//!   pipelining, HTTP/2 where TLS negotiates it, certificates of a [`TestAuthority`] by server name.
//! * [`HostAddresses`] gives every host an address of its own, and [`NameServer`] tells it over DNS.
//! * [`SplittingProxy`] terminates TCP connections that are diverted to it and goes on with a connection of its own:
//!   the performance-enhancing proxy of RFC 3135 section 3.1.
//!
//! # Runtime
//! All sockets are opened, and all tasks spawned, by the runtime that runs the caller. Where that is a current-thread
//! runtime on a thread inside a network namespace, everything is in that namespace. Servers end when they are dropped.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod address;
mod authority;
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
pub use splitting::{Destination, SplitStatistics, SplittingProxy, SplittingProxyError};
pub use statistics::{HostStatistics, HostingStatistics};

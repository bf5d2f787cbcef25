//! Options of a server.
use std::time::Duration;

/// Options of a server. The default is a current web server: persistent connections without a limit on
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostingOptions {
    /// Time from a request's last byte to its response's first byte. On a pipelined connection the think
    /// times follow each other, on HTTP/2 they run in parallel. Default: zero.
    pub think_time: Duration,
    /// Pre-emptive close of a connection after a number of responses. Default: none.
    pub close_after: Option<CloseAfter>,
    /// Persistence of HTTP/1 connections. Default: on.
    pub keep_alive: KeepAlive,
    /// Maximum idle time between a response and the next request. Default: 75 s, as in nginx.
    pub keep_alive_timeout: Duration,
    /// Offer of HTTP/2 by TLS. Default: on.
    pub http2: Http2,
    /// Content coding of bodies that are stored as identity. Default: off, the baseline of the papers.
    pub compression: Compression,
    /// Maximum number of connections served at a time; further ones wait in the kernel's backlog. Default:
    /// 1024, which is six connections for each of 170 hosts.
    pub max_connections: usize,
}

/// Pre-emptive close of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseAfter {
    /// Number of responses on a connection, at least 1; 0 counts as 1.
    pub responses: u32,
    /// Announcement of the close. HTTP/2 always announces it, by GOAWAY; requests in progress are still
    /// answered.
    pub announcement: Announcement,
}

/// Announcement of the end of a persistent connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// `Connection: close` on the last response (RFC 9112 section 9.6).
    Announced,
    /// Only the FIN after the last response. Pipelined requests after it are lost and must be repeated.
    Silent,
}

/// Persistence of HTTP/1 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// As the client requests (RFC 9112 section 9.3).
    On,
    /// Every response closes its connection.
    Off,
}

/// Offer of HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// Negotiated by ALPN if there is TLS.
    On,
    /// HTTP/1.1 only.
    Off,
}

/// Content coding applied by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Bodies as stored.
    Off,
    /// Text that is stored as identity is sent as gzip, level 6, to clients that accept it.
    Gzip,
}

impl HostingOptions {
    /// Apache as measured in UMTS-PROXY (Necker, Scharf, Weber: Performance of different proxy concepts in
    /// UMTS networks, section 4.1): 100 responses per connection, announced, and 15 s of idle time.
    pub const APACHE: Self = Self {
        close_after: Some(CloseAfter {
            responses: 100,
            announcement: Announcement::Announced,
        }),
        keep_alive_timeout: Duration::from_secs(15),
        ..Self::DEFAULT
    };

    const DEFAULT: Self = Self {
        think_time: Duration::ZERO,
        close_after: None,
        keep_alive: KeepAlive::On,
        keep_alive_timeout: Duration::from_secs(75),
        http2: Http2::On,
        compression: Compression::Off,
        max_connections: 1024,
    };
}

impl Default for HostingOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

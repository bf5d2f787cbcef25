//! How a server behaves.
use std::time::Duration;

/// Settings of a server. The default is a web server of today: persistent connections without a limit on requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostingOptions {
    /// From a request's last byte to its response's first, for each response. On a pipelined connection one response
    /// after the other thinks, on HTTP/2 they think side by side. Default: zero.
    pub think_time: Duration,
    /// Pre-emptive close of a connection after a number of responses. Default: none.
    pub close_after: Option<CloseAfter>,
    /// Whether HTTP/1 connections persist. Default: on.
    pub keep_alive: KeepAlive,
    /// How long a connection may be idle between a response and the next request until it is closed. Default: 75 s,
    /// that of nginx.
    pub keep_alive_timeout: Duration,
    /// Whether TLS offers HTTP/2. Default: on.
    pub http2: Http2,
    /// Content coding of bodies that are stored as identity. Default: off, the baseline of the papers.
    pub compression: Compression,
    /// Connections served at a time; further ones wait in the kernel's backlog. Default: 1024, which is six
    /// connections for each of 170 hosts.
    pub max_connections: usize,
}

/// Pre-emptive close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseAfter {
    /// Responses on a connection, at least 1; 0 counts as 1.
    pub responses: u32,
    /// Whether the client is told. HTTP/2 always tells, by GOAWAY; requests under way then are still answered.
    pub announcement: Announcement,
}

/// How the end of a persistent connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// `Connection: close` on the last response (RFC 9112 section 9.6).
    Announced,
    /// Nothing but the FIN behind the last response. Requests that the client had pipelined are lost and must be
    /// repeated.
    Silent,
}

/// Whether HTTP/1 connections persist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepAlive {
    /// As the client asks (RFC 9112 section 9.3).
    On,
    /// Every response closes its connection.
    Off,
}

/// Whether HTTP/2 is offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http2 {
    /// By ALPN where there is TLS.
    On,
    /// HTTP/1.1 only.
    Off,
}

/// Content coding applied by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Bodies as stored.
    Off,
    /// Text that is stored as identity goes out as gzip, level 6, to clients that accept it.
    Gzip,
}

impl HostingOptions {
    /// Apache as UMTS-PROXY (Necker, Scharf, Weber: Performance of different proxy concepts in UMTS networks) found it
    /// in section 4.1: 100 responses a connection, announced, and 15 s of idle time.
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

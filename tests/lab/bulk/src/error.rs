//! Errors of the transports.
use std::{io, net::SocketAddr};

use longhaul_driver::{CloseReason, DialError, ListenError, SessionError, StreamError};

use crate::exchange::WrongBytes;

/// Errors of starting a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The kernel does not provide the congestion control.
    #[error(
        "this kernel does not let a socket use TCP congestion control `{name}` ({source}): load it with `modprobe tcp_{name}`, and \
         without root allow it too with `sysctl net.ipv4.tcp_allowed_congestion_control=\"reno cubic {name}\"`"
    )]
    Congestion {
        /// Its name.
        name: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The socket at the address could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The certificate could not be created.
    #[error("cannot create a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate was rejected.
    #[error("TLS configuration rejected: {0}")]
    Tls(#[from] rustls::Error),
    /// Longhaul's listener could not be started.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A port of TLS or QUIC could not be opened.
    #[error(transparent)]
    Carrier(#[from] longhaul_carriers::BindError),
    /// Their certificate could not be created.
    #[error(transparent)]
    Identity(#[from] longhaul_carriers::IdentityError),
    /// The operating system provided no randomness.
    #[error("the operating system provides no randomness: {0}")]
    Randomness(#[from] getrandom::Error),
}

/// Errors of incomplete transfers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The connection could not be opened, or broke.
    #[error("{doing} failed: {source}")]
    Socket {
        /// Operation that failed.
        doing: &'static str,
        /// Error of the kernel.
        source: io::Error,
    },
    /// The server ended the response early.
    #[error("the response ended after {received} of {asked} bytes")]
    Short {
        /// Number of received bytes.
        received: u64,
        /// Number of requested bytes.
        asked: u64,
    },
    /// The received bytes differ from those sent.
    #[error(transparent)]
    Wrong(#[from] WrongBytes),
    /// The QUIC connection has ended.
    #[error("the QUIC connection has ended: {0}")]
    QuicConnection(#[from] quinn::ConnectionError),
    /// Another error of QUIC.
    #[error("QUIC: {0}")]
    Quic(String),
    /// TLS rejected the server's certificate as an authority.
    #[error("TLS configuration rejected: {0}")]
    Tls(#[from] rustls::Error),
    /// Longhaul's session could not be started.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Longhaul's session has ended.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Longhaul's stream has ended.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Longhaul's session ended before the response.
    #[error("the session ended before the response: {0}")]
    Unanswered(CloseReason),
    /// The server has no such client.
    #[error("the server has clients 0 to {}, not {asked}", .known.saturating_sub(1))]
    UnknownClient {
        /// Number of the client.
        asked: usize,
        /// Number of clients that the server has.
        known: usize,
    },
    /// The network could not be told to drop UDP.
    #[error(transparent)]
    Block(#[from] longhaul_world::IpError),
    /// A wrong profile was requested for a link without a profile.
    #[error("a wrong profile needs a link with a profile; base this link on a built-in link")]
    NoProfile,
    /// It exceeded its time limit.
    #[error("{0} exceeded its time limit")]
    TimedOut(&'static str),
}

impl TransferError {
    /// For `map_err`: adds the failed operation.
    pub(crate) fn socket(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { doing, source }
    }
}

//! What can go wrong with a transport.
use std::{io, net::SocketAddr};

use longhaul_driver::{CloseReason, DialError, ListenError, SessionError, StreamError};

use crate::exchange::WrongBytes;

/// A server that cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The kernel lacks the congestion control.
    #[error(
        "this kernel does not let a socket use TCP congestion control `{name}` ({source}): load it with `modprobe tcp_{name}`, and \
         without root allow it too with `sysctl net.ipv4.tcp_allowed_congestion_control=\"reno cubic {name}\"`"
    )]
    Congestion {
        /// Its name.
        name: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No socket at the address.
    #[error("cannot listen on {address}: {source}")]
    Socket {
        /// The address.
        address: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
    /// No certificate could be made.
    #[error("no throw-away certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate was refused.
    #[error("TLS configuration refused: {0}")]
    Tls(#[from] rustls::Error),
    /// Longhaul's listener.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The system gave no randomness.
    #[error("no randomness from the system: {0}")]
    Randomness(#[from] getrandom::Error),
}

/// A transfer that did not complete.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The connection could not be opened, or broke.
    #[error("{doing} failed: {source}")]
    Socket {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The server ended the response early.
    #[error("the response ended after {received} of {asked} bytes")]
    Short {
        /// Bytes that arrived.
        received: u64,
        /// Bytes that were asked for.
        asked: u64,
    },
    /// The transport changed the bytes.
    #[error(transparent)]
    Wrong(#[from] WrongBytes),
    /// The QUIC connection is gone.
    #[error("QUIC connection dead: {0}")]
    QuicConnection(#[from] quinn::ConnectionError),
    /// QUIC otherwise.
    #[error("QUIC: {0}")]
    Quic(String),
    /// TLS refused the server's certificate as an authority.
    #[error("TLS configuration refused: {0}")]
    Tls(#[from] rustls::Error),
    /// Longhaul could not begin.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// Longhaul's session is gone.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Longhaul's stream is gone.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// Longhaul's session ended while a response was awaited.
    #[error("session lost while waiting for a response: {0}")]
    Unanswered(CloseReason),
    /// There is no such client at the server.
    #[error("the server knows clients 0 to {}, not {asked}", .known.saturating_sub(1))]
    UnknownClient {
        /// The client's number.
        asked: usize,
        /// How many the server knows.
        known: usize,
    },
    /// A wrong profile was asked for, and there is no right one.
    #[error("nothing is known of this link that could be told wrongly; base it on a built-in link")]
    NoProfile,
    /// It took longer than anybody waits.
    #[error("{0} was not done in time")]
    TimedOut(&'static str),
}

impl TransferError {
    /// For `map_err`: names what the kernel refused.
    pub(crate) fn socket(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { doing, source }
    }
}

//! Systems that do not have the option of Linux.
use std::io;

use crate::TcpInfo;

/// The system tells nothing.
///
/// # Errors
/// Always ([`io::ErrorKind::Unsupported`]).
pub fn tcp_info<S>(_socket: &S) -> io::Result<TcpInfo> {
    Err(io::ErrorKind::Unsupported.into())
}

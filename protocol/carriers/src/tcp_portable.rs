//! Options of a TCP connection that carries a link, on systems without those of Linux.
use std::io;

use tokio::net::TcpStream;

/// Does nothing: there is no such limit.
pub const fn limit_unsent(_connection: &TcpStream, _bytes: u32) {}

/// Refused: only Linux lets a program choose.
///
/// # Errors
/// Always.
pub fn use_bbr(_connection: &TcpStream) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Does nothing.
pub const fn limit_send_buffer(_connection: &TcpStream, _bytes: usize) {}

/// Options of one connection.
#[derive(Debug)]
pub(crate) struct TcpOptions;

impl TcpOptions {
    /// Sets the options that do not change. A refused option only costs delay.
    pub(crate) fn new(connection: &TcpStream) -> Self {
        let _refused = connection.set_nodelay(true);
        Self
    }

    /// Does nothing: there is no such limit.
    pub(crate) const fn limit_unsent(&mut self, _bytes: usize) {}
}

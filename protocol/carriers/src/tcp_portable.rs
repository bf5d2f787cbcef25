//! Options of a TCP connection that carries a link, on systems without those of Linux.
use tokio::net::TcpStream;

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

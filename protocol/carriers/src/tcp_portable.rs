//! Options of a TCP connection that carries a link, on systems without those of Linux.
use tokio::net::TcpStream;

use crate::pump::Room;

/// Options of one connection.
#[derive(Debug)]
pub(crate) struct TcpOptions;

impl TcpOptions {
    /// Sets the options that do not change. A refused option only costs delay.
    pub(crate) fn new(connection: &TcpStream) -> Self {
        let _refused = connection.set_nodelay(true);
        Self
    }

    /// The same.
    pub(crate) fn of_accepted(connection: &TcpStream) -> Self {
        Self::new(connection)
    }

    /// Does nothing: the system chooses.
    pub(crate) const fn before_write(&mut self, _sufficient: usize) {}

    /// The system tells nothing.
    pub(crate) const fn after_write(&mut self, _bytes: usize) -> Room {
        Room::Unknown
    }

    /// The same.
    pub(crate) const fn room(&self) -> Room {
        Room::Unknown
    }
}

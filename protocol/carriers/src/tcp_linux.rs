//! Options of a TCP connection that carries a link (tcp(7)).
use std::{
    os::fd::{AsFd as _, OwnedFd},
    time::Duration,
};

use socket2::SockRef;
use tokio::net::TcpStream;

/// Greatest limit of unsent bytes: above 40 Mbit/s the kernel drains even these within 50 ms.
const GREATEST: usize = 256 * 1024;
/// Time for which sent bytes may stay unacknowledged. A dead connection otherwise ends after a quarter of an
/// hour; an agent replaces it much earlier.
const USER_TIMEOUT: Duration = Duration::from_secs(60);

/// Options of one connection.
#[derive(Debug)]
pub(crate) struct TcpOptions {
    socket: Option<OwnedFd>,
    unsent: usize,
}

impl TcpOptions {
    /// Sets the options that do not change. A refused option only costs delay.
    pub(crate) fn new(connection: &TcpStream) -> Self {
        let _refused = connection.set_nodelay(true);
        let _refused = SockRef::from(connection).set_tcp_user_timeout(Some(USER_TIMEOUT));
        Self {
            socket: connection.as_fd().try_clone_to_owned().ok(),
            unsent: 0,
        }
    }

    /// Limits the unsent bytes in the kernel's buffer (TCP_NOTSENT_LOWAT): what is in it can no longer be
    /// overtaken by more urgent packets. Small changes are not worth a call.
    pub(crate) fn limit_unsent(&mut self, bytes: usize) {
        let bytes = bytes.min(GREATEST);
        if bytes > self.unsent / 2 && bytes < self.unsent * 2 {
            return;
        }
        if let (Some(socket), Ok(limit)) = (&self.socket, u32::try_from(bytes)) {
            self.unsent = bytes;
            let _refused = SockRef::from(socket).set_tcp_notsent_lowat(limit);
        }
    }
}

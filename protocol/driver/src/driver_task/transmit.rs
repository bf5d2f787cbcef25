//! Datagrams of the core in the driver task: batches for the socket, and packets for links.
use std::io;

use longhaul_protocol::path::Path;
use longhaul_types::Timestamp;
use tracing::debug;

use super::DriverTask;

/// Maximum number of datagrams sent in one turn, so that a fast sender does not starve arriving feedback: 128
/// datagrams take 1.3 ms at 1 Gbit/s.
const DATAGRAMS_A_TURN: usize = 128;

impl DriverTask {
    /// Sends the datagrams that the core can send now. Returns true if more datagrams can be sent at once.
    pub(super) fn transmit(&mut self) -> bool {
        let now = self.clock.now();
        if !self.send() {
            return false;
        }
        let mut left = DATAGRAMS_A_TURN;
        while left > 0 {
            let datagrams = self.fill_batch(now, left);
            if datagrams == 0 || !self.send() {
                return false;
            }
            left = left.saturating_sub(datagrams);
        }
        true
    }

    /// Fills the batch with at most `most` datagrams that the core can send now, in order and to one peer.
    /// The pacer has permitted each datagram, so that a batch never contains more than separate calls would
    /// send.
    fn fill_batch(&mut self, now: Timestamp, most: usize) -> usize {
        let session = match self.deferred.take() {
            Some(path) => {
                self.batch.restart(path, &self.datagram);
                None
            }
            None => {
                let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.datagram) else {
                    return 0;
                };
                // The session's counters and estimates have changed without a read or write.
                self.touched.extend(transmit.session);
                match transmit.remote {
                    Path::Udp(path) => self.batch.restart(path, &self.datagram),
                    Path::Link(link) => {
                        self.send_on_link(link, transmit.session);
                        return 1;
                    }
                }
                transmit.session
            }
        };
        let Some(session) = session else { return 1 };
        let most = most.min(self.sockets.max_segments(self.batch.path()));
        while self.batch.has_room(most) {
            let Some(transmit) = self.endpoint.poll_transmit_of(now, session, &mut self.datagram) else {
                break;
            };
            match transmit.remote {
                Path::Udp(path) if self.batch.takes(path, transmit.len) => {
                    self.batch.push(&self.datagram);
                }
                Path::Udp(path) => {
                    self.deferred = Some(path);
                    break;
                }
                Path::Link(link) => self.send_on_link(link, transmit.session),
            }
        }
        self.batch.segments()
    }

    /// Sends the batch, or keeps the rest that the socket does not accept. Returns true if the socket accepts
    /// more.
    fn send(&mut self) -> bool {
        match self.sockets.send(&mut self.batch) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                // No route or no permission: for the transport this is a lost packet, which is retransmitted.
                debug!(%error, "send");
                self.on_udp_refused();
                true
            }
        }
    }
}

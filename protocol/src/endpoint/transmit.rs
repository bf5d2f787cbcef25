//! Datagrams to send: stateless answers, handshakes, then the packets of the sessions in turn.
use longhaul_types::Timestamp;

use super::{ConnectionHandle, Endpoint};
use crate::path::Path;

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Path on which to send it.
    pub remote: Path,
    /// Length in the buffer.
    pub len: usize,
    /// Session that sends the datagram; `None` for stateless answers.
    pub session: Option<ConnectionHandle>,
}

/// Maximum number of queued stateless answers: enough for one turn of a busy driver. When the queue is full,
/// a datagram is not answered, and its sender repeats it.
const MAX_ANSWERS: usize = 256;

impl Endpoint {
    /// Clears `buf` and writes the next datagram to send now into it.
    pub fn poll_transmit(&mut self, now: Timestamp, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        if let Some((remote, answer)) = self.answers.pop_front() {
            buf.extend_from_slice(&answer);
            return Some(Transmit {
                remote,
                len: buf.len(),
                session: None,
            });
        }
        while let Some(&handle) = self.ready.front() {
            self.ready.pop_front();
            if let Some(remote) = self.session_transmit(now, handle, buf) {
                self.ready.push_back(handle);
                return Some(Transmit {
                    remote,
                    len: buf.len(),
                    session: Some(handle),
                });
            }
            buf.clear();
            self.settle(handle);
        }
        None
    }

    /// Like [`Endpoint::poll_transmit`], for one session only. A driver uses it to gather several datagrams
    /// for one peer, which are cheaper to send together.
    pub fn poll_transmit_of(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buf.clear();
        let remote = self.session_transmit(now, handle, buf)?;
        Some(Transmit {
            remote,
            len: buf.len(),
            session: Some(handle),
        })
    }

    fn session_transmit(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        buf: &mut Vec<u8>,
    ) -> Option<Path> {
        self.write_init(now, handle, buf);
        let session = self.sessions.get_mut(&handle)?;
        if !buf.is_empty() {
            session.connection.count_handshake_sent(buf.len());
            return session.init_sent(now);
        }
        if !session.is_started() {
            return None;
        }
        let path = session.connection.path();
        let blocked = self.links.is_blocked(path);
        session.connection.set_blocked(blocked);
        if let Some(payload) = self.links.payload(path) {
            session.connection.set_link_payload(payload);
        }
        if blocked {
            return session.connection.transmit_probing(now, buf);
        }
        let resp_to = session.take_resp(buf);
        let resp_len = buf.len();
        if resp_to.is_some_and(|to| to != session.connection.path()) {
            // The session has moved since the INIT: the RESP goes where the INIT came from, and does not count for the
            // amplification limit of the new address.
            session.connection.count_handshake_sent(resp_len);
            return resp_to;
        }
        let remote = session.connection.poll_transmit(now, buf).or(resp_to);
        if resp_to.is_some() && buf.len() == resp_len {
            session.connection.count_handshake_sent(resp_len);
        } else {
            session.connection.count_resp_sent_ahead(resp_len);
        }
        remote
    }

    pub(super) fn answer(&mut self, remote: Path, datagram: Vec<u8>) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((remote, datagram));
        } else {
            self.counters.rate_limited += 1;
        }
    }
}

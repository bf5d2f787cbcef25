//! Datagrams of the user (transport.md section 4.4).
use std::collections::VecDeque;

use bytes::Bytes;
use longhaul_types::Timestamp;

use super::{Connection, Keys, Lifecycle, STAMP_LEN};
use crate::{
    endpoint::Event,
    streams::{Datagram, DatagramError},
    wire::{self, FrameError, TAG_LEN},
};

/// Maximum size of received datagrams that the user has not taken, with [`ENTRY`] for each.
const MAX_RECEIVED: usize = 256 * 1024;
/// Memory of a datagram besides its bytes.
const ENTRY: usize = 64;
/// Type of a DATAGRAM frame, and the largest FORWARD frame, which may have to accompany it in every packet.
const FRAMES_BESIDE: usize = 1 + 9;

/// Received datagrams that the user has not taken, oldest first.
#[derive(Debug, Default)]
#[cfg_attr(test, derive(Clone))]
pub(super) struct ReceivedDatagrams {
    waiting: VecDeque<Bytes>,
    size: usize,
    dropped: u64,
}

impl ReceivedDatagrams {
    /// Adds a datagram, and drops the oldest ones if there are too many. Returns true if none waited before.
    fn push(&mut self, bytes: &[u8]) -> bool {
        let was_empty = self.waiting.is_empty();
        self.waiting.push_back(Bytes::copy_from_slice(bytes));
        self.size += bytes.len() + ENTRY;
        while self.size > MAX_RECEIVED && self.take().is_some() {
            self.dropped += 1;
        }
        was_empty
    }

    fn take(&mut self) -> Option<Bytes> {
        let bytes = self.waiting.pop_front()?;
        self.size -= bytes.len() + ENTRY;
        Some(bytes)
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Connection {
    /// Queues a datagram. It is sent once at most, when credit and scheduler permit, or dropped if that takes too long.
    ///
    /// # Errors
    /// The datagram is dropped: the peer receives none, or it is too large.
    pub fn send_datagram(&mut self, now: Timestamp, datagram: Datagram) -> Result<(), DatagramError> {
        if !matches!(self.lifecycle, Lifecycle::Open) {
            return Err(DatagramError::Closed);
        }
        let max = self.max_datagram().ok_or(DatagramError::Unsupported)?;
        if datagram.bytes.len() > max {
            return Err(DatagramError::TooLarge);
        }
        self.streams.push_datagram(now, datagram);
        self.rearm();
        Ok(())
    }

    /// Largest datagram that can be sent at present; `None` if the peer receives none, or before RESP. It changes with
    /// the MTU of the path.
    pub fn max_datagram(&self) -> Option<usize> {
        if !self.peer_takes_datagrams || !matches!(self.keys, Keys::Full { .. }) {
            return None;
        }
        let around = self.header_len() + STAMP_LEN + FRAMES_BESIDE + TAG_LEN;
        self.mtu.payload().checked_sub(around)
    }

    /// Returns the next received datagram.
    pub fn take_datagram(&mut self) -> Option<Bytes> {
        self.received_datagrams.take()
    }

    /// Processes a DATAGRAM frame.
    pub(super) fn on_datagram(
        &mut self,
        now: Timestamp,
        datagram: wire::Datagram<'_>,
    ) -> Result<(), FrameError> {
        if !self.config.datagrams {
            return Err(FrameError::Unsupported);
        }
        self.stats.datagrams_received += 1;
        self.last_news_at = now;
        if self.received_datagrams.push(datagram.0) {
            // At most one for each time that the user has taken all datagrams.
            self.events.push_back(Event::Datagrams);
        }
        Ok(())
    }
}

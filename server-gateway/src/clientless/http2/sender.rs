//! Sends the bodies of a connection.
use std::{future::poll_fn, io, time::Duration};

use bytes::{Buf, Bytes};
use h2::{Reason, SendStream};
use longhaul_types::Priority;
use tokio::time::timeout;

use super::turns::{Turn, Turns};

/// Bytes that are handed over at once.
const PIECE: usize = 16 * 1024;

/// Bytes of a body on their way through the library, which drops them once they are written.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    _turn: Option<Turn>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}

/// Sender of one body.
pub(super) struct BodySender {
    stream: SendStream<Piece>,
    turns: Turns,
    /// Maximum time for which the client accepts nothing.
    stall: Duration,
    pub(super) class: Priority,
    /// Bytes that are left, if known.
    pub(super) left: Option<u64>,
}

impl BodySender {
    pub(super) const fn new(
        stream: SendStream<Piece>,
        turns: Turns,
        stall: Duration,
        class: Priority,
    ) -> Self {
        Self {
            stream,
            turns,
            stall,
            class,
            left: None,
        }
    }

    /// Sends bytes, in the order of the connection's bodies.
    pub(super) async fn send(&mut self, mut bytes: Bytes) -> io::Result<()> {
        while !bytes.is_empty() {
            let wanted = bytes.len().min(PIECE);
            let (turn, capacity) = self.turn(wanted).await?;
            let piece = bytes.split_to(capacity.min(wanted));
            if let Some(left) = &mut self.left {
                *left = left.saturating_sub(piece.len() as u64);
            }
            let piece = Piece {
                bytes: piece,
                _turn: Some(turn),
            };
            self.stream.send_data(piece, false).map_err(io::Error::other)?;
        }
        Ok(())
    }

    /// Waits until it is this body's turn and the client accepts bytes of it.
    async fn turn(&mut self, wanted: usize) -> io::Result<(Turn, usize)> {
        loop {
            let left = self.left.unwrap_or(u64::MAX);
            let turn = self.turns.next(self.class, left).await;
            // Not before: what one body reserves of the connection's window, no other one can have.
            self.stream.reserve_capacity(wanted);
            match self.stream.capacity() {
                0 => drop(turn),
                capacity => return Ok((turn, capacity)),
            }
            let granted = timeout(self.stall, poll_fn(|cx| self.stream.poll_capacity(cx))).await;
            match granted.map_err(io::Error::from)? {
                Some(granted) => drop(granted.map_err(io::Error::other)?),
                None => return Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Ends the body.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let piece = Piece {
            bytes: Bytes::new(),
            _turn: None,
        };
        self.stream.send_data(piece, true).map_err(io::Error::other)
    }

    /// Breaks the body off, so that the client sees that it is incomplete.
    pub(super) fn break_off(mut self, reason: Reason) {
        self.stream.send_reset(reason);
    }

    /// Returns once the client has cancelled the stream, or the connection has ended.
    pub(super) async fn cancelled(&mut self) {
        let _reason = poll_fn(|cx| self.stream.poll_reset(cx)).await;
    }
}

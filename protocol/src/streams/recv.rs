//! Receiving half of a stream: reassembly, stream window, missing tail (transport.md sections 4.1, 4.3, 5.3).
use std::collections::BTreeMap;

use bytes::Bytes;

use super::RangeSet;

/// Memory of a fragment in addition to its bytes. It counts for the receive buffer, so that a peer cannot
/// make the overhead exceed the data.
pub const FRAGMENT_COST: u64 = 64;

/// Maximum size of a chunk. Consecutive bytes are joined to chunks, so that a reader is not woken for each
/// packet.
const CHUNK: usize = 16 * 1024;

/// A DATA or CANCEL frame that violates a limit or contradicts earlier frames; the session is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamViolation {
    /// Bytes beyond the final length, or a second final length (error 2).
    #[error("peer contradicted the length of a stream")]
    FinalLength,
    /// Bytes beyond the stream window, or a stream beyond the limit (error 3).
    #[error("peer sent beyond a stream limit")]
    Limit,
    /// A stream of the wrong direction, or one that was never opened (error 2).
    #[error("peer used a stream that it does not have")]
    Direction,
}

/// Result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// The next bytes.
    Data(Bytes),
    /// No bytes yet; a `Readable` event follows.
    Blocked,
    /// The stream has ended and all bytes were read.
    Finished,
}

/// Effect of a frame on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// True if the user can read more bytes or the end.
    pub readable: bool,
    /// Change of the stream's memory in bytes.
    pub buffered: i64,
}

/// Receiving half of one stream.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct RecvStream {
    /// Number of bytes that the user has read.
    read: u64,
    /// End of the bytes received without a gap.
    contiguous: u64,
    /// Unread bytes by offset; disjoint.
    chunks: BTreeMap<u64, Vec<u8>>,
    buffered: u64,
    /// Highest offset received.
    highest: u64,
    /// Number of distinct bytes received.
    received: u64,
    final_len: Option<u64>,
    total: Option<u64>,
    cancelled: Option<u64>,
    /// Byte ranges received, after `stop`. Bytes are then only counted, so that a stream ends whose sender
    /// finished before STOP arrived.
    stopped: Option<RangeSet>,
    /// True if a part of the stream arrived in early data (section 3.3).
    pub early: bool,
    /// Limit of the last STREAM_LIMIT (section 4.3).
    pub limit: u64,
    /// Bytes that the user had read when this limit was set.
    pub limit_set_at: u64,
}

impl RecvStream {
    /// Creates a stream whose peer may send up to offset `limit`.
    pub const fn new(limit: u64, early: bool) -> Self {
        Self {
            read: 0,
            contiguous: 0,
            chunks: BTreeMap::new(),
            buffered: 0,
            highest: 0,
            received: 0,
            final_len: None,
            total: None,
            cancelled: None,
            stopped: None,
            early,
            limit,
            limit_set_at: 0,
        }
    }

    /// Processes a DATA frame.
    ///
    /// # Errors
    /// The frame exceeds the window or contradicts the length.
    pub fn on_data(
        &mut self,
        offset: u64,
        total: Option<u64>,
        fin: bool,
        bytes: &[u8],
    ) -> Result<Accepted, StreamViolation> {
        let end = offset
            .checked_add(bytes.len() as u64)
            .ok_or(StreamViolation::FinalLength)?;
        self.check(end, total, fin)?;
        if self.cancelled.is_some() {
            return Ok(Accepted::default());
        }
        if total.is_some() {
            self.total = total;
        }
        let finishes = fin && self.final_len.is_none();
        if fin {
            self.final_len = Some(end);
            self.total = Some(end);
        }
        self.highest = self.highest.max(end);
        let before = (self.buffered, self.contiguous);
        if let Some(seen) = &mut self.stopped {
            seen.insert(offset..end);
            self.contiguous = seen.first().map_or(0, |first| first.end);
            self.read = self.contiguous;
        } else {
            self.store(offset, bytes);
            self.advance();
        }
        let readable = self.stopped.is_none()
            && (self.contiguous > before.1 || (finishes && self.final_len == Some(self.contiguous)));
        Ok(Accepted {
            readable,
            buffered: signed(self.buffered) - signed(before.0),
        })
    }

    fn check(&self, end: u64, total: Option<u64>, fin: bool) -> Result<(), StreamViolation> {
        let known = self.final_len.or(self.total);
        let fits = known
            .is_none_or(|len| end <= len && total.is_none_or(|total| total == len) && (!fin || end == len))
            && total.is_none_or(|total| end <= total && self.highest <= total && (!fin || total == end))
            && (!fin || self.highest <= end);
        if !fits {
            return Err(StreamViolation::FinalLength);
        }
        if end > self.limit {
            return Err(StreamViolation::Limit);
        }
        Ok(())
    }

    /// Stores the new parts of `bytes`.
    fn store(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let mut at = offset.max(self.contiguous);
        if at >= end {
            return;
        }
        // A chunk before `at` may extend into the new range.
        if let Some((start, chunk)) = self.chunks.range(..=at).next_back() {
            at = at.max(start + chunk.len() as u64);
        }
        while at < end {
            let next = self
                .chunks
                .range(at..end)
                .next()
                .map(|(start, chunk)| (*start, start + chunk.len() as u64));
            let stop = next.map_or(end, |(start, _)| start);
            if let Some(part) = bytes.get(index(at - offset)..index(stop - offset))
                && !part.is_empty()
            {
                self.keep(at, part);
            }
            at = next.map_or(end, |(_, after)| after);
        }
    }

    /// Stores new bytes: appends them to the chunk that ends at `at`, or creates a chunk.
    fn keep(&mut self, at: u64, part: &[u8]) {
        self.received += part.len() as u64;
        self.buffered += part.len() as u64;
        if let Some((start, chunk)) = self.chunks.range_mut(..at).next_back()
            && start + chunk.len() as u64 == at
            && chunk.len() + part.len() <= CHUNK
        {
            chunk.extend_from_slice(part);
            return;
        }
        self.chunks.insert(at, part.to_vec());
        self.buffered += FRAGMENT_COST;
    }

    fn advance(&mut self) {
        while let Some((start, chunk)) = self.chunks.range(..=self.contiguous).next_back() {
            let end = start + chunk.len() as u64;
            if end <= self.contiguous {
                return;
            }
            self.contiguous = end;
        }
    }

    /// Processes a CANCEL frame.
    ///
    /// # Errors
    /// The final offset contradicts the received bytes.
    pub fn on_cancel(&mut self, error: u64, final_offset: u64) -> Result<Accepted, StreamViolation> {
        if final_offset < self.highest || self.final_len.is_some_and(|len| final_offset > len) {
            return Err(StreamViolation::FinalLength);
        }
        // All bytes have arrived, which the sender could not know: the user gets them.
        if self.final_len == Some(self.contiguous) || self.cancelled.is_some() {
            return Ok(Accepted::default());
        }
        self.cancelled = Some(error);
        let before = self.buffered;
        // What comes before a gap is good: the user gets it before the error.
        let behind_gap = self.chunks.split_off(&self.contiguous);
        let freed = behind_gap
            .values()
            .map(|chunk| chunk.len() as u64 + FRAGMENT_COST);
        self.buffered -= freed.sum::<u64>();
        Ok(Accepted {
            readable: false,
            buffered: signed(self.buffered) - signed(before),
        })
    }

    /// Returns the next bytes for the user, and the freed memory in bytes.
    pub fn read(&mut self) -> (ReadOutcome, u64) {
        if let Some(chunk) = self.chunks.remove(&self.read) {
            self.read += chunk.len() as u64;
            let freed = chunk.len() as u64 + FRAGMENT_COST;
            self.buffered -= freed;
            return (ReadOutcome::Data(chunk.into()), freed);
        }
        if self.final_len == Some(self.read) {
            (ReadOutcome::Finished, 0)
        } else {
            (ReadOutcome::Blocked, 0)
        }
    }

    /// Stops the stream; returns the freed memory in bytes.
    pub fn stop(&mut self) -> u64 {
        let mut seen = RangeSet::new();
        seen.insert(0..self.contiguous);
        for (start, chunk) in std::mem::take(&mut self.chunks) {
            seen.insert(start..start + chunk.len() as u64);
        }
        self.stopped = Some(seen);
        self.read = self.contiguous;
        std::mem::take(&mut self.buffered)
    }

    /// Error code of the peer's CANCEL.
    pub const fn cancelled(&self) -> Option<u64> {
        self.cancelled
    }
    /// Returns true if the user stopped the stream.
    pub const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }
    /// Returns true if the peer may need a higher limit than it has.
    pub fn may_exceed_limit(&self) -> bool {
        self.stopped.is_none()
            && self.cancelled.is_none()
            && !self.is_complete()
            && self.known_total().is_none_or(|total| total > self.limit)
    }

    /// Returns true if no more frames are expected: all bytes arrived, or the peer cancelled the stream.
    pub fn is_complete(&self) -> bool {
        self.cancelled.is_some() || self.final_len == Some(self.contiguous)
    }
    /// Returns true if the user has read all bytes.
    pub fn is_read(&self) -> bool {
        self.final_len == Some(self.read)
    }
    /// Number of bytes read by the user.
    pub const fn read_offset(&self) -> u64 {
        self.read
    }
    /// Memory in use in bytes.
    pub const fn buffered(&self) -> u64 {
        self.buffered
    }
    /// Length announced by the peer, by `total` or FIN.
    pub fn known_total(&self) -> Option<u64> {
        self.final_len.or(self.total)
    }
    /// Missing bytes of a stream of known length, within the stream's limit (section 5.3).
    pub fn missing(&self) -> u64 {
        if self.is_complete() || self.stopped.is_some() {
            return 0;
        }
        self.known_total()
            .map_or(0, |total| total.min(self.limit).saturating_sub(self.received))
    }
    /// Returns true if bytes arrived after a gap.
    pub const fn has_hole(&self) -> bool {
        self.highest > self.contiguous
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(stream: &mut RecvStream) -> Vec<u8> {
        let mut out = Vec::new();
        while let (ReadOutcome::Data(bytes), _) = stream.read() {
            out.extend_from_slice(&bytes);
        }
        out
    }

    proptest! {
        #[test]
        fn any_order_and_overlap_gives_the_same_bytes(
            pieces in prop::collection::vec((0usize..200, 0usize..40), 0..60),
            reads in prop::collection::vec(any::<bool>(), 60),
        ) {
            let data: Vec<u8> = (0..200u8).collect();
            let mut stream = RecvStream::new(1000, false);
            let mut out = Vec::new();
            let mut tail = vec![(0, 100), (150, 50), (90, 70)];
            let pieces = pieces.into_iter().chain(tail.drain(..));
            for (i, (start, len)) in pieces.enumerate() {
                let end = (start + len).min(200);
                let part = &data[start..end];
                stream.on_data(start as u64, Some(200), end == 200, part).expect("consistent");
                if reads.get(i).copied().unwrap_or(false) {
                    out.extend(read_all(&mut stream));
                }
            }
            out.extend(read_all(&mut stream));
            prop_assert_eq!(out, data);
            prop_assert_eq!(stream.read().0, ReadOutcome::Finished);
            prop_assert_eq!(stream.buffered(), 0);
            prop_assert!(stream.is_complete());
        }
    }

    #[test]
    fn contradictions_are_refused() {
        let mut s = RecvStream::new(100, false);
        s.on_data(0, Some(50), false, &[0; 10]).expect("first");
        assert_eq!(
            s.on_data(10, Some(51), false, &[0; 10]),
            Err(StreamViolation::FinalLength)
        );
        assert_eq!(
            s.on_data(10, None, true, &[0; 10]),
            Err(StreamViolation::FinalLength)
        );
        assert_eq!(
            s.on_data(45, None, false, &[0; 10]),
            Err(StreamViolation::FinalLength)
        );
        assert_eq!(s.on_data(50, None, true, &[]).map(|a| a.readable), Ok(false));
        assert_eq!(s.missing(), 40);
        let mut s = RecvStream::new(100, false);
        assert_eq!(s.on_data(99, None, false, &[0; 2]), Err(StreamViolation::Limit));
        assert!(s.on_data(u64::MAX, None, false, &[0; 2]).is_err());
    }

    #[test]
    fn cancel_drops_data_behind_a_gap_but_not_before_it() {
        let mut s = RecvStream::new(100, false);
        s.on_data(5, None, false, &[0; 10]).expect("data");
        assert!(s.on_cancel(7, 3).is_err(), "a final offset below received bytes");
        s.on_cancel(7, 20).expect("cancel");
        assert_eq!((s.cancelled(), s.buffered()), (Some(7), 0));
        let mut s = RecvStream::new(100, false);
        s.on_data(0, None, false, &[1; 10]).expect("data");
        s.on_data(15, None, false, &[2; 10]).expect("data");
        s.on_cancel(7, 30).expect("cancel");
        assert_eq!(s.buffered(), 10 + FRAGMENT_COST);
        assert_eq!(read_all(&mut s), [1; 10]);
        assert_eq!((s.read().0, s.buffered()), (ReadOutcome::Blocked, 0));
        let mut s = RecvStream::new(100, false);
        s.on_data(0, None, true, &[0; 10]).expect("data");
        s.on_cancel(7, 10).expect("late cancel");
        assert_eq!(read_all(&mut s).len(), 10);
    }
}

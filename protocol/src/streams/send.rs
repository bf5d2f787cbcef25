//! Sending half of a stream: written bytes that the peer has not acknowledged (transport.md sections 4.1,
//! 5.1).
use std::{collections::VecDeque, ops::Range};

use bytes::{Bytes, BytesMut};

use super::{Priority, RangeSet};

/// Size below which consecutive writes are copied into one chunk, so that writes of a few bytes do not cost a
/// DATA frame and a queue entry each.
const MERGE_BELOW: usize = 4096;

/// Maximum length of streams that carry `total` in every DATA frame (transport.md section 4.1).
const TOTAL_IN_EVERY_FRAME: u64 = 64 * 1024;

/// End of a sending stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The user may write more.
    Open,
    /// `finish` was called: the length is final.
    Finished,
    /// `break_off` was called: CANCEL follows the acknowledgement of all bytes.
    Breaking {
        /// Error code of CANCEL.
        error: u64,
    },
    /// `cancel` was called or the peer sent STOP.
    Cancelled {
        /// Error code of CANCEL.
        error: u64,
    },
}

/// Contents of a DATA frame to be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Byte range of the stream.
    pub range: Range<u64>,
    /// True if the stream ends after this range.
    pub fin: bool,
    /// Length of the stream, if the frame contains it.
    pub total: Option<u64>,
    /// First transmission or retransmission.
    pub origin: Origin,
}

/// Kind of transmission of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// First transmission.
    New,
    /// Retransmission after a declared loss.
    Retransmission,
}

/// Sending half of one stream.
#[derive(Debug)]
#[cfg_attr(test, derive(Clone))]
pub struct SendStream {
    /// Priority class of the bytes after `beginning`.
    class: Priority,
    /// End and class of a beginning that is more urgent than the rest.
    beginning: Option<(u64, Priority)>,
    chunks: VecDeque<(u64, Bytes)>,
    tail: BytesMut,
    /// Offset below which all bytes are acknowledged and freed.
    base: u64,
    /// End of the written bytes.
    written: u64,
    /// Offset from which no bytes were sent yet.
    next: u64,
    acked: RangeSet,
    lost: RangeSet,
    end: End,
    fin: Delivery,
    cancel: Delivery,
    announced: Option<u64>,
    total_sent: bool,
    /// The peer's limit for the stream (section 4.3).
    pub limit: u64,
    /// True if the stream must not be sent in early data (section 3.3).
    pub held: bool,
}

/// Delivery state of a FIN, CANCEL or STOP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Nothing to deliver.
    #[default]
    None,
    /// To be put into a packet, for the first time or again.
    Pending,
    /// In a packet that is neither acknowledged nor lost.
    Sent,
    /// Acknowledged.
    Acked,
}

impl SendStream {
    /// Creates a stream of class `priority` that may send up to offset `limit`.
    pub fn new(priority: Priority, limit: u64) -> Self {
        Self {
            class: priority,
            beginning: None,
            chunks: VecDeque::new(),
            tail: BytesMut::new(),
            base: 0,
            written: 0,
            next: 0,
            acked: RangeSet::new(),
            lost: RangeSet::new(),
            end: End::Open,
            fin: Delivery::None,
            cancel: Delivery::None,
            announced: None,
            total_sent: false,
            limit,
            held: false,
        }
    }

    /// Priority class of the next segment.
    pub fn priority(&self) -> Priority {
        match self.beginning {
            Some((end, class)) if self.next_offset() < end => class,
            Some(_) | None => self.class,
        }
    }
    /// Moves the stream to another class. If nothing was sent yet and the class is less urgent, the bytes written
    /// so far keep theirs (transport.md section 4.2).
    pub fn set_priority(&mut self, class: Priority) {
        if self.next == 0 && self.written > 0 && self.beginning.is_none() && self.class < class {
            self.beginning = Some((self.written, self.class));
        }
        if self.beginning.is_some_and(|(_, beginning)| class < beginning) {
            self.beginning = None;
        }
        self.class = class;
    }

    /// End of the segment that starts at `next`, as far as the class reaches.
    fn class_end(&self) -> u64 {
        let beginning = self.beginning.filter(|(end, _)| self.next < *end);
        beginning.map_or(u64::MAX, |(end, _)| end)
    }

    /// Returns true if the user may write.
    pub fn is_open(&self) -> bool {
        self.end == End::Open
    }
    /// Error code with which the stream was cancelled.
    pub fn cancelled(&self) -> Option<u64> {
        match self.end {
            End::Cancelled { error } => Some(error),
            End::Open | End::Finished | End::Breaking { .. } => None,
        }
    }
    /// Error code of the CANCEL that is now due, because all bytes before it are acknowledged.
    pub fn due_cancel(&self) -> Option<u64> {
        match self.end {
            End::Breaking { error } if self.base == self.written => Some(error),
            End::Breaking { .. } | End::Open | End::Finished | End::Cancelled { .. } => None,
        }
    }
    /// Bytes written and not acknowledged.
    pub const fn buffered(&self) -> u64 {
        self.written - self.base
    }
    /// Total bytes written.
    pub const fn written(&self) -> u64 {
        self.written
    }
    /// Bytes sent at least once: the final offset of a CANCEL.
    pub const fn sent(&self) -> u64 {
        self.next
    }
    /// Length that the user announced.
    pub const fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Appends written bytes. The caller has checked the limits of the buffer.
    pub fn write(&mut self, data: Bytes) {
        let len = data.len();
        if len < MERGE_BELOW {
            self.tail.extend_from_slice(&data);
            if self.tail.len() >= MERGE_BELOW {
                self.seal_tail();
            }
        } else {
            self.seal_tail();
            self.chunks.push_back((self.written, data));
        }
        self.written += len as u64;
    }

    fn seal_tail(&mut self) {
        if !self.tail.is_empty() {
            let tail = self.tail.split().freeze();
            let start = self
                .chunks
                .back()
                .map_or(self.base, |(offset, chunk)| offset + chunk.len() as u64);
            self.chunks.push_back((start, tail));
        }
    }

    /// Announces the length before all bytes are written. Ignored once the length is known.
    pub fn announce(&mut self, total: u64) {
        if self.announced.is_none() && total >= self.written && self.end == End::Open {
            self.announced = Some(total);
        }
    }

    /// Makes the length final.
    pub fn finish(&mut self) {
        self.end = End::Finished;
        self.announced = Some(self.written);
        self.fin = Delivery::Pending;
    }

    /// Ends the stream with CANCEL, behind the written bytes.
    pub fn break_off(&mut self, error: u64) {
        self.end = End::Breaking { error };
    }

    /// Discards unacknowledged bytes; only CANCEL remains to be delivered.
    pub fn cancel(&mut self, error: u64) {
        self.end = End::Cancelled { error };
        self.chunks.clear();
        self.tail.clear();
        self.base = self.written;
        self.lost = RangeSet::new();
        self.acked = RangeSet::new();
        self.cancel = Delivery::Pending;
    }

    /// Delivery state of CANCEL.
    pub const fn cancel_delivery(&self) -> Delivery {
        self.cancel
    }
    /// Sets the delivery state of CANCEL.
    pub const fn set_cancel_delivery(&mut self, delivery: Delivery) {
        self.cancel = delivery;
    }

    /// Returns true if all bytes and the end are acknowledged.
    pub fn is_done(&self) -> bool {
        match self.end {
            End::Open | End::Breaking { .. } => false,
            End::Finished => self.base == self.written && self.fin == Delivery::Acked,
            End::Cancelled { .. } => self.cancel == Delivery::Acked,
        }
    }

    /// Returns true if lost bytes wait for retransmission. A lost FIN without lost bytes is new data.
    pub fn has_retransmission(&self) -> bool {
        self.cancelled().is_none() && !self.lost.is_empty()
    }
    /// Returns true if the stream window permits new bytes or a FIN.
    pub fn has_new(&self) -> bool {
        if self.held || self.cancelled().is_some() {
            return false;
        }
        self.next < self.written.min(self.limit)
            || (self.fin == Delivery::Pending && self.next == self.written)
    }
    /// Returns true if the stream window blocks written bytes.
    pub fn is_window_blocked(&self) -> bool {
        self.cancelled().is_none() && self.next >= self.limit && self.next < self.written
    }
    /// Number of bytes that can be sent now.
    pub fn sendable(&self) -> u64 {
        if self.cancelled().is_some() {
            return 0;
        }
        self.lost.total() + self.written.min(self.limit).saturating_sub(self.next)
    }
    /// Bytes left to send in the class of the next segment, if their number is known: the key of
    /// shortest-remaining-first (section 4.2).
    pub fn remaining(&self) -> Option<u64> {
        let end = Some(self.class_end()).filter(|end| *end < u64::MAX);
        end.or(self.announced).map(|end| end.saturating_sub(self.next))
    }

    /// Returns the next segment of at most `max` bytes, lost bytes first, and records it as sent.
    pub fn next_segment(&mut self, max: u64) -> Option<Segment> {
        if self.cancelled().is_some() {
            return None;
        }
        let (range, origin) = if let Some(range) = self.lost.take_first(max.max(1)) {
            (range, Origin::Retransmission)
        } else {
            if !self.has_new() {
                return None;
            }
            let end = self
                .written
                .min(self.limit.max(self.next))
                .min(self.next.saturating_add(max))
                .min(self.class_end());
            let range = self.next..end;
            if range.is_empty() && (self.fin != Delivery::Pending || self.next < self.written) {
                return None;
            }
            self.next = end;
            (range, Origin::New)
        };
        let fin = self.end == End::Finished && range.end == self.written;
        if fin {
            self.fin = Delivery::Sent;
        }
        let total = self
            .announced
            .filter(|&total| !fin && (total <= TOTAL_IN_EVERY_FRAME || !self.total_sent));
        if total.is_some() {
            self.total_sent = true;
        }
        Some(Segment {
            range,
            fin,
            total,
            origin,
        })
    }

    /// Offset of the next segment.
    pub fn next_offset(&self) -> u64 {
        self.lost.first().map_or(self.next, |range| range.start)
    }

    /// Length that the next frame contains, if any; the frame header needs space for it.
    pub fn total_to_send(&self) -> Option<u64> {
        self.announced
            .filter(|&total| total <= TOTAL_IN_EVERY_FRAME || !self.total_sent)
    }

    /// Appends the bytes of `range` to `out`. The bytes must be sent and unacknowledged.
    pub fn copy_range(&mut self, range: &Range<u64>, out: &mut Vec<u8>) {
        let tail_start = self.written - self.tail.len() as u64;
        if range.end > tail_start {
            self.seal_tail();
        }
        let first = self
            .chunks
            .partition_point(|(offset, chunk)| offset + chunk.len() as u64 <= range.start);
        for (offset, chunk) in self.chunks.iter().skip(first) {
            if *offset >= range.end {
                break;
            }
            let from = index(range.start.saturating_sub(*offset));
            let to = index((range.end - offset).min(chunk.len() as u64));
            if let Some(part) = chunk.get(from..to) {
                out.extend_from_slice(part);
            }
        }
    }

    /// Records the acknowledgement of a packet with this range. Returns the number of freed bytes.
    pub fn on_acked(&mut self, range: Range<u64>, fin: bool) -> u64 {
        if self.cancelled().is_some() {
            return 0;
        }
        if fin {
            self.fin = Delivery::Acked;
        }
        let range = range.start.max(self.base)..range.end.max(self.base);
        let before = self.base;
        if range.start == self.base && self.acked.is_empty() && self.lost.is_empty() {
            self.base = range.end;
        } else {
            self.lost.remove(range.clone());
            self.acked.insert(range);
        }
        if let Some(first) = self.acked.first()
            && first.start <= self.base
        {
            self.base = first.end;
            self.acked.remove(first);
        }
        while let Some((offset, chunk)) = self.chunks.front() {
            if offset + chunk.len() as u64 > self.base {
                break;
            }
            self.chunks.pop_front();
        }
        self.base - before
    }

    /// Records the loss of a packet with this range: bytes that are not acknowledged are retransmitted.
    pub fn on_lost(&mut self, range: Range<u64>, fin: bool) {
        if self.cancelled().is_some() {
            return;
        }
        let range = range.start.max(self.base)..range.end.max(self.base);
        for part in self.acked.missing_in(range) {
            self.lost.insert(part);
        }
        if fin && self.fin == Delivery::Sent {
            self.fin = Delivery::Pending;
            // A FIN is sent with the last byte if that byte is lost, too; otherwise alone, as new data.
        }
    }
}

fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;

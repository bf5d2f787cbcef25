//! FEEDBACK: report and grant of a receiver (transport.md section 5).
use std::ops::Range;

use super::{
    RateFloat, Stamp,
    field::{self, put_u24},
    frame::FrameError,
    varint,
};

/// Maximum number of gaps in a frame. A gap is repeated until FORWARD covers it, one round-trip time after
/// its declaration: at 20 Mbit/s over a geostationary link with 10 % loss there are 135, of 2 to 4 bytes
/// each.
pub const MAX_GAPS: usize = 256;

/// A range of missing packet numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRange {
    /// Number of received packets between the end of the previous gap (for the first gap: the floor) and this
    /// gap.
    pub skip: u64,
    /// Number of missing packets, at least 1.
    pub length: u64,
}

/// State of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// The packets count as lost.
    Declared,
    /// The packets may still arrive.
    Pending,
}

/// Missing packet numbers up to the largest received one. All declared gaps are older than all pending ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Largest received number minus the floor; the state of all packets below the floor is final. Unused
    /// without gaps.
    pub floor_distance: u64,
    /// Declared gaps, oldest first.
    pub declared: Vec<GapRange>,
    /// Pending gaps, oldest first.
    pub pending: Vec<GapRange>,
}

impl Gaps {
    /// Returns true if there are no gaps.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.pending.is_empty()
    }

    /// Returns the floor for the largest received number `largest`; without gaps the floor is the number
    /// after `largest`. `None` if the frame refers to numbers below 0.
    pub fn floor(&self, largest: u64) -> Option<u64> {
        if self.is_empty() {
            largest.checked_add(1)
        } else {
            largest.checked_sub(self.floor_distance)
        }
    }

    /// Returns the gaps as ranges of packet numbers, oldest first, for the largest received number `largest`;
    /// no ranges if the frame refers to numbers below 0.
    pub fn ranges(&self, largest: u64) -> impl Iterator<Item = (GapKind, Range<u64>)> + '_ {
        let declared = self.declared.iter().map(|range| (GapKind::Declared, range));
        let pending = self.pending.iter().map(|range| (GapKind::Pending, range));
        let floor = largest.checked_sub(self.floor_distance);
        declared.chain(pending).scan(floor, |position, (kind, range)| {
            let start = position.as_ref()?.checked_add(range.skip)?;
            let end = start.checked_add(range.length)?;
            *position = Some(end);
            Some((kind, start..end))
        })
    }

    /// Creates gaps from ranges of packet numbers below `largest` in ascending order, declared ones first.
    /// The floor is the start of the first range. If there are more than `most` ranges (at most
    /// [`MAX_GAPS`]), one pending range replaces the newest. This range also contains received packets, which
    /// later feedback acknowledges.
    pub fn from_ranges(
        largest: u64,
        ranges: impl DoubleEndedIterator<Item = (GapKind, Range<u64>)>,
        most: usize,
    ) -> Self {
        let most = most.clamp(1, MAX_GAPS);
        let mut ranges = ranges.filter(|(_, range)| !range.is_empty());
        let mut told: Vec<_> = ranges.by_ref().take(most - 1).collect();
        if let Some((kind, range)) = ranges.next() {
            told.push(match ranges.next_back() {
                Some((_, last)) => (GapKind::Pending, range.start..last.end),
                None => (kind, range),
            });
        }
        let mut gaps = Self::default();
        let mut position = None;
        for (kind, range) in told {
            let from = *position.get_or_insert_with(|| {
                gaps.floor_distance = largest.saturating_sub(range.start);
                range.start
            });
            position = Some(range.end);
            let range = GapRange {
                skip: range.start.saturating_sub(from),
                length: range.end - range.start,
            };
            match kind {
                GapKind::Declared if gaps.pending.is_empty() => gaps.declared.push(range),
                GapKind::Declared | GapKind::Pending => gaps.pending.push(range),
            }
        }
        gaps
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let declared = &self.declared[..self.declared.len().min(MAX_GAPS)];
        let pending = &self.pending[..self.pending.len().min(MAX_GAPS - declared.len())];
        varint::encode(declared.len() as u64, out);
        varint::encode(pending.len() as u64, out);
        if declared.is_empty() && pending.is_empty() {
            return;
        }
        varint::encode(self.floor_distance, out);
        for range in declared.iter().chain(pending) {
            varint::encode(range.skip, out);
            varint::encode(range.length, out);
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, FrameError> {
        let declared = varint::decode(input)?;
        let pending = varint::decode(input)?;
        if declared.saturating_add(pending) > MAX_GAPS as u64 {
            return Err(FrameError::TooManyGaps);
        }
        let mut gaps = Self::default();
        if declared + pending == 0 {
            return Ok(gaps);
        }
        gaps.floor_distance = varint::decode(input)?;
        let mut left = gaps.floor_distance;
        for index in 0..declared + pending {
            let range = GapRange {
                skip: varint::decode(input)?,
                length: varint::decode(input)?,
            };
            // The largest number was received: a gap ends below it.
            left = left
                .checked_sub(range.skip)
                .and_then(|left| left.checked_sub(range.length))
                .filter(|_| range.length > 0)
                .ok_or(FrameError::GapRange)?;
            let list = if index < declared {
                &mut gaps.declared
            } else {
                &mut gaps.pending
            };
            list.push(range);
        }
        Ok(gaps)
    }
}

/// Report and grant of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Low 24 bits of the largest packet number received.
    pub largest: u32,
    /// Stamp of that packet.
    pub echo: Stamp,
    /// Time since its arrival, in 0.1 ms (`stamp::hold_time`).
    pub hold: u16,
    /// Bytes, including headers, that the sender may have outstanding beyond packet `largest`.
    pub credit: u64,
    /// Pacing rate for the sender.
    pub rate: RateFloat,
    /// Missing packets.
    pub gaps: Gaps,
}

impl Feedback {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_u24(self.largest, out);
        put_u24(self.echo.raw(), out);
        out.extend_from_slice(&self.hold.to_be_bytes());
        varint::encode(self.credit, out);
        out.extend_from_slice(&self.rate.to_bits().to_be_bytes());
        self.gaps.encode(out);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, FrameError> {
        Ok(Self {
            largest: field::u24(input)?,
            echo: Stamp::from_raw(field::u24(input)?),
            hold: field::u16(input)?,
            credit: varint::decode(input)?,
            rate: RateFloat::from_bits(field::u16(input)?),
            gaps: Gaps::decode(input)?,
        })
    }
}

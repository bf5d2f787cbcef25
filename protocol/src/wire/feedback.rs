//! FEEDBACK: what a receiver got, what it grants (transport.md section 5).
use std::ops::Range;

use super::{
    RateFloat, Stamp,
    field::{self, put_u24},
    frame::FrameError,
    varint,
};

/// The most gaps in one frame. A gap is repeated until FORWARD covers it, a round trip after its declaration: 20 Mbit/s over a
/// geostationary link with 10 % loss have 135 of them, in 2 to 4 bytes each.
pub const MAX_GAPS: usize = 256;

/// A run of missing packet numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapRange {
    /// Received numbers between the end of the gap before (for the first gap: from the floor) and this one.
    pub skip: u64,
    /// Missing numbers, at least 1.
    pub length: u64,
}

/// What became of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapKind {
    /// The numbers count as lost.
    Declared,
    /// The numbers may still come.
    Pending,
}

/// The packet numbers that are missing up to the largest received one. All declared gaps are older than all pending ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    /// The largest received number minus the floor; everything below the floor is settled. Means nothing without gaps.
    pub floor_distance: u64,
    /// Gaps that count as lost, oldest first.
    pub declared: Vec<GapRange>,
    /// Gaps that may still close, oldest first.
    pub pending: Vec<GapRange>,
}

impl Gaps {
    /// Whether nothing is missing.
    pub fn is_empty(&self) -> bool {
        self.declared.is_empty() && self.pending.is_empty()
    }

    /// The floor, if the largest received number is `largest`: everything below it is settled. Without gaps that is everything up to
    /// `largest`. `None` if the frame speaks of numbers before 0.
    pub fn floor(&self, largest: u64) -> Option<u64> {
        if self.is_empty() {
            largest.checked_add(1)
        } else {
            largest.checked_sub(self.floor_distance)
        }
    }

    /// The gaps as ranges of packet numbers, oldest first, if the largest received number is `largest`; none if the frame speaks of
    /// numbers before 0.
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

    /// Gaps from ranges of packet numbers below `largest` in ascending order, of which the first `declared` are lost; the floor is the
    /// start of the first. Of more than `most` ranges, at most [`MAX_GAPS`], the newest are told as one pending range, which also
    /// covers what was received among them: that is acknowledged later.
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

/// A receiver's report and grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// Low 24 bits of the largest packet number received.
    pub largest: u32,
    /// The stamp of that packet.
    pub echo: Stamp,
    /// Time since it arrived, in 0.1 ms (`stamp::hold_time`).
    pub hold: u16,
    /// Bytes, headers included, that the sender may have outstanding beyond packet `largest`.
    pub credit: u64,
    /// The pacing rate for the sender.
    pub rate: RateFloat,
    /// What is missing.
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

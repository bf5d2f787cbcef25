//! Memory of a model.

/// Binary logarithm of the bytes of a model's context table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TableSize(u8);

impl TableSize {
    /// 64 KiB.
    pub(super) const LEAST: Self = Self(16);
    /// 4 MiB: twice as much saves one percent on the longest scripts and misses a core's cache more often.
    pub(super) const MOST: Self = Self(22);

    /// Returns the size for a body of this length.
    pub(super) fn for_length(length: Option<u64>) -> Self {
        // A byte that is new in every context needs two buckets of 16 bytes per context; most bytes are not
        // new in most contexts.
        let wanted = length.map_or(u64::MAX, |length| length.saturating_mul(32).max(1));
        let bits = u8::try_from(wanted.checked_next_power_of_two().map_or(64, u64::ilog2));
        Self(bits.unwrap_or(u8::MAX).clamp(Self::LEAST.0, Self::MOST.0))
    }

    /// The table size t in the first byte of a body.
    pub(super) const fn code(self) -> u8 {
        self.0 - Self::LEAST.0
    }

    /// The size of a code, unless it exceeds the maximum.
    pub(super) const fn from_code(code: u8) -> Option<Self> {
        if code <= Self::MOST.code() {
            Some(Self(Self::LEAST.0 + code))
        } else {
            None
        }
    }

    pub(super) const fn bits(self) -> u32 {
        self.0 as u32
    }

    /// Binary logarithm of the bytes that matches can refer back to, at least two windows.
    pub(super) const fn past_bits(self) -> u32 {
        let bits = self.bits() - 2;
        if bits < 16 { 16 } else { bits }
    }

    /// Binary logarithm of the positions that each matcher stores.
    pub(super) const fn head_bits(self) -> u32 {
        self.past_bits() - 2
    }

    /// Total memory of a model of this size, in bytes.
    pub(super) const fn memory(self) -> u64 {
        (1 << self.bits()) + (1 << self.past_bits()) + (8 << self.head_bits()) + FIXED
    }
}

/// Other memory of a model: counters, weights, maps, histories of the last byte.
const FIXED: u64 = 320 * 1024;

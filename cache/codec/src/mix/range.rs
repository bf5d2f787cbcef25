//! Binary arithmetic coder: 32 bits, without carries, probabilities of 16 bits.
#![expect(
    clippy::cast_possible_truncation,
    reason = "the coder cuts bytes from its registers"
)]

/// The point that splits the interval; a one takes the lower part.
#[inline]
fn split(low: u32, high: u32, one: u16) -> u32 {
    let range = u64::from(high - low);
    low + ((range * u64::from(one)) >> 16) as u32
}

/// Encodes bits into bytes.
pub(super) struct RangeEncoder {
    low: u32,
    high: u32,
}

impl RangeEncoder {
    pub(super) fn new() -> Self {
        Self {
            low: 0,
            high: u32::MAX,
        }
    }

    #[inline]
    pub(super) fn encode(&mut self, bit: u32, one: u16, out: &mut Vec<u8>) {
        let middle = split(self.low, self.high, one);
        if bit != 0 {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 24 == 0 {
            out.push((self.high >> 24) as u8);
            self.low <<= 8;
            self.high = self.high << 8 | 255;
        }
    }

    /// Ends the code with the fewest bytes, such that zeros may follow.
    pub(super) fn finish(self, out: &mut Vec<u8>) {
        for bytes in 0..=4 {
            let mask = u32::MAX.checked_shr(8 * bytes).unwrap_or(0);
            // The smallest number not below `low` whose last bytes are zero.
            let Some(code) = self.low.checked_add(mask).map(|code| code & !mask) else {
                continue;
            };
            if code <= self.high {
                out.extend_from_slice(&code.to_be_bytes()[..bytes as usize]);
                break;
            }
        }
    }
}

/// Decodes bits from the bytes of one window; reads zeros after their end.
pub(super) struct RangeDecoder<'a> {
    low: u32,
    high: u32,
    code: u32,
    rest: &'a [u8],
    /// Zeros read after the end.
    missing: u32,
}

impl<'a> RangeDecoder<'a> {
    pub(super) fn new(coded: &'a [u8]) -> Self {
        let mut decoder = Self {
            low: 0,
            high: u32::MAX,
            code: 0,
            rest: coded,
            missing: 0,
        };
        for _ in 0..4 {
            decoder.shift();
        }
        decoder
    }

    fn shift(&mut self) {
        let byte = match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => {
                self.missing = self.missing.saturating_add(1);
                0
            }
        };
        self.code = self.code << 8 | u32::from(byte);
    }

    #[inline]
    pub(super) fn decode(&mut self, one: u16) -> u32 {
        let middle = split(self.low, self.high, one);
        let bit = u32::from(self.code <= middle);
        if bit != 0 {
            self.high = middle;
        } else {
            self.low = middle + 1;
        }
        while (self.low ^ self.high) >> 24 == 0 {
            self.low <<= 8;
            self.high = self.high << 8 | 255;
            self.shift();
        }
        bit
    }

    /// True if more zeros were read than an encoder omits.
    #[inline]
    pub(super) fn is_exhausted(&self) -> bool {
        self.missing > 4
    }

    /// True if all coded bytes were read.
    pub(super) fn is_used_up(&self) -> bool {
        self.rest.is_empty()
    }
}

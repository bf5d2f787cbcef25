//! Integers of RFC 3284 section 2: base 128, most significant digit first, all digits but the last with the
//! high bit.

/// Maximum number of bytes of an integer below 2^64.
pub(super) const MAX_SIZE: usize = 10;

/// Errors of reading an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerFault {
    /// The input ends within the integer.
    Incomplete,
    /// The integer does not fit into 64 bits.
    Overflow,
}

/// Reads an integer from the front of `input`; on failure `input` is unchanged.
pub(super) fn take(input: &mut &[u8]) -> Result<u64, IntegerFault> {
    let mut value = 0_u64;
    for (index, byte) in input.iter().enumerate() {
        if value >> (u64::BITS - 7) != 0 || index == MAX_SIZE {
            return Err(IntegerFault::Overflow);
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            *input = &input[index + 1..];
            return Ok(value);
        }
    }
    Err(IntegerFault::Incomplete)
}

/// Encoded size of `value` in bytes.
pub(super) const fn size(value: u32) -> u32 {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        0x1000_0000.. => 5,
    }
}

/// Appends `value` in its shortest form.
pub(super) fn put(value: impl Into<u64>, out: &mut Vec<u8>) {
    let value = value.into();
    let digits = (u64::BITS - (value | 1).leading_zeros()).div_ceil(7);
    for digit in (0..digits).rev() {
        let more = if digit == 0 { 0 } else { 0x80 };
        out.push((value >> (7 * digit)).to_le_bytes()[0] & 0x7f | more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_section_2() {
        let mut out = Vec::new();
        put(123_456_789_u32, &mut out);
        assert_eq!(out, [0xba, 0xef, 0x9a, 0x15]);
        assert_eq!(take(&mut &out[..]), Ok(123_456_789));
    }

    #[test]
    fn integers_round_trip() {
        for bits in 0..32 {
            for value in [(1_u32 << bits) - 1, 1 << bits, u32::MAX >> bits] {
                let mut out = Vec::new();
                put(value, &mut out);
                assert_eq!(out.len(), size(value) as usize);
                let mut rest = &out[..];
                assert_eq!(take(&mut rest), Ok(u64::from(value)));
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn truncated_and_too_large_integers_are_rejected() {
        assert_eq!(take(&mut &[0x81, 0x80][..]), Err(IntegerFault::Incomplete));
        assert_eq!(take(&mut &[][..]), Err(IntegerFault::Incomplete));
        assert_eq!(take(&mut &[0xff; 12][..]), Err(IntegerFault::Overflow));
        assert_eq!(take(&mut &[0x80; 12][..]), Err(IntegerFault::Overflow));
        let mut largest = [0xff; 10];
        largest[0] = 0x81;
        largest[9] = 0x7f;
        assert_eq!(take(&mut &largest[..]), Ok(u64::MAX));
    }
}

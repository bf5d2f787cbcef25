//! Variable-length integers (RFC 9000 section 16), of which only the shortest form is valid.
/// Largest value: 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// Errors of decoding a varint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarintError {
    /// The input ends inside the number.
    #[error("the bytes end inside a variable-length integer")]
    Truncated,
    /// A shorter form exists. Two encodings of one packet would let decoder and encoder disagree.
    #[error("a variable-length integer is not in its shortest form")]
    NotShortest,
}

/// Length of the encoding of `value`: 1, 2, 4 or 8 bytes.
pub const fn len(value: u64) -> usize {
    match value {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    }
}

/// Appends `value`; values above [`MAX`] are encoded as [`MAX`].
pub fn encode(value: u64, out: &mut Vec<u8>) {
    let value = value.min(MAX);
    // The two high bits contain the base-2 logarithm of the length.
    let (length, prefix) = match len(value) {
        1 => (1, 0),
        2 => (2, 0x40),
        4 => (4, 0x80),
        _ => (8, 0xc0),
    };
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[8 - length..]);
    out[start] |= prefix;
}

/// Removes a varint from the start of `input`.
///
/// # Errors
/// The input ends too early, or the form is not the shortest.
pub fn decode(input: &mut &[u8]) -> Result<u64, VarintError> {
    let first = *input.first().ok_or(VarintError::Truncated)?;
    let length = 1_usize << (first >> 6);
    let (bytes, rest) = input.split_at_checked(length).ok_or(VarintError::Truncated)?;
    let value = bytes.iter().skip(1).fold(u64::from(first & 0x3f), |value, byte| {
        value << 8 | u64::from(*byte)
    });
    if len(value) == length {
        *input = rest;
        Ok(value)
    } else {
        Err(VarintError::NotShortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value, &mut out);
        out
    }

    #[test]
    fn examples_of_rfc_9000_appendix_a_1() {
        assert_eq!(bytes_of(37), [0x25]);
        assert_eq!(bytes_of(15_293), [0x7b, 0xbd]);
        assert_eq!(bytes_of(494_878_333), [0x9d, 0x7f, 0x3e, 0x7d]);
        assert_eq!(
            bytes_of(151_288_809_941_952_652),
            [0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]
        );
    }

    #[test]
    fn non_minimal_and_truncated_integers_are_rejected() {
        assert_eq!(decode(&mut &[0x40, 0x25][..]), Err(VarintError::NotShortest));
        assert_eq!(
            decode(&mut &[0x80, 0, 0x3f, 0xff][..]),
            Err(VarintError::NotShortest)
        );
        assert_eq!(decode(&mut &[0x7b][..]), Err(VarintError::Truncated));
        assert_eq!(decode(&mut &[][..]), Err(VarintError::Truncated));
    }

    proptest! {
        #[test]
        fn round_trip(shift in 0_u32..62, low in any::<u64>()) {
            let value = (low & MAX) >> shift;
            let bytes = bytes_of(value);
            prop_assert_eq!(bytes.len(), len(value));
            let mut rest = &bytes[..];
            prop_assert_eq!(decode(&mut rest), Ok(value));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn each_decoded_integer_was_minimally_encoded(bytes in proptest::collection::vec(any::<u8>(), 0..9)) {
            let mut rest = &bytes[..];
            if let Ok(value) = decode(&mut rest) {
                prop_assert_eq!(&bytes_of(value)[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }
}

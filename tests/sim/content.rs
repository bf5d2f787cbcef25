//! Content of streams: a function of the stream's key and the offset, so that every received byte can be
//! checked.
use bytes::Bytes;

use crate::datagram::mix;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

fn word(key: u64, index: u64) -> [u8; 8] {
    mix(key.wrapping_add(index.wrapping_mul(GOLDEN))).to_le_bytes()
}

/// `len` bytes of the content with key `key` from `offset`.
pub(crate) fn generate(key: u64, offset: u64, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len + 8);
    let skip = usize::try_from(offset % 8).unwrap_or(0);
    let mut index = offset / 8;
    while bytes.len() < len + skip {
        bytes.extend_from_slice(&word(key, index));
        index += 1;
    }
    Bytes::from(bytes).slice(skip..skip + len)
}

/// The first offset at which `bytes`, received at `offset`, differ from the content with key `key`.
pub(crate) fn mismatch(key: u64, offset: u64, bytes: &[u8]) -> Option<u64> {
    let expected = generate(key, offset, bytes.len());
    let at = expected
        .iter()
        .zip(bytes)
        .position(|(expected, byte)| expected != byte)?;
    Some(offset + at as u64)
}

#[test]
fn content_does_not_depend_on_how_it_is_cut() {
    let whole = generate(7, 0, 100);
    for at in 0..100_usize {
        assert_eq!(mismatch(7, at as u64, &whole[at..]), None);
    }
    let mut wrong = whole.to_vec();
    wrong[63] ^= 1;
    assert_eq!(mismatch(7, 0, &wrong), Some(63));
    assert_ne!(generate(8, 0, 100), whole);
}

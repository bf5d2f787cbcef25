//! Framing of a body between agent and gateway, specified in `docs/protocol/body.md`.
//!
//! A body is a sequence of windows of at most [`MAX_WINDOW`] decoded bytes ([`MAX_BASED_WINDOW`] if it has a
//! base). The last window, which may be empty, verifies the content hash (CHK) of the whole body.
//!
//! ```text
//! window:  size     varint   2 * (n + 1) with n the number of decoded bytes, n >= 1, or 2 if n = 32768
//!          coded    varint   number of coded bytes; absent where the coding is identity
//!          hash     8 bytes  first bytes of keyed BLAKE3(key, offset as u64 big-endian || decoded bytes)
//!          data     coded bytes
//! last:    size     varint   as above plus 1; just 1 if the window is empty
//!          coded    varint   absent where the coding is identity or the window is empty
//!          hash     8 bytes  first bytes of keyed BLAKE3(key, 2^64 - 1 as above || the content hash)
//!          data     coded bytes; absent if the window is empty
//! ```
//!
//! The coder's context continues across the windows of a body, and each window's coded bytes suffice to
//! decode it.
mod decoder;
mod encoder;
mod replay;
#[cfg(test)]
mod tests;

use longhaul_types::ContentHash;

pub use decoder::{BodyDecoder, BodyEvent, BodyLimits, DecodeError};
pub use encoder::BodyEncoder;
pub use replay::CodedBody;
pub(crate) use replay::Replay;

/// Maximum decoded bytes of a window: small enough that a check waits for at most about a second of data on
/// the slowest link, large enough that hashes and flushes cost less than a thousandth.
pub const MAX_WINDOW: usize = 32 * 1024;
/// Maximum coded bytes of a window: incompressible data grows by less than the addition.
pub const MAX_CODED_WINDOW: usize = MAX_WINDOW + 1024;

/// Maximum decoded bytes of a window of a body with a base. Such a body becomes so small that a flush per
/// smaller window would be a considerable part of it.
pub const MAX_BASED_WINDOW: usize = 256 * 1024;
/// Decoded bytes of the first window of a document on a slow link: the head of a page and some text, in about one packet.
const FIRST_WINDOW: usize = 4 * 1024;
/// Coded bytes below which windows with a base may become larger: half a second on the slowest link.
const SMALL_WINDOW: usize = 2048;

/// Maximum number of bytes of a base that are used, from its end: the largest front pages of news sites have
/// 1.2 MB.
pub const MAX_BASE: usize = 2 * 1024 * 1024;

/// Maximum decoded and coded bytes of one window of a body with or without a base.
const fn window_limits(has_base: bool) -> (usize, usize) {
    if has_base {
        // Room for the growth of incompressible data, and for padding.
        (MAX_BASED_WINDOW, MAX_BASED_WINDOW + 1024 + 1024)
    } else {
        (MAX_WINDOW, MAX_CODED_WINDOW)
    }
}

const HASH_SIZE: usize = 8;

/// The part of a base that coders use.
pub(crate) fn base_tail(base: &[u8]) -> &[u8] {
    &base[base.len().saturating_sub(MAX_BASE)..]
}

/// Check of one window, which includes its offset in the body.
fn window_hash(key: &[u8; 32], offset: u64, decoded: &[u8]) -> [u8; HASH_SIZE] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&offset.to_be_bytes());
    hasher.update(decoded);
    let hash = hasher.finalize();
    let mut short = [0; HASH_SIZE];
    short.copy_from_slice(&hash.as_bytes()[..HASH_SIZE]);
    short
}

/// Check of the last window, over the content hash of the whole body. No window begins at offset 2^64 - 1, so
/// neither kind of check is valid for the other.
fn whole_hash(key: &[u8; 32], chk: ContentHash) -> [u8; HASH_SIZE] {
    window_hash(key, u64::MAX, chk.as_bytes())
}

/// Position of a window in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowPosition {
    Inner,
    Last,
}

/// First field of a window.
fn size_field(length: usize, position: WindowPosition) -> u64 {
    let size = match length {
        0 => 0,
        MAX_WINDOW => 2,
        length => 2 * (length as u64 + 1),
    };
    size + u64::from(position == WindowPosition::Last)
}

/// Length and position from the first field of a window, if it is valid and the length is at most `most`.
fn parse_size_field(field: u64, most: usize) -> Option<(usize, WindowPosition)> {
    let position = if field % 2 == 1 {
        WindowPosition::Last
    } else {
        WindowPosition::Inner
    };
    match field / 2 {
        0 if position == WindowPosition::Inner => None,
        0 => Some((0, position)),
        1 => Some((MAX_WINDOW, position)),
        size => {
            let length = usize::try_from(size - 1).ok()?;
            (length <= most && length != MAX_WINDOW).then_some((length, position))
        }
    }
}

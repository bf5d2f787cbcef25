//! VCDIFF (RFC 3284): a target as differences from a source that both ends hold.
//!
//! [`encode`] writes deltas that [`decode`] and xdelta3 read, and [`decode`] reads the output of `xdelta3 -S
//! none`: the default code table, no secondary compression, xdelta3's checksum of windows and its application
//! header. With a source other than its own, a delta fails to decode or, without a [`Checksum`], decodes to
//! other bytes.
//!
//! ```
//! use longhaul_codec::vcdiff::{self, DeltaEffort, Limits};
//!
//! let (old, new) = (b"an old text of some length", b"a new text of some length");
//! let delta = vcdiff::encode(old, new, DeltaEffort::Best);
//! assert_eq!(vcdiff::decode(old, &delta, Limits::default()).unwrap(), new);
//! ```
mod adler;
mod cache;
mod decode;
mod encode;
mod header;
mod integer;
mod limits;
mod table;

pub use decode::{Decoder, Event, decode};
pub use encode::{Checksum, DeltaEffort, MAX_SOURCE_SEGMENT, MAX_TARGET_WINDOW, encode, encode_with};
pub use limits::{DecodeError, Limits, Section};

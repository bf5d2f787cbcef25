//! Content coders, free of I/O: removal of the content codings of origins, the windows in which a body
//! crosses the hop, and the choice of a coding.
//!
//! * [`ContentDecoder`] decodes a response body that the origin coded, in bounded steps; [`ContentEncoder`] codes one
//!   for a client without an agent.
//! * [`BodyEncoder`] and [`BodyDecoder`] frame a body for the session (`docs/protocol/body.md`): windows of
//!   at most 32 KiB, each with a keyed hash, and the [`ContentHash`](longhaul_types::ContentHash) of the
//!   whole body.
//! * [`AdaptiveEncoder`] frames a body with a coding that it chooses and keeps only if the result is smaller.
//! * [`dictionary`] contains the bases that both ends ship.
//! * [`BodyEncoder::mixed`] codes text by context mixing, for the slowest links (`docs/protocol/mix.md`).
//! * [`vcdiff`] encodes and decodes a body as differences from a body that both ends hold (RFC 3284).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod brotli;
mod charged_allocator;
mod choice;
mod coding;
mod compress;
mod content_decoding;
mod content_encoding;
mod decompress;
pub mod dictionary;
mod memory_shares;
mod mix;
pub mod vcdiff;
mod window;

pub use choice::{
    AdaptiveEncoder, Base, BodyTraits, EffortPolicy, Finished, Load, SizeHiding, choose, suits_mixing,
};
pub use coding::{Coder, Coding, EncodeError};
pub use content_decoding::{
    ContentDecoder, ContentDecodingError, ContentDecodingLimits, ContentEnd, MAX_CODINGS, OriginCoding, Step,
    UnsupportedCoding, decode_content,
};
pub use content_encoding::{ContentCoding, ContentEncoder};
pub use memory_shares::{MemoryReservation, MemoryShare, MemoryShares};
pub use mix::{MIX_MEMORY, MIX_SESSION_MEMORY};
pub use window::{
    BodyDecoder, BodyEncoder, BodyEvent, BodyLimits, CodedBody, DecodeError, MAX_BASE, MAX_BASED_WINDOW,
    MAX_CODED_WINDOW, MAX_WINDOW,
};

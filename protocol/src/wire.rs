//! Wire formats (transport.md sections 1 to 5): parsing and encoding, without keys, state or time.
//!
//! A decoder returns an error for all input that the specification does not permit; no decoder panics.
pub mod feedback;
pub mod field;
pub mod frame;
pub mod init;
pub mod packet;
pub mod parameters;
pub mod quic;
pub mod rate;
pub mod resp;
pub mod stamp;
pub mod stateless;

pub use longhaul_types::varint;

pub use feedback::{Feedback, GapKind, GapRange, Gaps};
pub use frame::{Data, DataHeader, Datagram, Extent, Frame, FrameError, MAX_REASON};
pub use init::{Init, InitPayload};
pub use packet::{
    Activity, HeaderError, IndexLength, KeyPhase, KeySpace, PacketKind, ReceiverIndex, ShortHeader,
    expand_packet_number,
};
pub use parameters::Parameters;
pub use quic::is_quic;
pub use rate::RateFloat;
pub use resp::{Acceptance, EarlyOutcome, Refusal, Resp, RespPayload};
pub use stamp::Stamp;
pub use stateless::{Reset, Versions};

/// Version of the transport that this code implements.
pub const VERSION: u8 = 1;
/// Length of an AEAD tag (RFC 8439).
pub const TAG_LEN: usize = 16;
/// Largest UDP payload over IPv4 before path MTU discovery: 1,280 bytes (the smallest MTU of IPv6, which
/// practically every path takes) less 28 bytes of headers.
pub const MAX_UDP_PAYLOAD: usize = 1252;

#[cfg(test)]
mod tests;

//! The bytes of the wire (transport.md sections 1 to 5): parsing and encoding, without keys, state or time.
//!
//! Every decoder takes what the network sent and returns an error for anything that the contract does not allow; none panics.
pub mod feedback;
pub mod field;
pub mod frame;
pub mod init;
pub mod packet;
pub mod parameters;
pub mod rate;
pub mod resp;
pub mod stamp;
pub mod stateless;

pub use longhaul_types::varint;

pub use feedback::{Feedback, GapKind, GapRange, Gaps};
pub use frame::{Data, DataHeader, Extent, Frame, FrameError};
pub use init::{Init, InitPayload};
pub use packet::{
    Activity, HeaderError, IndexLength, KeyPhase, KeySpace, PacketKind, ReceiverIndex, ShortHeader,
    expand_packet_number,
};
pub use parameters::Parameters;
pub use rate::RateFloat;
pub use resp::{Acceptance, EarlyOutcome, Refusal, Resp, RespPayload};
pub use stamp::Stamp;
pub use stateless::{Reset, Versions};

/// The version of the transport that this code speaks.
pub const VERSION: u8 = 1;
/// Length of an AEAD tag (RFC 8439).
pub const TAG_LEN: usize = 16;
/// The largest UDP payload over IPv4: 1,280 bytes, the smallest MTU of IPv6 and safe on practically every path, less 28 of headers.
pub const MAX_UDP_PAYLOAD: usize = 1252;

#[cfg(test)]
mod tests;

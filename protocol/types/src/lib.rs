//! Units, identifiers, keys and link profiles for all parts of Longhaul.
//!
//! This crate does no I/O, reads no clock and draws no randomness.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod error_text;
mod foreign_text;
mod hash;
mod id;
mod invite;
mod key;
mod link;
mod pii;
mod priority;
mod technique;
mod time;
mod units;
pub mod varint;
mod version;

pub use error_text::error_text;
pub use foreign_text::{OneLine, is_misleading, legible};
pub use hash::{ContentHash, ParseHashError};
pub use id::{ClientId, DeviceId, StreamId};
pub use invite::{Invite, ParseInviteError};
pub use key::{ParseKeyError, PublicKey, SecretKey};
pub use link::{LinkProfile, ParseLinkError};
pub use pii::Pii;
pub use priority::Priority;
pub use technique::{ParseTechniqueError, Technique, Techniques};
pub use time::{Timestamp, UnixTime};
pub use units::{BitRate, ByteCount, ParseUnitError, parse_duration};
pub use version::version_text;

/// TCP port of the carrier `tls` and UDP port of `quic`, unless another one is configured.
pub const CARRIER_PORT: u16 = 443;

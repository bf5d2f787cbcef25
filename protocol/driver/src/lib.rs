//! Driver of Longhaul sessions: one tokio task owns the UDP socket, the clock and the randomness, and drives
//! the sans-IO [`longhaul_protocol::endpoint::Endpoint`]. [`Session`], [`SendStream`] and [`RecvStream`]
//! communicate with this task through bounded channels.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod clock;
mod command;
mod connection_channels;
mod dial;
mod driver_task;
mod incoming;
mod listen;
mod session;
mod socket;
mod stream;

pub use dial::{DialConfig, DialError, FirstStream, dial, dial_with};
pub use incoming::Incoming;
pub use listen::{Admission, ListenConfig, ListenError, Listener, listen, listen_with};
pub use longhaul_protocol::{
    connection::{ConnectionStats, EarlyData, TransportConfig},
    crypto::{EpochKeys, token::minted_hour},
    endpoint::{CloseReason, DeviceStatus, EndpointCounters},
    streams::Priority,
    wire::Refusal,
};
pub use session::{End, Expectation, LinkState, OpenOptions, Session, SessionError};
pub use socket::SegmentationOffload;
pub use stream::{RecvStream, SendStream, StreamError};

/// Error code for a stream whose handle was dropped before the end of the stream.
pub const ERROR_ABANDONED: u64 = 1;

//! Driver of Longhaul sessions: one tokio task owns the UDP socket, the links of other carriers ([`Carrier`]),
//! the clock and the randomness, and drives
//! the sans-IO [`longhaul_protocol::endpoint::Endpoint`]. [`Session`], [`SendStream`] and [`RecvStream`]
//! communicate with this task through bounded channels.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod batch;
mod carrier_choice;
mod clock;
mod command;
mod connection_channels;
mod datagrams;
mod dial;
mod doubts;
mod driver_task;
mod goodput;
mod incoming;
mod link;
mod links;
mod listen;
mod quic_share;
mod session;
mod socket;
mod sockets;
mod stream;
mod udp_addresses;
mod udp_limit;
mod udp_return;

pub use carrier_choice::{CarrierPlan, LinkCarriers};
pub use dial::{Alternatives, DialConfig, DialError, FirstStream, dial, dial_over, dial_with};
pub use doubts::Doubts;
pub use goodput::Arrived;
pub use incoming::Incoming;
pub use link::{Carrier, LinkAcceptor, LinkEnd, LinkInput, LinkOutput, LinkUnused};
pub use listen::{Admission, ListenConfig, ListenError, Listener, listen, listen_sharing, listen_with};
pub use longhaul_protocol::{
    connection::{ConnectionStats, EarlyData, LinkSummary, TransportConfig},
    crypto::{EpochKeys, token::minted_hour},
    endpoint::{CloseReason, DeviceStatus, EndpointCounters},
    streams::{Datagram, Priority},
    wire::Refusal,
};
pub use quic_share::{QuicDrops, QuicShare};
pub use session::{
    End, Expectation, GatewayAddresses, LinkState, NetworkChange, OpenOptions, Session, SessionError,
};
pub use socket::SegmentationOffload;
pub use stream::{RecvStream, SendStream, StreamError};
pub use udp_limit::{LinkTrial, TrialSituation, TrialStep};
pub use udp_return::ReturnTimes;

/// Error code for a stream whose handle was dropped before the end of the stream.
pub const ERROR_ABANDONED: u64 = 1;

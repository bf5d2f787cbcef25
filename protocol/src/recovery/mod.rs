//! What was sent, what arrived, what is missing: the book of sent packets, the receiver's gaps, round-trip times
//! (transport.md 5).
mod breaker;
mod gaps;
mod rtt;
mod sent;

pub use breaker::Breaker;
pub use gaps::{Arrival, GapList};
pub use rtt::RttEstimator;
pub use sent::{MAX_TAIL, Report, SentBook, SentContent, SentPacket};

//! Loss recovery: sent packets, the receiver's gaps and round-trip times (transport.md section 5).
mod gaps;
mod loss_circuit_breaker;
mod rtt;
mod sent;

pub use gaps::{Arrival, GapList};
pub use loss_circuit_breaker::LossCircuitBreaker;
pub use rtt::RttEstimator;
pub use sent::{MAX_TAIL, Report, SentContent, SentPacket, SentPackets};

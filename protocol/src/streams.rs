//! Streams of one connection: sending and receiving halves, windows, scheduler (transport.md sections 4.1 to
//! 4.3).
mod collection;
mod datagrams;
mod event;
mod ranges;
mod recv;
mod scheduler;
mod send;

pub use collection::Streams;
pub use datagrams::{Datagram, DatagramError, DatagramQueue};
pub use event::{
    OpenError, ReadError, Role, SentControl, StreamEvent, StreamLimits, StreamRequest, WriteError,
};
pub use longhaul_types::Priority;
pub use ranges::RangeSet;
pub use recv::{FRAGMENT_COST, ReadOutcome, RecvStream, StreamViolation};
pub use scheduler::{Demand, Scheduler};
pub use send::{Delivery, Origin, Segment, SendStream};

//! The streams of one connection: send and receive halves, windows, the scheduler (transport.md 4.1 to 4.3).
mod collection;
mod event;
mod ranges;
mod recv;
mod scheduler;
mod send;

pub use collection::Streams;
pub use event::{
    OpenError, ReadError, Role, SentControl, StreamEvent, StreamLimits, StreamRequest, WriteError,
};
pub use ranges::RangeSet;
pub use recv::{FRAGMENT_COST, ReadOutcome, RecvStream, StreamViolation};
pub use scheduler::{Demand, Priority, Scheduler};
pub use send::{Delivery, Origin, Segment, SendStream};

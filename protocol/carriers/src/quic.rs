//! The carrier `quic`: each packet is one DATAGRAM frame of a QUIC connection (docs/protocol/transport.md section 8.5).
mod bare;
mod dialer;
mod listener;
mod pump;
mod settings;
mod share;
#[cfg(test)]
mod tests;
mod unlimited;

pub(crate) use bare::BareQuic;
pub use dialer::QuicCarrier;
pub use listener::{QuicListener, QuicRenewal, QuicServer};

//! A TCP sender that competes with sessions, by its congestion control.
use longhaul_types::Timestamp;

use crate::{
    bbr::BbrSender,
    cubic::{Ack, CubicSender},
};

/// A congestion control of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Congestion {
    Cubic,
    Bbr,
}

/// The sender.
#[derive(Debug)]
pub(crate) enum TcpSender {
    Cubic(CubicSender),
    Bbr(BbrSender),
}

impl TcpSender {
    pub(crate) fn new(congestion: Congestion, now: Timestamp) -> Self {
        match congestion {
            Congestion::Cubic => Self::Cubic(CubicSender::new(now)),
            Congestion::Bbr => Self::Bbr(BbrSender::new(now)),
        }
    }

    /// The number of the next packet that may be sent now, and whether it requires an acknowledgement at once.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<(u64, bool)> {
        match self {
            Self::Cubic(sender) => sender.poll(now),
            Self::Bbr(sender) => sender.poll(now),
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        match self {
            Self::Cubic(sender) => sender.poll_timeout(),
            Self::Bbr(sender) => sender.poll_timeout(),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Timestamp) {
        match self {
            Self::Cubic(sender) => sender.handle_timeout(now),
            Self::Bbr(sender) => sender.handle_timeout(now),
        }
    }

    pub(crate) fn on_ack(&mut self, now: Timestamp, ack: Ack) {
        match self {
            Self::Cubic(sender) => sender.on_ack(now, ack),
            Self::Bbr(sender) => sender.on_ack(now, ack),
        }
    }
}

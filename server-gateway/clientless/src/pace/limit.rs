//! What the connections of a client may write.
use std::time::Duration;

/// Content of a full packet.
pub(super) const PACKET: usize = 1448;
/// Time of a piece: shorter ones cost processor time, longer ones cannot be overtaken for longer.
const PIECE_TIME: f64 = 0.02;
/// Maximum size of a piece: one read of a body.
const MAX_PIECE: usize = 16 * 1024;
/// Bytes of a full packet, to those of its content: headers of IPv4 and TCP with time stamps.
pub(super) const HEADERS: f64 = 1500.0 / 1448.0;

/// What a client's connections may write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limit {
    /// Bytes of IP packets a second.
    pub(super) rate: Option<f64>,
    /// Bytes that may be outstanding.
    pub(super) window: Option<f64>,
}

impl Limit {
    pub(super) const NONE: Self = Self {
        rate: None,
        window: None,
    };

    /// Only a rate (bytes of IP packets a second).
    pub(super) const fn of_rate(rate: f64) -> Self {
        Self {
            rate: Some(rate),
            window: None,
        }
    }

    /// Returns true if there is no limit.
    pub(super) fn is_free(self) -> bool {
        self == Self::NONE
    }

    /// Returns true if so many bytes may be outstanding.
    pub(super) fn has_room(self, bytes: u64) -> bool {
        self.window.is_none_or(|window| as_bytes(bytes) <= window)
    }

    /// Size of a piece.
    pub(super) fn piece(self) -> usize {
        let Some(rate) = self.rate else {
            // The first flight goes a packet at a time: it is for all connections.
            return if self.window.is_some() { PACKET } else { MAX_PIECE };
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive, and bounded next"
        )]
        let piece = (rate / HEADERS * PIECE_TIME) as usize;
        piece.clamp(PACKET, MAX_PIECE)
    }

    /// Time in which the link carries so many bytes of content.
    pub(super) fn time(self, bytes: usize) -> Duration {
        let bytes = as_bytes(bytes as u64) * HEADERS;
        self.rate.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(bytes / rate.max(1.0))
        })
    }
}

/// Counts of bytes stay far below 2^52.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
pub(super) fn as_bytes(bytes: u64) -> f64 {
    bytes as f64
}

//! Where the peer is, and whether that is certain (transport.md 7.1, 7.2).
use std::{net::SocketAddr, time::Duration};

use longhaul_types::Timestamp;

/// What an address that is not validated gets, as a multiple of what came from it (transport.md 7.2).
const AMPLIFICATION: u64 = 3;
/// Times a challenge is sent before the next packet from the address must start it again.
const CHALLENGES: u32 = 5;

/// Whether the peer's address is known to be its own (transport.md 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// A valid token, or a packet under the full keys came from it.
    Validated,
    /// At most 3 times what came from it goes to it.
    Unvalidated {
        /// UDP payload bytes that came from it in the handshake.
        received: u64,
        /// UDP payload bytes that went to it in the handshake.
        sent: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Challenge {
    data: [u8; 8],
    left: u32,
    due: Timestamp,
}

/// The peer's address.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) remote: SocketAddr,
    validation: Validation,
    /// Packets under the full keys validate it: it is the address of the handshake.
    original: bool,
    challenge: Option<Challenge>,
}

impl Path {
    pub(super) const fn new(remote: SocketAddr, validation: Validation) -> Self {
        Self {
            remote,
            validation,
            original: true,
            challenge: None,
        }
    }

    /// The peer appeared at another address, which is to be challenged with `data`.
    pub(super) const fn moved(remote: SocketAddr, data: [u8; 8], now: Timestamp) -> Self {
        Self {
            remote,
            validation: Validation::Unvalidated { received: 0, sent: 0 },
            original: false,
            challenge: Some(Challenge {
                data,
                left: CHALLENGES,
                due: now,
            }),
        }
    }

    pub(super) fn on_received(&mut self, bytes: u64) {
        if let Validation::Unvalidated { received, .. } = &mut self.validation {
            *received += bytes;
            // A challenge that was given up starts again when the address shows itself.
            if let Some(challenge) = &mut self.challenge {
                challenge.left = challenge.left.max(1);
            }
        }
    }

    pub(super) const fn on_sent(&mut self, bytes: u64) {
        if let Validation::Unvalidated { sent, .. } = &mut self.validation {
            *sent += bytes;
        }
    }

    /// A packet under the full keys came from the address.
    pub(super) const fn on_full_keys(&mut self) {
        if self.original {
            self.validation = Validation::Validated;
        }
    }

    pub(super) fn on_response(&mut self, data: [u8; 8]) {
        if self.challenge.is_some_and(|challenge| challenge.data == data) {
            self.challenge = None;
            self.validation = Validation::Validated;
        }
    }

    /// UDP payload bytes that may go to the address now.
    pub(super) fn budget(&self) -> u64 {
        match self.validation {
            Validation::Validated => u64::MAX,
            Validation::Unvalidated { received, sent } => (received * AMPLIFICATION).saturating_sub(sent),
        }
    }

    /// The challenge, if it is to be sent now.
    pub(super) fn challenge_due(&self, now: Timestamp) -> Option<[u8; 8]> {
        self.challenge
            .filter(|challenge| challenge.left > 0 && challenge.due <= now)
            .map(|challenge| challenge.data)
    }

    pub(super) fn challenge_sent(&mut self, now: Timestamp, again: Duration) {
        if let Some(challenge) = &mut self.challenge {
            challenge.left -= 1;
            challenge.due = now + again;
        }
    }

    pub(super) fn challenge_at(&self) -> Option<Timestamp> {
        self.challenge
            .filter(|challenge| challenge.left > 0)
            .map(|challenge| challenge.due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unvalidated_address_gets_three_times_what_it_sent() {
        let at = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut path = Path::moved(at, [7; 8], Timestamp::ZERO);
        path.on_received(100);
        assert_eq!(path.budget(), 300);
        path.on_sent(250);
        assert_eq!(path.budget(), 50);
        path.on_full_keys();
        assert_eq!(
            path.budget(),
            50,
            "only the address of the handshake is validated by a packet"
        );
        path.on_response([8; 8]);
        assert_eq!(path.budget(), 50);
        path.on_response([7; 8]);
        assert_eq!((path.budget(), path.challenge_at()), (u64::MAX, None));
    }
}

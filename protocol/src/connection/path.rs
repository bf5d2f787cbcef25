//! Address of the peer and its validation (transport.md sections 7.1, 7.2).
use std::time::Duration;

use longhaul_types::Timestamp;

use crate::path::Path;

/// Amplification limit of an unvalidated address (transport.md section 7.2).
const AMPLIFICATION: u64 = 3;
/// Number of transmissions of a challenge before only a further packet from the address causes another one.
const CHALLENGES: u32 = 5;

/// Validation state of the peer's address (transport.md section 7.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// Validated by a valid token, by a packet under the full keys or by PATH_RESPONSE.
    Validated,
    /// Limited to 3 times the bytes received from the address.
    Unvalidated {
        /// UDP payload bytes received from the address in the handshake.
        received: u64,
        /// UDP payload bytes sent to the address in the handshake.
        sent: u64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Challenge {
    data: [u8; 8],
    left: u32,
    due: Timestamp,
}

/// Path to the peer and its validation.
#[derive(Clone, Debug)]
pub(super) struct PeerPath {
    pub(super) remote: Path,
    validation: Validation,
    /// True for the path of the handshake, which packets under the full keys validate.
    original: bool,
    challenge: Option<Challenge>,
}

impl PeerPath {
    pub(super) const fn new(remote: Path, validation: Validation) -> Self {
        Self {
            remote,
            validation,
            original: true,
            challenge: None,
        }
    }

    /// New path to the peer. An address is challenged with `data`; a link has proved by its handshake that the
    /// peer receives.
    pub(super) const fn moved(remote: Path, data: [u8; 8], now: Timestamp) -> Self {
        if matches!(remote, Path::Link(_)) {
            return Self::new(remote, Validation::Validated);
        }
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
            // A packet from the address permits another challenge after the last one.
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

    /// Records a packet under the full keys from the address.
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

    /// UDP payload bytes that may be sent to the address now.
    pub(super) fn budget(&self) -> u64 {
        match self.validation {
            Validation::Validated => u64::MAX,
            Validation::Unvalidated { received, sent } => (received * AMPLIFICATION).saturating_sub(sent),
        }
    }

    /// Data of the challenge, if it is due.
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
    use std::net::SocketAddr;

    use super::*;
    use crate::path::LinkId;

    #[test]
    fn a_link_needs_no_challenge() {
        let path = PeerPath::moved(Path::Link(LinkId::datagram(1)), [7; 8], Timestamp::ZERO);
        assert_eq!((path.budget(), path.challenge_at()), (u64::MAX, None));
    }

    #[test]
    fn an_unvalidated_address_gets_at_most_three_times_the_received_bytes() {
        let at = SocketAddr::from(([192, 0, 2, 1], 1));
        let mut path = PeerPath::moved(at.into(), [7; 8], Timestamp::ZERO);
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

//! What an observer of the path can check: an address that has not been validated gets at most three times what came from it
//! (docs/protocol/transport.md section 7.2).
use std::{collections::BTreeMap, time::Duration};

use longhaul_netem::ClientAddress;
use longhaul_types::Timestamp;

/// UDP payload that came from an address and went to it.
#[derive(Clone, Copy, Debug, Default)]
struct Exposure {
    received: u64,
    sent: u64,
    first_sent: Option<Timestamp>,
}

/// The client's addresses as the gateway's host sees them.
#[derive(Debug)]
pub(crate) struct Amplification {
    addresses: BTreeMap<ClientAddress, Exposure>,
    /// No answer to a challenge comes sooner.
    round_trip: Duration,
    /// The address of the handshake, if a token validates it.
    validated: Option<ClientAddress>,
}

impl Amplification {
    pub(crate) const fn new(round_trip: Duration, validated: Option<ClientAddress>) -> Self {
        Self {
            addresses: BTreeMap::new(),
            round_trip,
            validated,
        }
    }

    pub(crate) fn received(&mut self, from: ClientAddress, bytes: u64) {
        self.addresses.entry(from).or_default().received += bytes;
    }

    /// The gateway accepted an INIT from an address; a token validates it, wherever the agent was when it first tried.
    pub(crate) fn accepted(&mut self, from: ClientAddress) {
        self.validated = self.validated.map(|_| from);
    }

    /// Notes a datagram to an address.
    ///
    /// # Panics
    /// It goes beyond the limit, at a time at which the address cannot have answered a challenge.
    pub(crate) fn sent(&mut self, now: Timestamp, to: ClientAddress, bytes: u64) {
        if self.validated == Some(to) {
            return;
        }
        let exposure = self.addresses.entry(to).or_default();
        exposure.sent += bytes;
        let first = *exposure.first_sent.get_or_insert(now);
        let answered = now - first >= self.round_trip;
        assert!(
            answered || exposure.sent <= 3 * exposure.received,
            "{} bytes to {to:?}, from which {} came",
            exposure.sent,
            exposure.received
        );
    }
}

//! The amplification limit as an observer of the path checks it: a gateway sends at most three times the
//! bytes received from an address until the address is validated (docs/protocol/transport.md section 7.2).
use std::{collections::BTreeMap, time::Duration};

use longhaul_netem::ClientAddress;
use longhaul_types::Timestamp;

/// UDP payload received from an address and sent to it.
#[derive(Clone, Copy, Debug, Default)]
struct Exposure {
    received: u64,
    sent: u64,
    first_sent: Option<Timestamp>,
}

/// The client's addresses as seen at the gateway.
#[derive(Debug)]
pub(crate) struct Amplification {
    addresses: BTreeMap<ClientAddress, Exposure>,
    /// Minimum time until the answer to a challenge.
    round_trip: Duration,
    /// Address of the handshake, if a token validates it.
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

    /// Records that the gateway accepted an INIT from an address, which is validated if the INIT had a token.
    pub(crate) fn accepted(&mut self, from: ClientAddress) {
        self.validated = self.validated.map(|_| from);
    }

    /// Records a datagram to an address.
    ///
    /// # Panics
    /// If the datagram exceeds the limit before the address can have answered a challenge.
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
            "{} bytes sent to {to:?}, {} received from it",
            exposure.sent,
            exposure.received
        );
    }
}

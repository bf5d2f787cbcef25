//! Stateless answers of a gateway: RESET and VERSIONS.
use std::net::SocketAddr;

use longhaul_types::Timestamp;

use super::{
    Endpoint, Role,
    rate_limit::{KeyedTokenBuckets, TokenBucket, TokenRate},
};
use crate::{
    path::Path,
    wire::{ReceiverIndex, Reset, VERSION, Versions},
};

/// Rate of RESETs and VERSIONS to one address.
const PER_ADDRESS: TokenRate = TokenRate::new(2, 3);
/// Total rate of RESETs and VERSIONS: after a restart, 10,000 agents get a RESET within a minute.
const IN_ALL: TokenRate = TokenRate::new(200, 200);

pub(super) struct StatelessLimits {
    per_address: KeyedTokenBuckets,
    in_all: TokenBucket,
}

impl StatelessLimits {
    pub(super) fn new(hash_key: [u8; 32]) -> Self {
        Self {
            per_address: KeyedTokenBuckets::new(PER_ADDRESS, hash_key),
            in_all: TokenBucket::new(IN_ALL),
        }
    }

    fn allow(&mut self, now: Timestamp, remote: SocketAddr) -> bool {
        self.per_address.take_address(remote, now) && self.in_all.take(now)
    }
}

impl Endpoint {
    pub(super) fn answer_with_reset(&mut self, now: Timestamp, remote: Path, index: ReceiverIndex) {
        let address = self.links.address(remote);
        let (Role::Gateway(gateway), ReceiverIndex::Gateway(index)) = (&mut self.role, index) else {
            return;
        };
        if !address.is_some_and(|address| gateway.stateless.allow(now, address)) {
            return;
        }
        let reset = Reset {
            tag: gateway.reset.tag(index),
        };
        let mut datagram = Vec::with_capacity(Reset::LEN);
        reset.encode(&mut datagram);
        self.counters.resets += 1;
        self.answer(remote, datagram);
    }

    pub(super) fn answer_with_versions(&mut self, now: Timestamp, remote: Path, agent_index: u8) {
        let address = self.links.address(remote);
        let Role::Gateway(gateway) = &mut self.role else {
            return;
        };
        if !address.is_some_and(|address| gateway.stateless.allow(now, address)) {
            self.counters.rate_limited += 1;
            return;
        }
        let versions = Versions {
            agent_index,
            versions: &[VERSION],
        };
        let mut datagram = Vec::new();
        versions.encode(&mut datagram);
        self.counters.versions += 1;
        self.answer(remote, datagram);
    }
}

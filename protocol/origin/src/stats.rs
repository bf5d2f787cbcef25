//! Counters of the origin client.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use longhaul_types::ByteCount;

/// Monotonic counters since the creation of the client, shared by its clones.
#[derive(Debug, Default)]
pub struct OriginStats {
    bytes_received: AtomicU64,
    bytes_sent: AtomicU64,
    connections: AtomicU64,
    dns_lookups: AtomicU64,
    requests: AtomicU64,
    retries: AtomicU64,
}

/// Values of [`OriginStats`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatsSnapshot {
    /// Bytes read from the sockets of fetches, including TLS and framing; `origin_bytes` of the reports.
    pub bytes_received: ByteCount,
    /// Bytes written to the sockets of fetches, including TLS and framing.
    pub bytes_sent: ByteCount,
    /// TCP connections established, including those of tunnels.
    pub connections: u64,
    /// Names looked up with DNS, including answers from the DNS cache.
    pub dns_lookups: u64,
    /// Requests passed to the client.
    pub requests: u64,
    /// Requests sent once more, because the origin had not processed them or a pooled connection was dead.
    pub retries: u64,
}

impl OriginStats {
    /// Returns the current values.
    pub fn snapshot(&self) -> StatsSnapshot {
        StatsSnapshot {
            bytes_received: ByteCount::new(self.bytes_received.load(Relaxed)),
            bytes_sent: ByteCount::new(self.bytes_sent.load(Relaxed)),
            connections: self.connections.load(Relaxed),
            dns_lookups: self.dns_lookups.load(Relaxed),
            requests: self.requests.load(Relaxed),
            retries: self.retries.load(Relaxed),
        }
    }

    pub(crate) fn received(&self, bytes: usize) {
        add(&self.bytes_received, bytes);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.bytes_sent, bytes);
    }

    pub(crate) fn connection_opened(&self) {
        add(&self.connections, 1);
    }

    pub(crate) fn dns_lookup(&self) {
        add(&self.dns_lookups, 1);
    }

    pub(crate) fn request(&self) {
        add(&self.requests, 1);
    }

    pub(crate) fn retry(&self) {
        add(&self.retries, 1);
    }
}

fn add(counter: &AtomicU64, amount: usize) {
    counter.fetch_add(u64::try_from(amount).unwrap_or(u64::MAX), Relaxed);
}

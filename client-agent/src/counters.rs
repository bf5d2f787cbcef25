//! What the agent counts since its start.
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }
    /// `amount` more.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Relaxed);
    }
    /// The value.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The counters of an agent. Those of the hop's bytes are with the sessions (`session::Gateway::traffic`).
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests that browsers made, CONNECT included.
    pub requests: Counter,
    /// Requests that ended in an error page or a broken connection.
    pub failures: Counter,
    /// Tunnels opened for CONNECT.
    pub tunnels: Counter,
    /// Requests and tunnels that went around the gateway.
    pub direct_requests: Counter,
    /// Requests repeated in another session or outside early data.
    pub repeated: Counter,
    /// Windows of bodies that did not match their hash.
    pub windows_bad: Counter,
    /// Bodies asked for again from an offset.
    pub resumed: Counter,
    /// Bodies that broke off before their end.
    pub truncated: Counter,
    /// Verified body bytes handed to browsers, decoded.
    pub body_bytes_decoded: Counter,
    /// Body bytes taken from browsers, before coding.
    pub upload_bytes: Counter,
    /// Raw bytes of tunnels in both directions.
    pub tunnel_bytes: Counter,
}

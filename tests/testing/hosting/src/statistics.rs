//! Counters of a server.
use std::collections::BTreeMap;

use parking_lot::Mutex;

/// Counters of a server since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostingStatistics {
    /// TCP connections accepted.
    pub connections: u64,
    /// Connections whose TLS handshake failed.
    pub failed_handshakes: u64,
    /// Answered requests, including misdirected ones.
    pub requests: u64,
    /// Requests for hosts that the content does not have.
    pub misdirected: u64,
    /// Bytes of response bodies, as coded, without framing. Counted when the response is passed to the
    /// connection.
    pub body_bytes: u64,
    /// Counters by host, for the requested hosts of the content.
    pub hosts: BTreeMap<String, HostStatistics>,
}

/// Counters of one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStatistics {
    /// Connections whose first request was for this host.
    pub connections: u64,
    /// Answered requests.
    pub requests: u64,
    /// Responses with status 304.
    pub not_modified: u64,
    /// Bytes of response bodies, as coded.
    pub body_bytes: u64,
}

/// Position of a request on its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    First,
    Later,
}

/// Counters of a running server.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<HostingStatistics>);

impl Counters {
    pub(crate) fn snapshot(&self) -> HostingStatistics {
        self.change(|statistics| statistics.clone())
    }

    pub(crate) fn connected(&self) {
        self.change(|statistics| statistics.connections += 1);
    }

    pub(crate) fn handshake_failed(&self) {
        self.change(|statistics| statistics.failed_handshakes += 1);
    }

    /// `host` is a host of the content, `None` if the request was misdirected.
    pub(crate) fn answered(&self, host: Option<&str>, turn: Turn, status: http::StatusCode, body: u64) {
        self.change(|statistics| {
            statistics.requests += 1;
            statistics.body_bytes += body;
            let Some(host) = host else {
                statistics.misdirected += 1;
                return;
            };
            let host = statistics.hosts.entry(host.to_owned()).or_default();
            host.requests += 1;
            host.body_bytes += body;
            host.not_modified += u64::from(status == http::StatusCode::NOT_MODIFIED);
            host.connections += u64::from(turn == Turn::First);
        });
    }

    fn change<T>(&self, change: impl FnOnce(&mut HostingStatistics) -> T) -> T {
        change(&mut self.0.lock())
    }
}

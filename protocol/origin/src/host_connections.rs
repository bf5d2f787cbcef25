//! The pooled connections to one host, and the requests that wait for one.
use std::{collections::VecDeque, sync::Arc};

use hyper::client::conn::http2;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    connection::{Connection, Http1},
    host_scheduler::LiveH2,
    http2_life::Http2Life,
    owner::{ConnectionOwner, Ownership, RequestProperties},
    pool_rules::PoolRules,
    shares::Slot,
    upload::Upload,
};

/// The connections to one host.
#[derive(Default)]
pub(crate) struct HostConnections {
    /// Oldest first.
    pub(crate) idle: VecDeque<(Instant, Http1)>,
    pub(crate) http2: Vec<Http2>,
    /// Requests that are opening connections and take a connection that becomes idle first.
    pub(crate) waiting: Vec<Waiting>,
}

/// A request that waits for a connection.
pub(crate) struct Waiting {
    pub(crate) properties: RequestProperties,
    pub(crate) found: oneshot::Sender<Connection>,
}

/// An HTTP/2 connection.
pub(crate) struct Http2 {
    pub(crate) id: u64,
    pub(crate) sender: http2::SendRequest<Upload>,
    pub(crate) ownership: Ownership,
    pub(crate) user: ConnectionOwner,
    /// Tells the user's scheduler that its requests need no new connections.
    pub(crate) live: LiveH2,
    pub(crate) life: Arc<Http2Life>,
    pub(crate) slot: Arc<Slot<ConnectionOwner>>,
    pub(crate) generation: u64,
    pub(crate) streams: usize,
    pub(crate) idle_since: Instant,
}

impl HostConnections {
    /// True if there are neither connections nor waiting requests.
    pub(crate) fn is_empty(&self) -> bool {
        self.idle.is_empty() && self.http2.is_empty() && self.waiting.is_empty()
    }

    /// Returns the time since which the longest idle connection of the meant owners is idle.
    pub(crate) fn idle_since(&self, is_meant: impl Fn(ConnectionOwner) -> bool) -> Option<Instant> {
        let http1 = self.idle.iter().filter(|(_, idle)| is_meant(idle.user));
        let http1 = http1.map(|(since, _)| *since).min();
        let http2 = self
            .http2
            .iter()
            .filter(|entry| entry.streams == 0 && is_meant(entry.user));
        let http2 = http2.map(|entry| entry.idle_since).min();
        http1.into_iter().chain(http2).min()
    }

    /// Closes the connections of the meant owners that are idle since this time.
    pub(crate) fn close_idle_since(&mut self, since: Instant, is_meant: impl Fn(ConnectionOwner) -> bool) {
        self.idle
            .retain(|(found, idle)| *found != since || !is_meant(idle.user));
        self.http2
            .retain(|entry| entry.streams > 0 || entry.idle_since != since || !is_meant(entry.user));
    }

    /// Closes connections that have been idle for too long or that the host has closed, and removes requests that
    /// no longer wait.
    pub(crate) fn close_expired(&mut self, rules: &PoolRules) {
        let now = Instant::now();
        let is_young = |since: Instant, limit| now.saturating_duration_since(since) < limit;
        self.idle.retain(|(since, idle)| {
            is_young(*since, rules.idle_limit(idle.usable_for)) && idle.sender.is_ready()
        });
        self.http2.retain(|entry| {
            entry.streams > 0 || is_young(entry.idle_since, rules.idle) && !entry.sender.is_closed()
        });
        self.waiting.retain(|waiting| !waiting.found.is_closed());
    }
}

//! HTTP/2 connections of the pool, and the requests that share them.
use std::sync::Arc;

use hyper::client::conn::http2;
use tokio::time::Instant;

use super::Pool;
use crate::{
    connection::{Connection, Http2Stream},
    host_connections::Http2,
    owner::{ConnectionOwner, Multiplexing, Ownership, RequestProperties},
    shares::Slot,
    target::Target,
    upload::Upload,
};

/// Slot of a stream in its connection, until dropped.
pub(crate) struct StreamGuard {
    pool: Arc<Pool>,
    target: Target,
    id: u64,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.pool.stream_ended(&self.target, self.id);
    }
}

impl Pool {
    pub(super) fn opened_http2(
        self: &Arc<Self>,
        target: &Target,
        (sender, task): (http2::SendRequest<Upload>, tokio::task::JoinHandle<()>),
        (slot, generation): (Arc<Slot<ConnectionOwner>>, u64),
        owner: ConnectionOwner,
        properties: Option<&RequestProperties>,
    ) -> Option<Connection> {
        let live = self.schedulers.h2_opened(target, owner);
        let mut served = Vec::new();
        let mut state = self.state();
        self.sweep(&mut state);
        let id = state.next;
        state.next += 1;
        let host = state.hosts.entry(target.clone()).or_default();
        host.http2.push(Http2 {
            id,
            sender,
            ownership: Ownership::Unclaimed,
            user: owner,
            live,
            has_answered: Arc::default(),
            slot,
            generation,
            streams: 0,
            idle_since: Instant::now(),
        });
        let entry = host.http2.last_mut();
        let own = properties.and_then(|properties| entry.map(|entry| self.stream(entry, target, properties)));
        self.serve(host, target, &mut served);
        drop(state);
        drop(served);
        let (pool, target) = (Arc::downgrade(self), target.clone());
        tokio::spawn(async move {
            let _ended = task.await;
            if let Some(pool) = pool.upgrade() {
                pool.lost(&target, id);
            }
        });
        own.map(Connection::Http2)
    }

    pub(super) fn stream(
        self: &Arc<Self>,
        entry: &mut Http2,
        target: &Target,
        properties: &RequestProperties,
    ) -> Http2Stream {
        entry.ownership = entry.ownership.after(properties, Multiplexing::Streams);
        if entry.user != properties.owner {
            entry.user = properties.owner;
            entry.live = self.schedulers.h2_opened(target, properties.owner);
            entry.slot.transfer(properties.owner);
        }
        entry.streams += 1;
        Http2Stream {
            sender: entry.sender.clone(),
            has_answered: Arc::clone(&entry.has_answered),
            guard: StreamGuard {
                pool: Arc::clone(self),
                target: target.clone(),
                id: entry.id,
            },
        }
    }

    fn stream_ended(self: &Arc<Self>, target: &Target, id: u64) {
        let mut served = Vec::new();
        let mut state = self.state();
        if let Some(host) = state.hosts.get_mut(target)
            && let Some(index) = host.http2.iter().position(|entry| entry.id == id)
        {
            let entry = &mut host.http2[index];
            entry.streams = entry.streams.saturating_sub(1);
            entry.idle_since = Instant::now();
            if entry.streams == 0 {
                self.serve(host, target, &mut served);
            }
            let entry = &host.http2[index];
            if entry.streams == 0 && self.slots.is_wanted_from(entry.user) {
                host.http2.remove(index);
            }
        }
        drop(state);
        drop(served);
    }

    fn lost(&self, target: &Target, id: u64) {
        if let Some(host) = self.state().hosts.get_mut(target) {
            host.http2.retain(|entry| entry.id != id);
        }
    }
}

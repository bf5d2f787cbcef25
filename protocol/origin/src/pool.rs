//! Connection pool: idle connections and HTTP/2 connections, each with its ownership.
//!
//! A connection serves one device at a time. An HTTP/2 connection that carried nothing private may serve another device
//! afterwards; otherwise the connection belongs to its device permanently ([`Ownership`]). Requests of one device, with and
//! without credentials, therefore use the same connections.
use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper::client::conn::http2;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    connection::{Connection, Http1, Http2Stream, NewConnection, Opened},
    connector::Connector,
    host_connections::{HostConnections, Http2, Waiting},
    host_scheduler::{HostSchedulers, RequestPermit},
    http2_life::{AT_RISK, Http2Life},
    http11_hosts::Http11Hosts,
    owner::{ConnectionOwner, Multiplexing, Ownership, RequestProperties},
    pool_rules::{PoolRules, Sharing},
    shares::{FairShares, Slot},
    target::Target,
    upload::Upload,
};

/// Sweeps of idle connections per idle timeout.
const SWEEPS: u32 = 4;
/// Minimum interval between two sweeps.
const MIN_SWEEP: Duration = Duration::from_millis(100);

/// Idle connections, and all HTTP/2 connections.
pub(crate) struct Pool {
    rules: PoolRules,
    schedulers: Arc<HostSchedulers>,
    slots: Arc<FairShares<ConnectionOwner>>,
    /// Generation of the rules in force: connections of others carry no further request.
    generation: Arc<AtomicU64>,
    http11_hosts: Arc<Http11Hosts>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: HashMap<Target, HostConnections>,
    next: u64,
    is_swept: bool,
}

/// Slot of a stream in its connection, until dropped.
pub(crate) struct StreamGuard {
    pool: Arc<Pool>,
    target: Target,
    id: u64,
}

impl Pool {
    pub(crate) fn new(rules: PoolRules, schedulers: Arc<HostSchedulers>, connector: &Connector) -> Arc<Self> {
        Arc::new(Self {
            rules,
            schedulers,
            slots: Arc::clone(connector.slots()),
            generation: Arc::clone(connector.generation()),
            http11_hosts: Arc::clone(connector.http11_hosts()),
            state: Mutex::default(),
        })
    }

    /// Returns a pooled connection for a request, if any.
    pub(crate) fn take(
        self: &Arc<Self>,
        target: &Target,
        properties: &RequestProperties,
    ) -> Option<Connection> {
        let mut state = self.state();
        let host = state.hosts.get_mut(target)?;
        self.pick(host, target, properties)
    }

    /// Registers a request for the next connection that becomes available.
    pub(crate) fn wait(
        self: &Arc<Self>,
        target: &Target,
        properties: RequestProperties,
    ) -> oneshot::Receiver<Connection> {
        let (found, waiting) = oneshot::channel();
        let mut state = self.state();
        self.sweep(&mut state);
        let host = state.hosts.entry(target.clone()).or_default();
        host.waiting.retain(|waiting| !waiting.found.is_closed());
        host.waiting.push(Waiting { properties, found });
        waiting
    }

    /// Adds a new connection to the pool, and returns it to the request that opened it, if `properties` is set.
    pub(crate) fn opened(
        self: &Arc<Self>,
        target: &Target,
        new: NewConnection,
        owner: ConnectionOwner,
        properties: Option<&RequestProperties>,
    ) -> Option<Connection> {
        let NewConnection {
            opened,
            forwarding,
            life,
            slot,
            generation,
        } = new;
        match opened {
            Opened::Http1(sender, expected) => {
                let mut connection = Http1 {
                    sender,
                    expected,
                    forwarding,
                    ownership: Ownership::Unclaimed,
                    user: owner,
                    has_answered: false,
                    answered_at: Instant::now(),
                    usable_for: None,
                    slot,
                    generation,
                };
                let Some(properties) = properties else {
                    self.put(target, connection);
                    return None;
                };
                connection.ownership = connection.ownership.after(properties, Multiplexing::No);
                Some(Connection::Http1(connection))
            }
            Opened::Http2(sender, task) => self.opened_http2(
                target,
                (sender, task),
                (life, slot, generation),
                owner,
                properties,
            ),
        }
    }

    fn opened_http2(
        self: &Arc<Self>,
        target: &Target,
        (sender, task): (http2::SendRequest<Upload>, JoinHandle<hyper::Result<()>>),
        (life, slot, generation): (Arc<Http2Life>, Arc<Slot<ConnectionOwner>>, u64),
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
            life,
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
            // The streams of the connection receive the error themselves.
            let _ended = task.await;
            if let Some(pool) = pool.upgrade() {
                pool.lost(&target, id);
            }
        });
        own.map(Connection::Http2)
    }

    /// Returns a connection to the pool once the origin is ready for the next request, and only then ends the
    /// previous request's permit, so that the request that gets the permit finds the connection.
    pub(crate) fn give_back(self: &Arc<Self>, target: &Target, mut connection: Http1, permit: RequestPermit) {
        if connection.sender.is_ready() {
            self.put(target, connection);
            return drop(permit);
        }
        // A strong reference would keep the pool alive: the connections close with the last client.
        let (pool, target) = (Arc::downgrade(self), target.clone());
        tokio::spawn(async move {
            if connection.sender.ready().await.is_ok()
                && let Some(pool) = Weak::upgrade(&pool)
            {
                pool.put(&target, connection);
            }
            drop(permit);
        });
    }

    /// Closes the connection that has been idle longest; only among the owner's connections if the owner has
    /// used up its share.
    pub(crate) fn make_room(&self, owner: ConnectionOwner) {
        let share = owner.share();
        let only = self.slots.is_full_for(share).then_some(share);
        let is_meant = |user: ConnectionOwner| only.is_none_or(|only| only == user.share());
        let mut state = self.state();
        let mut oldest: Option<(Instant, &mut HostConnections)> = None;
        for host in state.hosts.values_mut() {
            let Some(since) = host.idle_since(is_meant) else {
                continue;
            };
            if oldest.as_ref().is_none_or(|(found, _)| since < *found) {
                oldest = Some((since, host));
            }
        }
        if let Some((since, host)) = oldest {
            host.close_idle_since(since, is_meant);
        }
    }

    fn put(self: &Arc<Self>, target: &Target, connection: Http1) {
        let is_of_nobody =
            connection.ownership == Ownership::Nobody && self.rules.sharing == Sharing::ByOwnership;
        if is_of_nobody || !self.is_current(connection.generation) {
            return;
        }
        let mut served = Vec::new();
        let mut state = self.state();
        self.sweep(&mut state);
        let host = state.hosts.entry(target.clone()).or_default();
        let (owner, user) = (connection.ownership.owner(), connection.user);
        host.idle.push_back((Instant::now(), connection));
        self.serve(host, target, &mut served);
        let is_alike = |idle: &Http1| idle.ownership.owner() == owner;
        let alike = host.idle.iter().filter(|(_, idle)| is_alike(idle)).count();
        // A request that waits for a slot takes precedence over possible future requests.
        let most = if self.slots.is_wanted_from(user.share()) {
            0
        } else {
            self.rules.idle_per_host
        };
        if alike > most
            && let Some(oldest) = host.idle.iter().position(|(_, idle)| is_alike(idle))
        {
            host.idle.remove(oldest);
        }
        drop(state);
        drop(served);
    }

    /// Hands available connections to waiting requests. Connections whose receiver is gone go to `gone`, to
    /// be dropped without the lock.
    fn serve(self: &Arc<Self>, host: &mut HostConnections, target: &Target, gone: &mut Vec<Connection>) {
        let waiting = std::mem::take(&mut host.waiting);
        for waiting in waiting {
            if waiting.found.is_closed() {
                continue;
            }
            match self.pick(host, target, &waiting.properties) {
                None => host.waiting.push(waiting),
                Some(connection) => gone.extend(waiting.found.send(connection).err()),
            }
        }
    }

    fn pick(
        self: &Arc<Self>,
        host: &mut HostConnections,
        target: &Target,
        properties: &RequestProperties,
    ) -> Option<Connection> {
        let found = host.http2.iter_mut().filter_map(|entry| {
            let preference = self.rules.preference(entry.ownership, properties)?;
            let is_current = self.is_current(entry.generation);
            let is_free =
                entry.streams == 0 || entry.user == properties.owner && entry.streams < self.rules.streams;
            // The owner's own connections first: taking another owner's would make that owner open a new one.
            (is_current && is_free && entry.sender.is_ready())
                .then_some(((entry.user == properties.owner, preference), entry))
        });
        if let Some((_, entry)) = found.max_by_key(|(rank, _)| *rank) {
            return Some(Connection::Http2(self.stream(entry, target, properties)));
        }
        let now = Instant::now();
        host.idle.retain(|(since, idle)| {
            now.saturating_duration_since(*since) < self.rules.idle_limit(idle.usable_for)
                && idle.sender.is_ready()
                && self.is_current(idle.generation)
        });
        let found = host.idle.iter().enumerate();
        let found = found.filter_map(|(index, (_, idle))| {
            let preference = self.rules.preference(idle.ownership, properties)?;
            let age = now.saturating_duration_since(idle.answered_at);
            let is_used = idle.has_answered;
            (self.rules.may_carry(properties, age) && self.rules.permits(properties, is_used))
                .then_some((preference, index))
        });
        let (_, index) = found.max()?;
        let (_, mut connection) = host.idle.remove(index)?;
        connection.ownership = connection.ownership.after(properties, Multiplexing::No);
        connection.user = properties.owner;
        connection.slot.transfer(properties.owner.share());
        Some(Connection::Http1(connection))
    }

    /// True if a connection was opened by the rules in force.
    fn is_current(&self, generation: u64) -> bool {
        generation == self.generation.load(Relaxed)
    }

    fn stream(
        self: &Arc<Self>,
        entry: &mut Http2,
        target: &Target,
        properties: &RequestProperties,
    ) -> Http2Stream {
        entry.ownership = entry.ownership.after(properties, Multiplexing::Streams);
        if entry.user != properties.owner {
            entry.user = properties.owner;
            entry.live = self.schedulers.h2_opened(target, properties.owner);
            entry.slot.transfer(properties.owner.share());
        }
        let is_at_risk =
            entry.streams == 0 && entry.life.has_answered() && entry.idle_since.elapsed() >= AT_RISK;
        entry.streams += 1;
        Http2Stream {
            sender: entry.sender.clone(),
            life: Arc::clone(&entry.life),
            is_at_risk,
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
            if entry.streams == 0 && self.slots.is_wanted_from(entry.user.share()) {
                host.http2.remove(index);
            }
        }
        drop(state);
        drop(served);
    }

    /// Sends all further requests to a host over HTTP/1.1. Its HTTP/2 connections end with their last stream.
    pub(crate) fn use_http11(&self, target: &Target) {
        self.http11_hosts.remember(target);
        if let Some(host) = self.state().hosts.get_mut(target) {
            host.http2.clear();
        }
    }

    fn lost(&self, target: &Target, id: u64) {
        if let Some(host) = self.state().hosts.get_mut(target) {
            host.http2.retain(|entry| entry.id != id);
        }
    }

    /// Starts the task that closes idle connections after their timeout.
    fn sweep(self: &Arc<Self>, state: &mut State) {
        if std::mem::replace(&mut state.is_swept, true) {
            return;
        }
        let (pool, idle) = (Arc::downgrade(self), self.rules.idle);
        tokio::spawn(async move {
            loop {
                sleep((idle / SWEEPS).max(MIN_SWEEP)).await;
                let Some(pool) = pool.upgrade() else { return };
                if pool.close_old() {
                    return;
                }
            }
        });
    }

    /// Closes expired connections; returns true if the pool is empty.
    fn close_old(&self) -> bool {
        let mut state = self.state();
        state.hosts.retain(|_, host| {
            host.close_expired(&self.rules);
            !host.is_empty()
        });
        state.is_swept = !state.hosts.is_empty();
        !state.is_swept
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The guarded state is consistent between any two statements.
        self.state.lock()
    }
}

impl StreamGuard {
    /// Removes the connection from the pool: it ends with its last stream.
    pub(crate) fn retire(&self) {
        self.pool.lost(&self.target, self.id);
    }

    /// Sends all further requests to the host over HTTP/1.1.
    pub(crate) fn use_http11(&self) {
        self.pool.use_http11(&self.target);
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.pool.stream_ended(&self.target, self.id);
    }
}

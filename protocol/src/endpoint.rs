//! Handshakes, and routing of datagrams to sessions (transport.md section 3).
//!
//! An [`Endpoint`] is the state behind one UDP socket and any number of links of other carriers, for either
//! role. It does no I/O: the driver passes datagrams and the time to it, and polls it for datagrams, events and the time of its next timer. A driver
//! repeats these steps: [`Endpoint::handle_datagram`] for all datagrams that arrived;
//! [`Endpoint::handle_timeout`]; [`Endpoint::poll_event`] until `None` (with the user's reactions) and
//! [`Endpoint::poll_transmit`] until `None`, again while either returned something; then sleep until
//! [`Endpoint::poll_timeout`].
mod admission;
mod agent;
mod config;
mod early_packets;
mod event;
mod gateway;
mod links;
mod race;
mod rate_limit;
mod receive;
mod resp_cache;
mod session;
mod stateless;
mod transmit;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use longhaul_types::{PublicKey, SecretKey, Timestamp, UnixTime};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use zeroize::Zeroizing;

use self::{agent::AgentRole, gateway::GatewayRole, links::Links, session::Session};
pub use self::{
    config::{AgentEndpointConfig, ConnectError, ConnectTo, DeviceStatus, GatewayEndpointConfig},
    event::{CloseReason, EndpointCounters, Event},
    race::MAX_ADDRESSES,
    transmit::Transmit,
};
use crate::{
    connection::{Connection, State, TransportConfig},
    path::Path,
    wire::init::TOKEN_LEN,
};

/// Handle of a session of an endpoint. Handles are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(u64);

enum Role {
    Agent(AgentRole),
    Gateway(Box<GatewayRole>),
}

/// State behind one UDP socket.
pub struct Endpoint {
    role: Role,
    secret: SecretKey,
    transport: TransportConfig,
    unix_at_zero: UnixTime,
    rng: ChaCha20Rng,
    /// Boxed, because a node of the tree is half empty on average.
    sessions: BTreeMap<ConnectionHandle, Box<Session>>,
    next_handle: u64,
    /// Sessions that may have output or events, each once, served in turn.
    ready: VecDeque<ConnectionHandle>,
    /// Timers of the other sessions.
    timers: BTreeSet<(Timestamp, ConnectionHandle)>,
    answers: VecDeque<(Path, Vec<u8>)>,
    links: Links,
    events: VecDeque<(ConnectionHandle, Event)>,
    counters: EndpointCounters,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("sessions", &self.sessions.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Creates the endpoint of an agent. `unix_at_zero` is the wall-clock time at `Timestamp::ZERO`; `seed`
    /// is 32 bytes of cryptographic randomness, from which all keys of the handshakes are derived.
    pub fn agent(config: AgentEndpointConfig, unix_at_zero: UnixTime, seed: [u8; 32]) -> Self {
        let rng = ChaCha20Rng::from_seed(seed);
        Self::new(
            Role::Agent(AgentRole::default()),
            config.secret,
            config.transport,
            unix_at_zero,
            rng,
        )
    }

    /// Creates the endpoint of a gateway; `unix_at_zero` and `seed` are those of [`Endpoint::agent`]. The
    /// endpoint knows no device before [`Endpoint::set_devices`].
    pub fn gateway(config: GatewayEndpointConfig, unix_at_zero: UnixTime, seed: [u8; 32]) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut hash_key = [0; 32];
        rng.fill_bytes(&mut hash_key);
        let role = GatewayRole::new(&config, hash_key);
        Self::new(
            Role::Gateway(Box::new(role)),
            config.secret,
            config.transport,
            unix_at_zero,
            rng,
        )
    }

    fn new(
        role: Role,
        secret: SecretKey,
        transport: TransportConfig,
        unix_at_zero: UnixTime,
        rng: ChaCha20Rng,
    ) -> Self {
        Self {
            role,
            secret,
            transport,
            unix_at_zero,
            rng,
            sessions: BTreeMap::new(),
            next_handle: 0,
            ready: VecDeque::new(),
            timers: BTreeSet::new(),
            answers: VecDeque::new(),
            links: Links::default(),
            events: VecDeque::new(),
            counters: EndpointCounters::default(),
        }
    }

    /// Public key of this endpoint.
    pub fn public_key(&self) -> PublicKey {
        self.secret.public()
    }

    /// Runs the expired timers.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        let mut due: Vec<ConnectionHandle> = self.ready.iter().copied().collect();
        while let Some((at, handle)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, handle));
                break;
            }
            due.push(handle);
        }
        for handle in due {
            let Some(session) = self.sessions.get_mut(&handle) else {
                continue;
            };
            if session.has_expired(now) {
                self.counters.half_open_dropped += 1;
                self.drop_session(handle, Some(CloseReason::TimedOut));
                continue;
            }
            if session.is_started() && session.connection.poll_timeout().is_some_and(|at| at <= now) {
                session.connection.handle_timeout(now);
            }
            self.touch(handle);
        }
    }

    /// Time of the next call of [`Endpoint::handle_timeout`], if nothing is left to transmit.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let ready = self
            .ready
            .iter()
            .filter_map(|handle| self.sessions.get(handle)?.timeout());
        let first = self.timers.first().map(|(at, _)| *at);
        ready.chain(first).min()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<(ConnectionHandle, Event)> {
        for handle in &self.ready {
            if !self.events.is_empty() {
                break;
            }
            if let Some(session) = self.sessions.get_mut(handle) {
                let next = std::iter::from_fn(|| session.connection.poll_event());
                self.events.extend(next.map(|event| (*handle, event)));
            }
        }
        self.events.pop_front()
    }

    /// Returns a session for the use of its streams; `None` after its end.
    pub fn connection(&mut self, handle: ConnectionHandle) -> Option<&mut Connection> {
        self.touch(handle);
        Some(&mut self.sessions.get_mut(&handle)?.connection)
    }

    /// Returns a session for reading. Unlike [`Endpoint::connection`], the call does not schedule the
    /// session.
    pub fn peek(&self, handle: ConnectionHandle) -> Option<&Connection> {
        Some(&self.sessions.get(&handle)?.connection)
    }

    /// Handles of all sessions.
    pub fn handles(&self) -> impl Iterator<Item = ConnectionHandle> + '_ {
        self.sessions.keys().copied()
    }

    /// Counters since the creation of the endpoint.
    pub const fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Schedules a session, which may have output or events.
    fn touch(&mut self, handle: ConnectionHandle) {
        let Some(session) = self.sessions.get_mut(&handle) else {
            return;
        };
        if let Some(at) = session.timer.take() {
            self.timers.remove(&(at, handle));
        }
        if !std::mem::replace(&mut session.ready, true) {
            self.ready.push_back(handle);
        }
    }

    /// Removes a session without output from the queue until its timer expires.
    fn settle(&mut self, handle: ConnectionHandle) {
        let Some(session) = self.sessions.get_mut(&handle) else {
            return;
        };
        let next = std::iter::from_fn(|| session.connection.poll_event());
        self.events.extend(next.map(|event| (handle, event)));
        if session.connection.is_drained() {
            self.drop_session(handle, None);
            return;
        }
        session.ready = false;
        session.connection.settle_timers();
        session.timer = session.timeout();
        if let Some(at) = session.timer {
            self.timers.insert((at, handle));
        }
    }

    fn insert(&mut self, session: Session) -> ConnectionHandle {
        let handle = ConnectionHandle(self.next_handle);
        self.next_handle += 1;
        self.sessions.insert(handle, Box::new(session));
        self.touch(handle);
        handle
    }

    /// Removes a session; with a reason, the user gets an event.
    fn drop_session(&mut self, handle: ConnectionHandle, reason: Option<CloseReason>) {
        let Some(mut session) = self.sessions.remove(&handle) else {
            return;
        };
        if let Some(at) = session.timer {
            self.timers.remove(&(at, handle));
        }
        self.links.forget(handle);
        if session.ready {
            self.ready.retain(|ready| *ready != handle);
        }
        match &mut self.role {
            Role::Agent(agent) => agent.forget(handle),
            Role::Gateway(gateway) => gateway.forget(handle, &session),
        }
        // A user that has received the end of the session gets no second event.
        if let Some(reason) = reason.filter(|_| session.connection.state() != State::Closed) {
            let next = std::iter::from_fn(|| session.connection.poll_event());
            self.events.extend(next.map(|event| (handle, event)));
            self.events.push_back((handle, Event::Closed(reason)));
        }
    }

    fn seed(&mut self) -> Zeroizing<[u8; 32]> {
        let mut seed = Zeroizing::new([0; 32]);
        self.rng.fill_bytes(&mut *seed);
        seed
    }

    fn unix(&self, now: Timestamp) -> UnixTime {
        self.unix_at_zero + now.saturating_since(Timestamp::ZERO)
    }
}

/// Bytes of a token.
type Token = [u8; TOKEN_LEN];

#[cfg(test)]
mod tests;

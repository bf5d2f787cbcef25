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
mod resp_cache;
mod session;
mod stateless;

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
};
use crate::{
    connection::{Connection, State, TransportConfig},
    path::Path,
    wire::{IndexLength, KeySpace, PacketKind, ShortHeader, init::TOKEN_LEN},
};

/// Handle of a session of an endpoint. Handles are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionHandle(u64);

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Path on which to send it.
    pub remote: Path,
    /// Length in the buffer.
    pub len: usize,
    /// Session that sends the datagram; `None` for stateless answers.
    pub session: Option<ConnectionHandle>,
}

/// Maximum number of queued stateless answers: enough for one turn of a busy driver. When the queue is full,
/// a datagram is not answered, and its sender repeats it.
const MAX_ANSWERS: usize = 256;

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

    /// Processes a datagram, or a packet of a link, that arrived on the path `remote`. It affects only its own
    /// session, and only if it authenticates.
    pub fn handle_datagram(&mut self, now: Timestamp, remote: impl Into<Path>, datagram: &mut [u8]) {
        let remote = remote.into();
        self.counters.received += 1;
        if self.links.address(remote).is_none() {
            self.counters.unexpected += 1;
            return;
        }
        let gateway = matches!(self.role, Role::Gateway(_));
        match (PacketKind::classify(datagram), gateway) {
            (Some(PacketKind::Short), _) => self.handle_short(now, remote, datagram),
            (Some(PacketKind::Init), true) => self.handle_init(now, remote, datagram),
            (Some(PacketKind::Resp), false) => self.handle_resp(now, remote, datagram),
            (Some(PacketKind::Versions), false) => self.handle_versions(remote, datagram),
            (Some(PacketKind::Reset), false) => self.handle_reset(datagram),
            (
                Some(PacketKind::Init | PacketKind::Resp | PacketKind::Versions | PacketKind::Reset) | None,
                _,
            ) => {
                self.counters.malformed += 1;
            }
        }
    }

    fn handle_short(&mut self, now: Timestamp, remote: Path, datagram: &mut [u8]) {
        let index_length = match self.role {
            Role::Agent(_) => IndexLength::Agent,
            Role::Gateway(_) => IndexLength::Gateway,
        };
        let Ok((header, header_len)) = ShortHeader::parse(datagram, index_length) else {
            self.counters.malformed += 1;
            return;
        };
        let handle = match &self.role {
            Role::Agent(agent) => agent.session_of(header),
            Role::Gateway(gateway) => gateway.session_of(header),
        };
        let Some((handle, session)) =
            handle.and_then(|handle| Some((handle, self.sessions.get_mut(&handle)?)))
        else {
            self.counters.unknown_session += 1;
            if header.keys == KeySpace::Full {
                self.answer_with_reset(now, remote, header.index);
            }
            return;
        };
        if !session.takes_short_packets() {
            if !session.keep_ahead(now, remote, datagram) {
                self.counters.unexpected += 1;
            }
            self.touch(handle);
            return;
        }
        session
            .connection
            .handle_short(now, remote, header, header_len, datagram);
        let used = session.connection.path();
        self.links.attach(used, handle);
        self.confirm(now, handle);
        self.renew_token(now, handle);
        self.touch(handle);
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

    /// Clears `buf` and writes the next datagram to send now into it.
    pub fn poll_transmit(&mut self, now: Timestamp, buf: &mut Vec<u8>) -> Option<Transmit> {
        buf.clear();
        if let Some((remote, answer)) = self.answers.pop_front() {
            buf.extend_from_slice(&answer);
            return Some(Transmit {
                remote,
                len: buf.len(),
                session: None,
            });
        }
        while let Some(&handle) = self.ready.front() {
            self.ready.pop_front();
            if let Some(remote) = self.session_transmit(now, handle, buf) {
                self.ready.push_back(handle);
                return Some(Transmit {
                    remote,
                    len: buf.len(),
                    session: Some(handle),
                });
            }
            buf.clear();
            self.settle(handle);
        }
        None
    }

    /// Like [`Endpoint::poll_transmit`], for one session only. A driver uses it to gather several datagrams
    /// for one peer, which are cheaper to send together.
    pub fn poll_transmit_of(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        buf: &mut Vec<u8>,
    ) -> Option<Transmit> {
        buf.clear();
        let remote = self.session_transmit(now, handle, buf)?;
        Some(Transmit {
            remote,
            len: buf.len(),
            session: Some(handle),
        })
    }

    fn session_transmit(
        &mut self,
        now: Timestamp,
        handle: ConnectionHandle,
        buf: &mut Vec<u8>,
    ) -> Option<Path> {
        self.write_init(now, handle, buf);
        let session = self.sessions.get_mut(&handle)?;
        if !buf.is_empty() {
            session.connection.count_handshake_sent(buf.len());
            return session.init_sent(now);
        }
        if !session.is_started() {
            return None;
        }
        let path = session.connection.path();
        let blocked = self.links.is_blocked(path);
        session.connection.set_blocked(blocked);
        if let Some(payload) = self.links.payload(path) {
            session.connection.set_link_payload(payload);
        }
        if blocked {
            return session.connection.transmit_probing(now, buf);
        }
        let resp_to = session.take_resp(buf);
        let resp_len = buf.len();
        if resp_to.is_some_and(|to| to != session.connection.path()) {
            // The session has moved since the INIT: the RESP goes where the INIT came from, and does not count for the
            // amplification limit of the new address.
            session.connection.count_handshake_sent(resp_len);
            return resp_to;
        }
        let remote = session.connection.poll_transmit(now, buf).or(resp_to);
        if resp_to.is_some() && buf.len() == resp_len {
            session.connection.count_handshake_sent(resp_len);
        } else {
            session.connection.count_resp_sent_ahead(resp_len);
        }
        remote
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

    fn answer(&mut self, remote: Path, datagram: Vec<u8>) {
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((remote, datagram));
        } else {
            self.counters.rate_limited += 1;
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

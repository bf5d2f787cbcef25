//! Agent side of the handshake.
mod init;

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use longhaul_types::{Timestamp, UnixTime};
use rand_core::Rng;

use super::{
    CloseReason, ConnectError, ConnectTo, ConnectionHandle, Endpoint, Event, Role,
    race::MAX_ADDRESSES,
    session::{Created, Phase, Session},
};
use crate::{
    connection::{Connection, State},
    crypto::reset,
    path::Path,
    wire::{
        KeySpace, ReceiverIndex, Reset, Resp, RespPayload, ShortHeader, VERSION, Versions, resp::RespError,
    },
};

#[derive(Default)]
pub(super) struct AgentRole {
    indices: BTreeMap<u8, ConnectionHandle>,
    last_stamp: UnixTime,
}

impl AgentRole {
    pub(super) fn session_of(&self, header: ShortHeader) -> Option<ConnectionHandle> {
        match (header.index, header.keys) {
            (ReceiverIndex::Agent(index), KeySpace::Full) => self.indices.get(&index).copied(),
            // A gateway sends no early data.
            (ReceiverIndex::Agent(_), KeySpace::Early) | (ReceiverIndex::Gateway(_), _) => None,
        }
    }

    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        self.indices.retain(|_, of| *of != handle);
    }
}

impl Endpoint {
    /// Creates a session (agent). Nothing is sent before [`Endpoint::start`], so that the user can open and
    /// fill streams for the first datagram.
    ///
    /// # Errors
    /// There are 256 sessions already, or this is a gateway's endpoint.
    pub fn connect(&mut self, now: Timestamp, mut to: ConnectTo) -> Result<ConnectionHandle, ConnectError> {
        let random = self.rng.next_u32().to_be_bytes()[0];
        let Role::Agent(agent) = &mut self.role else {
            return Err(ConnectError::NotAnAgent);
        };
        // A random index: after a restart, packets of an old session find no session instead of a wrong one.
        let free = (0..=u8::MAX).map(|step| random.wrapping_add(step));
        let mut free = free.filter(|index| !agent.indices.contains_key(index));
        let agent_index = free.next().ok_or(ConnectError::TooManySessions)?;
        agent.last_stamp = agent.last_stamp.max(to.last_stamp.unwrap_or_default());
        to.profile = to.profile.or(self.transport.profile);
        let (remote, profile) = (to.remote, to.profile);
        let created = Box::new(Created {
            to,
            agent_index,
            seed: self.seed(),
            started: false,
            others: Vec::new(),
            delay: Duration::ZERO,
            fits_links: false,
        });
        let early = created.early_key(&self.secret);
        let connection = Connection::agent(&self.transport, early, remote, profile, now);
        let handle = self.insert(Session::new(connection, Phase::Created(created)));
        if let Role::Agent(agent) = &mut self.role {
            agent.indices.insert(agent_index, handle);
        }
        self.links.attach(remote, handle);
        Ok(handle)
    }

    /// Adds addresses of the gateway to a session that has not started (agent). The INIT is also sent to them, in
    /// their order and `delay` apart, until one of the addresses has answered; the session continues with that one.
    /// At most [`MAX_ADDRESSES`] in all are used. Data that does not fit the INIT is sent to the first address.
    pub fn race(&mut self, handle: ConnectionHandle, others: &[SocketAddr], delay: Duration) {
        if let Some(Session {
            phase: Phase::Created(created),
            ..
        }) = self.sessions.get_mut(&handle).map(Box::as_mut)
        {
            created.others = others.iter().copied().take(MAX_ADDRESSES).collect();
            created.delay = delay;
        }
    }

    /// Lets the INIT of a session that has not started fit every link (agent): a link that takes only small packets may
    /// get it later ([`Endpoint::add_path`]), and all paths get the same bytes.
    pub fn fit_init_to_links(&mut self, handle: ConnectionHandle) {
        if let Some(Session {
            phase: Phase::Created(created),
            ..
        }) = self.sessions.get_mut(&handle).map(Box::as_mut)
        {
            created.fits_links = true;
        }
    }

    /// Sends the INIT of a session that waits for its RESP also over `path` (agent). The INIT is the same, so
    /// that the gateway opens one session, and the first RESP selects the path. Returns false if the session
    /// does not wait or has too many paths.
    pub fn add_path(&mut self, now: Timestamp, handle: ConnectionHandle, path: Path) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else {
            return false;
        };
        if !session.add_candidate(now, path) || !self.links.attach(path, handle) {
            return false;
        }
        self.touch(handle);
        true
    }

    /// Sends the packets of a session from now on over `path` (agent), as after a network change (transport.md
    /// section 7.1). Returns false if the session or the link has ended.
    pub fn change_path(&mut self, now: Timestamp, handle: ConnectionHandle, path: Path) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else {
            return false;
        };
        if !self.links.attach(path, handle) {
            return false;
        }
        session.connection.change_path(now, path);
        self.touch(handle);
        true
    }

    /// Finds out whether `path` carries packets of an open session, while the session goes on over its own path (agent,
    /// transport.md section 7.7): whether it answers this number of challenges, one after the other.
    /// [`Event::PathProbed`] has the result. Returns false if the session has ended.
    pub fn probe_path(&mut self, handle: ConnectionHandle, path: Path, challenges: usize) -> bool {
        let Some(session) = self.sessions.get_mut(&handle) else {
            return false;
        };
        session.connection.probe_path(path, challenges);
        self.touch(handle);
        true
    }

    /// Starts a session (agent): the next [`Endpoint::poll_transmit`] returns its INIT, with the data that
    /// its streams contain by then.
    pub fn start(&mut self, handle: ConnectionHandle) {
        if let Some(Session {
            phase: Phase::Created(created),
            ..
        }) = self.sessions.get_mut(&handle).map(Box::as_mut)
        {
            created.started = true;
        }
        self.touch(handle);
    }

    /// Drops a session without informing the gateway (agent), for instance if its INIT is not answered.
    pub fn abandon(&mut self, handle: ConnectionHandle) {
        self.drop_session(handle, Some(CloseReason::TimedOut));
    }

    /// Stamp of the newest INIT (agent), to be stored on disk for [`ConnectTo::last_stamp`].
    pub fn last_stamp(&self) -> Option<UnixTime> {
        match &self.role {
            Role::Agent(agent) => Some(agent.last_stamp).filter(|stamp| *stamp > UnixTime::default()),
            Role::Gateway(_) => None,
        }
    }

    pub(super) fn handle_resp(&mut self, now: Timestamp, remote: Path, datagram: &mut [u8]) {
        let datagram_len = datagram.len();
        let Ok((resp, resp_len)) = Resp::parse(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        let Some((handle, session)) = self.session_at(resp.agent_index) else {
            self.counters.unknown_session += 1;
            return;
        };
        if let Phase::Waiting(waiting) = &mut session.phase {
            if !waiting.race.includes(remote) {
                self.counters.unexpected += 1;
                return;
            }
            let Ok((payload, keys)) = waiting.initiator.finish(resp.noise) else {
                self.counters.bad_handshake += 1;
                return;
            };
            let datagrams = u64::from(resp_len == datagram_len);
            session.connection.count_handshake_received(resp_len, datagrams);
            let decoded = RespPayload::decode(&payload);
            match decoded {
                Ok(RespPayload::Accepted(acceptance)) => {
                    let ahead = std::mem::take(&mut waiting.ahead);
                    session.phase = Phase::Open {
                        reset_tag: acceptance.reset_tag,
                    };
                    let early = acceptance.early;
                    let index = acceptance.gateway_index;
                    // The session's time begins with the first buffered packet, because the time of a
                    // connection never decreases.
                    let open_since = ahead.since().unwrap_or(now);
                    let parameters = acceptance.parameters;
                    session.connection.choose_path(open_since, remote);
                    session
                        .connection
                        .handshake_done(open_since, keys, index, parameters, early);
                    let is_first = ahead.since().is_none();
                    session
                        .connection
                        .measure_from_resp(open_since, &parameters, early, is_first);
                    self.touch(handle);
                    self.events.push_back((handle, Event::Connected { early }));
                    self.events.push_back((handle, Event::Token(acceptance.token)));
                    let overflowed = ahead.has_overflowed();
                    for mut packet in ahead.into_packets() {
                        self.handle_short(packet.at, remote, &mut packet.datagram);
                    }
                    if overflowed && let Some(connection) = self.connection(handle) {
                        connection.dropped_packets();
                    }
                }
                Ok(RespPayload::Refused(refusal)) => {
                    self.drop_session(handle, Some(CloseReason::Refused(refusal)));
                    return;
                }
                Err(error) => {
                    self.drop_session(handle, Some(violation(&error)));
                    return;
                }
            }
        } else {
            self.counters.unexpected += 1;
        }
        if resp_len < datagram.len() {
            self.handle_short(now, remote, &mut datagram[resp_len..]);
        }
    }

    pub(super) fn handle_versions(&mut self, remote: Path, datagram: &[u8]) {
        let Ok(versions) = Versions::parse(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        let Some((handle, session)) = self.session_at(versions.agent_index) else {
            self.counters.unknown_session += 1;
            return;
        };
        let waiting = matches!(&session.phase, Phase::Waiting(waiting) if waiting.race.includes(remote));
        if waiting && !versions.versions.contains(&VERSION) {
            let theirs = versions.versions.to_vec();
            self.drop_session(handle, Some(CloseReason::VersionMismatch(theirs)));
        } else {
            self.counters.unexpected += 1;
        }
    }

    pub(super) fn handle_reset(&mut self, datagram: &[u8]) {
        let Ok(received) = Reset::parse(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        let mut sessions = self.sessions.iter();
        let of_tag = sessions.find_map(|(handle, session)| match &session.phase {
            // A session that was closed locally has reported its reason; the gateway only dropped it earlier.
            Phase::Open { reset_tag } if session.connection.state() != State::Closed => {
                reset::matches(reset_tag, &received.tag).then_some(*handle)
            }
            Phase::Created(_) | Phase::Waiting(_) | Phase::Open { .. } | Phase::Gateway(_) => None,
        });
        match of_tag {
            Some(handle) => self.drop_session(handle, Some(CloseReason::Reset)),
            None => self.counters.bad_handshake += 1,
        }
    }

    fn session_at(&mut self, agent_index: u8) -> Option<(ConnectionHandle, &mut Session)> {
        let Role::Agent(agent) = &self.role else {
            return None;
        };
        let handle = *agent.indices.get(&agent_index)?;
        Some((handle, self.sessions.get_mut(&handle)?))
    }
}

/// Close reason for a RESP that authenticates but is malformed.
fn violation(error: &RespError) -> CloseReason {
    CloseReason::PeerViolation {
        error: 2,
        reason: error.to_string(),
    }
}

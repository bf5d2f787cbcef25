//! Links of carriers: their peers, the sessions that use them, and whether they accept packets
//! (transport.md section 8).
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use super::{ConnectionHandle, Endpoint};
use crate::path::{LEAST_LINK_PAYLOAD, LinkId, Path, PathClass};

/// Maximum number of sessions that are woken when their link accepts packets. A link carries one session, and
/// two for a moment when an agent opens a new one; more come from a peer that opens many on one link.
const MAX_SESSIONS: usize = 8;

struct LinkState {
    /// Address of the peer, to which the rate limits apply.
    peer: SocketAddr,
    writable: bool,
    /// Largest packet that the link takes at present, if its carrier has told it.
    payload: Option<usize>,
    /// Sessions that have used the link, at most [`MAX_SESSIONS`].
    sessions: BTreeSet<ConnectionHandle>,
}

/// Links of an endpoint; the driver bounds their number.
#[derive(Default)]
pub(super) struct Links(BTreeMap<LinkId, LinkState>);

impl Links {
    /// Returns the address to which rate limits of a path apply; `None` for a link that has ended.
    pub(super) fn address(&self, path: Path) -> Option<SocketAddr> {
        match path {
            Path::Udp(path) => Some(path.remote),
            Path::Link(link) => Some(self.0.get(&link)?.peer),
        }
    }

    /// Returns true if the path accepts no packet: its link is full or has ended.
    pub(super) fn is_blocked(&self, path: Path) -> bool {
        match path {
            Path::Udp(_) => false,
            Path::Link(link) => self.0.get(&link).is_none_or(|link| !link.writable),
        }
    }

    /// Returns the largest packet that a link takes, if its carrier has told it.
    pub(super) fn payload(&self, path: Path) -> Option<usize> {
        match path {
            Path::Udp(_) => None,
            Path::Link(link) => self.0.get(&link)?.payload,
        }
    }

    /// Records that a session uses a path. Returns false if the link has ended or has too many sessions.
    pub(super) fn attach(&mut self, path: Path, handle: ConnectionHandle) -> bool {
        let Path::Link(link) = path else { return true };
        let Some(link) = self.0.get_mut(&link) else {
            return false;
        };
        link.sessions.contains(&handle) || link.sessions.len() < MAX_SESSIONS && link.sessions.insert(handle)
    }

    /// Removes a session that has ended.
    pub(super) fn forget(&mut self, handle: ConnectionHandle) {
        for link in self.0.values_mut() {
            link.sessions.remove(&handle);
        }
    }
}

impl Endpoint {
    /// Adds a link with a peer at `peer`, which is `writable` or not. Packets of links that were not added are
    /// dropped.
    pub fn open_link(&mut self, link: LinkId, peer: SocketAddr, writable: bool) {
        let state = LinkState {
            peer,
            writable,
            payload: None,
            sessions: BTreeSet::new(),
        };
        self.links.0.entry(link).or_insert(state);
    }

    /// Removes a link that has ended. Its sessions continue on another path: an agent's driver selects it, and
    /// a gateway waits for a packet of the agent.
    pub fn close_link(&mut self, link: LinkId) {
        let Some(state) = self.links.0.remove(&link) else {
            return;
        };
        for handle in state.sessions {
            if let Some(session) = self.sessions.get_mut(&handle) {
                session.remove_candidate(Path::Link(link));
            }
            self.touch(handle);
        }
    }

    /// Sets whether a link accepts packets. While it does not, its sessions build none.
    pub fn set_link_writable(&mut self, link: LinkId, writable: bool) {
        let Some(state) = self.links.0.get_mut(&link) else {
            return;
        };
        if std::mem::replace(&mut state.writable, writable) == writable {
            return;
        }
        let sessions: Vec<ConnectionHandle> = state.sessions.iter().copied().collect();
        for handle in sessions {
            self.touch(handle);
        }
    }

    /// Sets the largest packet that a link of the class [`PathClass::Datagram`] takes at present; until then,
    /// [`LEAST_LINK_PAYLOAD`] counts.
    pub fn set_link_payload(&mut self, link: LinkId, payload: usize) {
        if let Some(state) = self.links.0.get_mut(&link)
            && link.class() == PathClass::Datagram
        {
            state.payload = Some(payload.max(LEAST_LINK_PAYLOAD));
        }
    }

    /// Returns true if a session sends over the link, or may do so when its handshake is complete.
    pub fn is_link_used(&self, link: LinkId) -> bool {
        self.links.0.get(&link).is_some_and(|state| {
            let mut sessions = state
                .sessions
                .iter()
                .filter_map(|handle| self.sessions.get(handle));
            sessions.any(|session| session.uses(Path::Link(link)))
        })
    }
}

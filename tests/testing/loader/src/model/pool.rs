//! Assignment of requests to connections, and opening of connections: a browser's rules without its sockets.
//!
//! Requests are sent in the order of discovery, whatever their kind: browsers of the time had no priorities.
//! A request takes the first connection that is available for it, even if another one was being opened
//! because of it, as in browsers that are careful with slow links.
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    dial::{Origin, Peer},
    options::Rules,
};

/// The next action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Send a request.
    Send { request: usize, connection: u64 },
    /// Open a connection.
    Open { connection: u64, peer: Peer },
    /// Close an idle connection.
    Close { connection: u64 },
}

/// Requests lost with a connection, in the order of sending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    /// The request whose response was next, and which may have caused the loss.
    pub(super) first: Option<usize>,
    /// The later requests, which are queued again.
    pub(super) behind: Vec<usize>,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    ready: bool,
    /// Unanswered requests, oldest first.
    outstanding: VecDeque<usize>,
    answered: u64,
}

/// The connections, and the requests that wait for one.
#[derive(Debug)]
pub(super) struct Pool {
    rules: Rules,
    proxied: bool,
    /// Requests that are not sent, by number, which is the order of discovery.
    queue: BTreeMap<usize, Origin>,
    /// Requests that are sent and not answered.
    under_way: BTreeMap<usize, Origin>,
    connections: BTreeMap<u64, Connection>,
    opened: u64,
    /// Peers that answered a request on a persistent connection.
    persistent: BTreeSet<Peer>,
    /// Peers that closed a connection with several requests on it without any response.
    dropping: BTreeSet<Peer>,
    /// Peers to which a connection failed while another one existed: no further one is opened.
    satisfied: BTreeSet<Peer>,
}

impl Pool {
    pub(super) fn new(rules: Rules, proxied: bool) -> Self {
        Self {
            rules,
            proxied,
            queue: BTreeMap::new(),
            under_way: BTreeMap::new(),
            connections: BTreeMap::new(),
            opened: 0,
            persistent: BTreeSet::new(),
            dropping: BTreeSet::new(),
            satisfied: BTreeSet::new(),
        }
    }

    /// Queues a request.
    pub(super) fn enqueue(&mut self, request: usize, origin: Origin) {
        self.queue.insert(request, origin);
    }

    /// Queues a sent request again.
    pub(super) fn enqueue_again(&mut self, request: usize) {
        if let Some(origin) = self.under_way.remove(&request) {
            self.queue.insert(request, origin);
        }
    }

    /// Removes a sent request that will not be answered.
    pub(super) fn give_up(&mut self, request: usize) {
        self.under_way.remove(&request);
    }

    /// Returns true if no request is queued or sent.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.under_way.is_empty()
    }

    /// Returns the request whose response is next on `connection`.
    pub(super) fn current(&self, connection: u64) -> Option<usize> {
        self.connections.get(&connection)?.outstanding.front().copied()
    }

    /// Returns true if `connection` is open or being opened.
    pub(super) fn has(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Marks a connection as usable.
    pub(super) fn ready(&mut self, connection: u64) {
        if let Some(connection) = self.connections.get_mut(&connection) {
            connection.ready = true;
        }
    }

    /// Records the response to the oldest request on a connection. The connection is kept only if both sides
    /// allow it.
    pub(super) fn answered(&mut self, number: u64, keep_alive: bool) -> Lost {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Lost::default();
        };
        connection.answered += 1;
        if let Some(request) = connection.outstanding.pop_front() {
            self.under_way.remove(&request);
        }
        if keep_alive && self.rules != Rules::Http10 {
            self.persistent.insert(connection.peer.clone());
            return Lost::default();
        }
        let behind = self.remove(number);
        Lost { first: None, behind }
    }

    /// Records the close of a connection.
    pub(super) fn closed(&mut self, number: u64) -> Lost {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Lost::default();
        };
        let first = connection.outstanding.pop_front();
        if connection.answered == 0 && !connection.outstanding.is_empty() {
            self.dropping.insert(connection.peer.clone());
        }
        let behind = self.remove(number);
        Lost { first, behind }
    }

    /// Records a connection that could not be opened. Returns the queued requests without another connection:
    /// they will not be sent.
    pub(super) fn unreachable(&mut self, number: u64) -> Vec<usize> {
        let Some(Connection { peer, .. }) = self.connections.remove(&number) else {
            return Vec::new();
        };
        if self.connections.values().any(|other| other.peer == peer) {
            self.satisfied.insert(peer);
            return Vec::new();
        }
        let proxied = self.proxied;
        let doomed = self
            .queue
            .iter()
            .filter(|(_, origin)| peer_of(proxied, origin) == peer);
        let doomed: Vec<usize> = doomed.map(|(request, _)| *request).collect();
        self.queue.retain(|request, _| !doomed.contains(request));
        doomed
    }

    /// Returns the actions for the current state. Call it after each change.
    pub(super) fn actions(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        // Number of requests for which a connection is being opened, by peer and by origin.
        let mut expecting: BTreeMap<Peer, usize> = BTreeMap::new();
        let mut expected: BTreeMap<Origin, usize> = BTreeMap::new();
        let queue: Vec<(usize, Origin)> = self
            .queue
            .iter()
            .map(|(id, origin)| (*id, origin.clone()))
            .collect();
        for (request, origin) in queue {
            let peer = peer_of(self.proxied, &origin);
            if peer == Peer::Proxy && !matches!(self.rules, Rules::Pipelined { .. }) {
                let under_way = self.under_way.values().filter(|other| **other == origin).count();
                let soon = expected.get(&origin).copied().unwrap_or_default();
                if under_way + soon >= self.rules.per_host() {
                    continue;
                }
            }
            if let Some(connection) = self.free(&peer) {
                self.assign(request, connection);
                actions.push(Action::Send { request, connection });
                continue;
            }
            let opening = self.to(&peer).filter(|connection| !connection.ready).count();
            let claims = expecting.entry(peer.clone()).or_default();
            if *claims < opening || self.open(&peer, &mut actions) {
                *claims += 1;
                *expected.entry(origin).or_default() += 1;
            } else if let Some(connection) = self.with_room(&peer) {
                self.assign(request, connection);
                actions.push(Action::Send { request, connection });
            }
        }
        actions
    }

    fn to<'a>(&'a self, peer: &'a Peer) -> impl Iterator<Item = &'a Connection> {
        self.connections
            .values()
            .filter(move |connection| connection.peer == *peer)
    }

    /// Returns an idle connection; the oldest, so that loads are reproducible.
    fn free(&self, peer: &Peer) -> Option<u64> {
        let mut connections = self.connections.iter();
        let free = connections.find(|(_, connection)| {
            connection.ready && connection.peer == *peer && connection.outstanding.is_empty()
        });
        free.map(|(number, _)| *number)
    }

    /// Returns the connection with the fewest unanswered requests that accepts another one.
    fn with_room(&self, peer: &Peer) -> Option<u64> {
        if !self.persistent.contains(peer) {
            return None;
        }
        let dropping = self.dropping.contains(peer);
        let room = self.connections.iter().filter(|(_, connection)| {
            connection.ready
                && connection.peer == *peer
                && connection.outstanding.len() < self.rules.depth()
                // RFC 9112 section 9.3.2: after a loss, no pipelining before the connection has delivered a
                // response.
                && (!dropping || connection.answered > 0)
        });
        let least = room.min_by_key(|(number, connection)| (connection.outstanding.len(), **number));
        least.map(|(number, _)| *number)
    }

    /// Opens a connection if the rules allow one more, possibly instead of an idle one to another peer.
    fn open(&mut self, peer: &Peer, actions: &mut Vec<Action>) -> bool {
        let limit = match (peer, self.rules) {
            (Peer::Proxy, Rules::Http10 | Rules::Persistent { .. }) => self.rules.total(),
            (Peer::Origin(_), _) | (_, Rules::Pipelined { .. }) => self.rules.per_host(),
        };
        let there = self.to(peer).count();
        if there >= limit || (there > 0 && self.satisfied.contains(peer)) {
            return false;
        }
        if self.connections.len() >= self.rules.total() {
            let mut connections = self.connections.iter();
            let idle =
                connections.find(|(_, connection)| connection.ready && connection.outstanding.is_empty());
            let Some((&connection, _)) = idle else {
                return false;
            };
            self.connections.remove(&connection);
            actions.push(Action::Close { connection });
        }
        let connection = self.opened;
        self.opened += 1;
        self.connections.insert(
            connection,
            Connection {
                peer: peer.clone(),
                ready: false,
                outstanding: VecDeque::new(),
                answered: 0,
            },
        );
        actions.push(Action::Open {
            connection,
            peer: peer.clone(),
        });
        true
    }

    fn assign(&mut self, request: usize, number: u64) {
        if let Some(origin) = self.queue.remove(&request) {
            self.under_way.insert(request, origin);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.outstanding.push_back(request);
        }
    }

    /// Removes a connection and queues its unanswered requests again.
    fn remove(&mut self, number: u64) -> Vec<usize> {
        let removed = self.connections.remove(&number);
        let behind: Vec<usize> = removed.map(|gone| gone.outstanding.into()).unwrap_or_default();
        for request in &behind {
            self.enqueue_again(*request);
        }
        behind
    }
}

/// Returns the peer for requests to `origin`.
fn peer_of(proxied: bool, origin: &Origin) -> Peer {
    if proxied && !origin.https {
        Peer::Proxy
    } else {
        Peer::Origin(origin.clone())
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;

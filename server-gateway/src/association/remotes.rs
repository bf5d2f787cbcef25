//! The hosts of an association: where their datagrams go, and which addresses may answer.
use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use bytes::Bytes;
use longhaul_session::datagram::DatagramHost;
use tokio::time::Instant;

/// Hosts that an association remembers; the oldest one is forgotten for a further one. Programs that ask many hosts, such
/// as those that share files, keep the newest ones.
const MAX_REMOTES: usize = 256;
/// Hosts whose addresses are being looked up, and datagrams that wait for that.
const MAX_LOOKUPS: usize = 16;
const MAX_WAITING: usize = 32;

/// A host and port, as the client named it.
pub(super) type Remote = (DatagramHost, u16);

/// The hosts to which an association has sent datagrams lately.
#[derive(Debug)]
pub(super) struct Remotes {
    idle: Duration,
    addresses: BTreeMap<Remote, SocketAddr>,
    /// The keys of `addresses`, oldest first. Many names may have one address, so that a limit of addresses is no limit of
    /// names.
    names: VecDeque<Remote>,
    /// Time of the last datagram to each address.
    sent: BTreeMap<SocketAddr, Instant>,
    lookups: Vec<Remote>,
    waiting: VecDeque<(Remote, Bytes)>,
}

/// What becomes of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// It is sent to this address.
    To(SocketAddr, Bytes),
    /// It waits until the addresses of its host are found.
    Lookup(Remote),
    /// It waits for a lookup that has begun, or is dropped.
    Wait,
}

impl Remotes {
    pub(super) const fn new(idle: Duration) -> Self {
        Self {
            idle,
            addresses: BTreeMap::new(),
            names: VecDeque::new(),
            sent: BTreeMap::new(),
            lookups: Vec::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns what to do with a datagram for a host.
    pub(super) fn route(&mut self, remote: Remote, payload: Bytes) -> Route {
        if let Some(&address) = self.addresses.get(&remote) {
            return Route::To(address, payload);
        }
        let is_new = !self.lookups.contains(&remote);
        if is_new && self.lookups.len() >= MAX_LOOKUPS {
            return Route::Wait;
        }
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back((remote.clone(), payload));
        if !is_new {
            return Route::Wait;
        }
        self.lookups.push(remote.clone());
        Route::Lookup(remote)
    }

    /// Ends a lookup; returns the datagrams that waited for it.
    pub(super) fn found(&mut self, remote: &Remote, address: Option<SocketAddr>) -> Vec<Bytes> {
        self.lookups.retain(|other| other != remote);
        let (theirs, others) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(of, _)| of == remote);
        self.waiting = others;
        let Some(address) = address else {
            return Vec::new();
        };
        self.remember(remote, address);
        theirs.into_iter().map(|(_, payload)| payload).collect()
    }

    fn remember(&mut self, remote: &Remote, address: SocketAddr) {
        if self.addresses.insert(remote.clone(), address).is_none() {
            self.names.push_back(remote.clone());
        }
        while self.addresses.len() > MAX_REMOTES {
            let Some(oldest) = self.names.pop_front() else {
                break;
            };
            self.addresses.remove(&oldest);
        }
    }

    /// Records that a datagram was sent to an address, which may answer from now on.
    pub(super) fn on_sent(&mut self, address: SocketAddr, now: Instant) {
        self.sent.insert(address, now);
        while self.sent.len() > MAX_REMOTES {
            let oldest = self.sent.iter().min_by_key(|(_, at)| **at);
            let Some((&oldest, _)) = oldest else { break };
            self.forget(oldest);
        }
    }

    /// True if a datagram from this address is passed to the client.
    pub(super) fn may_answer(&self, address: SocketAddr, now: Instant) -> bool {
        self.sent.get(&address).is_some_and(|at| now < *at + self.idle)
    }

    /// Forgets the hosts to which no datagram was sent for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        let idle = self.idle;
        self.sent.retain(|_, at| now < *at + idle);
        let sent = &self.sent;
        self.addresses.retain(|_, address| sent.contains_key(address));
        self.retain_names();
    }

    /// Time at which the first host is forgotten.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        self.sent.values().min().map(|at| *at + self.idle)
    }

    /// True if no host may answer.
    pub(super) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    fn forget(&mut self, address: SocketAddr) {
        self.sent.remove(&address);
        self.addresses.retain(|_, other| *other != address);
        self.retain_names();
    }

    fn retain_names(&mut self) {
        let addresses = &self.addresses;
        self.names.retain(|name| addresses.contains_key(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Duration = Duration::from_secs(120);

    fn named(name: &str) -> Remote {
        (DatagramHost::Name(name.to_owned()), 53)
    }

    fn address(last: u16) -> SocketAddr {
        SocketAddr::new([192, 0, 2, 1].into(), last)
    }

    #[tokio::test(start_paused = true)]
    async fn only_hosts_that_got_a_datagram_lately_may_answer() {
        let mut remotes = Remotes::new(IDLE);
        let now = Instant::now();
        assert!(!remotes.may_answer(address(53), now));
        remotes.on_sent(address(53), now);
        assert!(remotes.may_answer(address(53), now + IDLE - Duration::from_millis(1)));
        assert!(!remotes.may_answer(address(54), now), "another port of the host");
        assert!(!remotes.may_answer(address(53), now + IDLE));
        remotes.on_sent(address(53), now + IDLE / 2);
        remotes.on_sent(address(54), now);
        assert_eq!(remotes.expires_at(), Some(now + IDLE));
        remotes.expire(now + IDLE);
        assert!(
            remotes.may_answer(address(53), now + IDLE),
            "refreshed by the client"
        );
        assert!(!remotes.is_empty());
        remotes.expire(now + IDLE * 2);
        assert!(remotes.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn datagrams_wait_for_the_lookup_of_their_host() {
        let mut remotes = Remotes::new(IDLE);
        let payload = Bytes::from_static;
        assert_eq!(
            remotes.route(named("a"), payload(b"1")),
            Route::Lookup(named("a"))
        );
        assert_eq!(remotes.route(named("a"), payload(b"2")), Route::Wait);
        assert_eq!(
            remotes.route(named("b"), payload(b"3")),
            Route::Lookup(named("b"))
        );
        assert_eq!(remotes.found(&named("a"), Some(address(1))), ["1", "2"]);
        assert_eq!(
            remotes.route(named("a"), payload(b"4")),
            Route::To(address(1), payload(b"4"))
        );
        assert!(remotes.found(&named("b"), None).is_empty());
        assert_eq!(
            remotes.route(named("b"), payload(b"5")),
            Route::Lookup(named("b")),
            "again"
        );
        // An address that is not used any more is looked up again.
        remotes.on_sent(address(1), Instant::now());
        remotes.expire(Instant::now() + IDLE);
        assert_eq!(
            remotes.route(named("a"), payload(b"6")),
            Route::Lookup(named("a"))
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_remembered_is_bounded() {
        let mut remotes = Remotes::new(IDLE);
        for number in 0..1000 {
            let _route = remotes.route(named(&number.to_string()), Bytes::new());
        }
        assert_eq!(
            (remotes.lookups.len(), remotes.waiting.len()),
            (MAX_LOOKUPS, MAX_LOOKUPS)
        );
        for _ in 0..1000 {
            let _route = remotes.route(named("0"), Bytes::new());
        }
        assert_eq!(remotes.waiting.len(), MAX_WAITING);
        for number in 0..1000 {
            let remote = named(&number.to_string());
            remotes.found(&remote, Some(address(number)));
            remotes.on_sent(
                address(number),
                Instant::now() + Duration::from_millis(number.into()),
            );
        }
        assert_eq!(
            (remotes.sent.len(), remotes.addresses.len()),
            (MAX_REMOTES, MAX_REMOTES)
        );
        assert!(remotes.may_answer(address(999), Instant::now()));
        assert!(!remotes.may_answer(address(0), Instant::now()), "the oldest");
    }
    #[tokio::test(start_paused = true)]
    async fn many_names_of_one_address_are_bounded() {
        let mut remotes = Remotes::new(IDLE);
        let now = Instant::now();
        for number in 0..1000 {
            let remote = named(&format!("{number}.site.test"));
            remotes.found(&remote, Some(address(1)));
            remotes.on_sent(address(1), now);
        }
        assert_eq!(
            (remotes.addresses.len(), remotes.names.len()),
            (MAX_REMOTES, MAX_REMOTES)
        );
        let newest = remotes.route(named("999.site.test"), Bytes::new());
        assert_eq!(newest, Route::To(address(1), Bytes::new()));
        remotes.expire(now + IDLE);
        assert_eq!((remotes.addresses.len(), remotes.names.len()), (0, 0));
    }
}

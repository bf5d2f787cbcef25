//! Detection of clients that reject the agent's certificate without an alert. Programs with pinned
//! certificates close the connection without an alert, but so do browsers that opened several connections and
//! need only the first.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};

/// Time after the acceptance of the certificate by a client of a host during which a closed connection does
/// not count as a rejection: within this time browsers close additional connections.
const LATELY: Duration = Duration::from_secs(10);
/// Maximum number of hosts with connections in the handshake, or recent ones. Connections of further hosts
/// are not evaluated.
const MAX: usize = 512;

/// The connections in the handshake, by host.
#[derive(Debug)]
pub(super) struct Attempts {
    hosts: Mutex<BTreeMap<String, State>>,
    changes: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    under_way: usize,
    accepted: Option<Instant>,
}

impl State {
    fn is_accepted(self, now: Instant) -> bool {
        self.accepted.is_some_and(|accepted| now < accepted + LATELY)
    }
}

/// A connection in the handshake; dropping it has no effect on the result.
#[derive(Debug)]
pub(crate) struct Attempt {
    attempts: Arc<Attempts>,
    host: String,
}

impl Attempts {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            hosts: Mutex::default(),
            changes: watch::Sender::new(()),
        })
    }

    /// Registers a client of a host; returns `None` if there are too many hosts.
    pub(super) fn begin(self: &Arc<Self>, host: &str) -> Option<Attempt> {
        let now = Instant::now();
        let mut hosts = self.lock();
        if hosts.len() >= MAX {
            hosts.retain(|_, state| state.under_way > 0 || state.is_accepted(now));
        }
        if hosts.len() >= MAX && !hosts.contains_key(host) {
            return None;
        }
        hosts.entry(host.to_owned()).or_default().under_way += 1;
        Some(Attempt {
            attempts: Arc::clone(self),
            host: host.to_owned(),
        })
    }

    fn of(&self, host: &str) -> State {
        self.lock().get(host).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        // The guarded data is consistent after every statement, so a poisoned lock is harmless.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// Records that the client has accepted the certificate.
    pub(crate) fn accepted(self) {
        if let Some(state) = self.attempts.lock().get_mut(&self.host) {
            state.accepted = Some(Instant::now());
        }
    }

    /// The client has closed the connection after it received the certificate; returns true if this counts as
    /// a rejection. Waits for the host's other connections in the handshake, each of which has a timeout.
    pub(crate) async fn was_refusal(self) -> bool {
        let (attempts, host) = (Arc::clone(&self.attempts), self.host.clone());
        let mut changes = attempts.changes.subscribe();
        drop(self);
        loop {
            let state = attempts.of(&host);
            if state.is_accepted(Instant::now()) {
                return false;
            }
            // The sender is part of `attempts`.
            if state.under_way == 0 || changes.changed().await.is_err() {
                return true;
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let mut hosts = self.attempts.lock();
        if let Some(state) = hosts.get_mut(&self.host) {
            state.under_way = state.under_way.saturating_sub(1);
            if state.under_way == 0 && state.accepted.is_none() {
                hosts.remove(&self.host);
            }
        }
        drop(hosts);
        self.attempts.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_leaves_alone_refuses_and_who_leaves_beside_others_does_not() {
        let attempts = Attempts::new();
        assert!(attempts.begin("a.test").unwrap().was_refusal().await);
        assert!(attempts.lock().is_empty());

        // A browser opens two connections, and closes the second when the first is established.
        let (first, second) = (
            attempts.begin("a.test").unwrap(),
            attempts.begin("a.test").unwrap(),
        );
        let left = tokio::spawn(second.was_refusal());
        tokio::task::yield_now().await;
        first.accepted();
        assert!(!left.await.unwrap());
        assert!(!attempts.begin("a.test").unwrap().was_refusal().await);
        assert!(
            attempts.begin("b.test").unwrap().was_refusal().await,
            "another host"
        );
        tokio::time::advance(LATELY).await;
        assert!(attempts.begin("a.test").unwrap().was_refusal().await);

        // A program opens two connections, and rejects the certificate on both.
        let (first, second) = (
            attempts.begin("c.test").unwrap(),
            attempts.begin("c.test").unwrap(),
        );
        let (first, second) = tokio::join!(first.was_refusal(), second.was_refusal());
        assert!(first && second);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_a_bound() {
        let attempts = Attempts::new();
        let begun: Vec<_> = (0..2 * MAX)
            .filter_map(|number| attempts.begin(&format!("{number}.test")))
            .collect();
        assert_eq!(begun.len(), MAX);
        begun.into_iter().for_each(Attempt::accepted);
        assert!(attempts.begin("new.test").is_none());
        tokio::time::advance(LATELY).await;
        assert!(attempts.begin("new.test").is_some());
    }
}

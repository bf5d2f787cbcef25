//! Detection of clients that reject the agent's certificate without an alert. Programs with pinned
//! certificates close the connection without an alert, but so do browsers that opened several connections and
//! need only the first. Connections of one program to one host are compared with each other.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};

use tokio::{sync::watch, time::Instant};

use super::bypasses::ProgramAtHost;

/// Time after the acceptance of the certificate by a program at a host during which a closed connection does
/// not count as a rejection: within this time browsers close additional connections.
const RECENT: Duration = Duration::from_secs(10);
/// Maximum number of programs and hosts with connections in the handshake, or recent ones. Further connections
/// are not evaluated.
const MAX_HOSTS: usize = 512;

/// The connections in the handshake, by host and program.
#[derive(Debug)]
pub(super) struct Handshakes {
    hosts: Mutex<BTreeMap<ProgramAtHost, State>>,
    changes: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    in_progress: usize,
    accepted: Option<Instant>,
}

impl State {
    fn is_accepted(self, now: Instant) -> bool {
        self.accepted.is_some_and(|accepted| now < accepted + RECENT)
    }
}

/// A connection in the handshake; dropping it has no effect on the result.
#[derive(Debug)]
pub(crate) struct Handshake {
    handshakes: Arc<Handshakes>,
    at: ProgramAtHost,
}

impl Handshakes {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            hosts: Mutex::default(),
            changes: watch::Sender::new(()),
        })
    }

    /// Registers a connection of a program to a host; returns `None` if there are too many.
    pub(super) fn begin(self: &Arc<Self>, at: ProgramAtHost) -> Option<Handshake> {
        let now = Instant::now();
        let mut hosts = self.lock();
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, state| state.in_progress > 0 || state.is_accepted(now));
        }
        if hosts.len() >= MAX_HOSTS && !hosts.contains_key(&at) {
            return None;
        }
        hosts.entry(at.clone()).or_default().in_progress += 1;
        Some(Handshake {
            handshakes: Arc::clone(self),
            at,
        })
    }

    fn of(&self, at: &ProgramAtHost) -> State {
        self.lock().get(at).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ProgramAtHost, State>> {
        self.hosts.lock()
    }
}

impl Handshake {
    /// Records that the client has accepted the certificate.
    pub(crate) fn accepted(self) {
        if let Some(state) = self.handshakes.lock().get_mut(&self.at) {
            state.accepted = Some(Instant::now());
        }
    }

    /// The client has closed the connection after it received the certificate; returns true if this counts as
    /// a rejection. Waits for the program's other connections to the host in the handshake, each of which has a timeout.
    pub(crate) async fn was_rejection(self) -> bool {
        let (handshakes, at) = (Arc::clone(&self.handshakes), self.at.clone());
        let mut changes = handshakes.changes.subscribe();
        drop(self);
        loop {
            let state = handshakes.of(&at);
            if state.is_accepted(Instant::now()) {
                return false;
            }
            // The sender is part of `handshakes`.
            if state.in_progress == 0 || changes.changed().await.is_err() {
                return true;
            }
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut hosts = self.handshakes.lock();
        if let Some(state) = hosts.get_mut(&self.at) {
            state.in_progress = state.in_progress.saturating_sub(1);
            if state.in_progress == 0 && state.accepted.is_none() {
                hosts.remove(&self.at);
            }
        }
        drop(hosts);
        self.handshakes.changes.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::ClientId;

    use super::*;
    use crate::https::program::Program;

    fn browser(host: &str) -> ProgramAtHost {
        let program = Program::new(ClientId::OWNER, Some("browser"));
        (host.to_owned(), program.id(None))
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_aborted_handshake_is_a_rejection_but_one_beside_others_is_not() {
        let handshakes = Handshakes::new();
        assert!(handshakes.begin(browser("a.test")).unwrap().was_rejection().await);
        assert!(handshakes.lock().is_empty());

        // A browser opens two connections, and closes the second when the first is established.
        let (first, second) = (
            handshakes.begin(browser("a.test")).unwrap(),
            handshakes.begin(browser("a.test")).unwrap(),
        );
        let left = tokio::spawn(second.was_rejection());
        tokio::task::yield_now().await;
        first.accepted();
        assert!(!left.await.unwrap());
        assert!(!handshakes.begin(browser("a.test")).unwrap().was_rejection().await);
        assert!(
            handshakes.begin(browser("b.test")).unwrap().was_rejection().await,
            "another host"
        );
        let other = Program::new(ClientId::OWNER, Some("curl")).id(None);
        let of_other = handshakes.begin(("a.test".to_owned(), other)).unwrap();
        assert!(of_other.was_rejection().await, "another program");
        tokio::time::advance(RECENT).await;
        assert!(handshakes.begin(browser("a.test")).unwrap().was_rejection().await);

        // A program opens two connections, and rejects the certificate on both.
        let (first, second) = (
            handshakes.begin(browser("c.test")).unwrap(),
            handshakes.begin(browser("c.test")).unwrap(),
        );
        let (first, second) = tokio::join!(first.was_rejection(), second.was_rejection());
        assert!(first && second);
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_observed_hosts_is_bounded() {
        let handshakes = Handshakes::new();
        let begun: Vec<_> = (0..2 * MAX_HOSTS)
            .filter_map(|number| handshakes.begin(browser(&format!("{number}.test"))))
            .collect();
        assert_eq!(begun.len(), MAX_HOSTS);
        begun.into_iter().for_each(Handshake::accepted);
        assert!(handshakes.begin(browser("new.test")).is_none());
        tokio::time::advance(RECENT).await;
        assert!(handshakes.begin(browser("new.test")).is_some());
    }
}

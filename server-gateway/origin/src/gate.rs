//! How many requests run at once to one host, and that a new host is not met with a burst of handshakes.
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::{
    config::Limits,
    error::FetchError,
    target::{Scheme, Target},
};

/// Hosts whose protocol is remembered. Above it, hosts without a request or an HTTP/2 connection are forgotten.
const MAX_HOSTS: usize = 4096;

/// The gates of all hosts.
pub(crate) struct Gates {
    limits: Limits,
    hosts: Mutex<HashMap<Target, Arc<HostGate>>>,
}

/// What is known of a host's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// No connection stands, and it is not known what one will speak.
    Unknown,
    /// One request is opening the first connection; the others wait for what it finds.
    Probing,
    /// Every request needs a connection of its own.
    Http1,
    /// A connection stands that all requests share.
    Http2,
}

struct HostGate {
    protocol: watch::Sender<Protocol>,
    connections: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    waiting: AtomicUsize,
    live_h2: AtomicUsize,
}

/// A request's right to run; it ends when dropped.
pub(crate) struct Turn {
    gate: Arc<HostGate>,
    is_probe: bool,
    _permit: OwnedSemaphorePermit,
}

/// A standing HTTP/2 connection of a host; it ends when dropped.
pub(crate) struct LiveH2(Arc<HostGate>);

impl Gates {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            hosts: Mutex::default(),
        }
    }

    /// Waits for a request's turn.
    ///
    /// The first request to an `https` host goes alone until its connection stands: if that speaks HTTP/2 the others
    /// need none of their own, and one TLS handshake does for all.
    pub(crate) async fn enter(&self, target: &Target) -> Result<Turn, FetchError> {
        let gate = self.gate(target);
        let _waiting = Waiting::new(&gate.waiting, self.limits.waiting_per_host)?;
        let (semaphore, is_probe) = match gate.admission().await {
            Protocol::Unknown => (&gate.connections, true),
            Protocol::Http2 => (&gate.streams, false),
            Protocol::Http1 | Protocol::Probing => (&gate.connections, false),
        };
        // The probe's mark must be cleared even when this future is dropped while it waits for its permit.
        let mut probe = Probe {
            gate: &gate,
            is_armed: is_probe,
        };
        let permit = Arc::clone(semaphore)
            .acquire_owned()
            .await
            .map_err(|_| FetchError::Cancelled)?;
        probe.is_armed = false;
        drop(probe);
        Ok(Turn {
            gate: Arc::clone(&gate),
            is_probe,
            _permit: permit,
        })
    }

    /// Notes that a connection to this target speaks HTTP/2.
    pub(crate) fn h2_opened(&self, target: &Target) -> LiveH2 {
        let gate = self.gate(target);
        gate.live_h2.fetch_add(1, Relaxed);
        LiveH2(gate)
    }

    fn gate(&self, target: &Target) -> Arc<HostGate> {
        let mut hosts = self.hosts();
        if let Some(gate) = hosts.get(target) {
            return Arc::clone(gate);
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        let gate = Arc::new(HostGate::new(target.scheme, &self.limits));
        hosts.insert(target.clone(), Arc::clone(&gate));
        gate
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<Target, Arc<HostGate>>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostGate {
    fn new(scheme: Scheme, limits: &Limits) -> Self {
        let protocol = match scheme {
            Scheme::Http => Protocol::Http1,
            Scheme::Https => Protocol::Unknown,
        };
        Self {
            protocol: watch::Sender::new(protocol),
            connections: Arc::new(Semaphore::new(limits.connections_per_host)),
            streams: Arc::new(Semaphore::new(limits.streams_per_host)),
            waiting: AtomicUsize::new(0),
            live_h2: AtomicUsize::new(0),
        }
    }

    /// What a new request goes by: [`Protocol::Unknown`] makes it the probe.
    async fn admission(&self) -> Protocol {
        let mut changes = self.protocol.subscribe();
        loop {
            let mut seen = Protocol::Probing;
            self.protocol.send_if_modified(|protocol| {
                seen = *protocol;
                if seen == Protocol::Unknown {
                    *protocol = Protocol::Probing;
                }
                seen == Protocol::Unknown
            });
            if seen != Protocol::Probing || changes.wait_for(|now| *now != Protocol::Probing).await.is_err() {
                return seen;
            }
        }
    }

    /// Lets everybody through after a probe that found nothing: were each of them a probe in turn, a host that does not
    /// answer would cost one timeout per request.
    fn give_up_probe(&self) {
        self.protocol.send_if_modified(|protocol| {
            let was_probing = *protocol == Protocol::Probing;
            if was_probing {
                *protocol = Protocol::Http1;
            }
            was_probing
        });
    }
}

impl Turn {
    /// Notes what the connection of this request speaks.
    pub(crate) fn connected(&mut self, is_h2: bool) {
        self.is_probe = false;
        let found = if is_h2 && self.gate.live_h2.load(Relaxed) > 0 {
            Protocol::Http2
        } else {
            Protocol::Http1
        };
        self.gate.protocol.send_if_modified(|protocol| {
            let is_new = *protocol != found;
            *protocol = found;
            is_new
        });
    }

    /// Notes the same from an answer, if it is not known yet: it may last, and others wait for what it tells.
    pub(crate) fn answered(&mut self, is_h2: bool) {
        if self.is_probe {
            self.connected(is_h2);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.is_probe {
            self.gate.give_up_probe();
        }
    }
}

impl Drop for LiveH2 {
    fn drop(&mut self) {
        if self.0.live_h2.fetch_sub(1, Relaxed) == 1 {
            self.0.protocol.send_if_modified(|protocol| {
                let was_h2 = *protocol == Protocol::Http2;
                if was_h2 {
                    *protocol = Protocol::Unknown;
                }
                was_h2
            });
        }
    }
}

struct Probe<'a> {
    gate: &'a HostGate,
    is_armed: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.gate.give_up_probe();
        }
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize, limit: usize) -> Result<Self, FetchError> {
        let waiting = Self(count);
        if count.fetch_add(1, Relaxed) >= limit {
            Err(FetchError::Overloaded)
        } else {
            Ok(waiting)
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use super::*;

    fn target(url: &str) -> Target {
        Target::of(&url.parse().unwrap()).unwrap()
    }

    /// Whether a future is still pending when it is polled once.
    async fn waits(future: impl Future) -> bool {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn the_first_https_request_goes_alone() {
        let gates = Gates::new(Limits::default());
        let site = target("https://site.test/");
        let mut probe = gates.enter(&site).await.unwrap();
        assert!(waits(gates.enter(&site)).await);
        assert!(!waits(gates.enter(&target("https://other.test/"))).await);
        assert!(!waits(gates.enter(&target("http://site.test/"))).await);
        let live = gates.h2_opened(&site);
        probe.connected(true);
        let second = gates.enter(&site).await.unwrap();
        // The connection is lost: the next one is a probe again.
        drop((live, probe, second));
        let _probe = gates.enter(&site).await.unwrap();
        assert!(waits(gates.enter(&site)).await);
    }

    #[tokio::test]
    async fn an_answer_that_lasts_lets_the_others_through() {
        let gates = Gates::new(Limits::default());
        let site = target("https://site.test/");
        let mut probe = gates.enter(&site).await.unwrap();
        assert!(waits(gates.enter(&site)).await);
        probe.answered(false);
        assert!(!waits(gates.enter(&site)).await);
    }

    #[tokio::test]
    async fn a_failed_probe_lets_all_others_through() {
        let gates = Gates::new(Limits::default());
        let site = target("https://site.test/");
        let probe = gates.enter(&site).await.unwrap();
        let mut second = pin!(gates.enter(&site));
        assert!(waits(&mut second).await);
        drop(probe);
        let _second = second.await.unwrap();
        assert!(!waits(gates.enter(&site)).await);
    }

    #[tokio::test]
    async fn places_and_waiters_are_bounded() {
        let limits = Limits {
            connections_per_host: 1,
            waiting_per_host: 1,
            ..Limits::default()
        };
        let gates = Gates::new(limits);
        let site = target("http://site.test/");
        let first = gates.enter(&site).await.unwrap();
        let mut second = Box::pin(gates.enter(&site));
        assert!(waits(&mut second).await);
        assert!(matches!(gates.enter(&site).await, Err(FetchError::Overloaded)));
        drop(first);
        let _second = second.await.unwrap();
    }

    #[tokio::test]
    async fn idle_hosts_are_forgotten() {
        let gates = Gates::new(Limits::default());
        let busy = target("http://busy.test/");
        let _turn = gates.enter(&busy).await.unwrap();
        for index in 0..2 * MAX_HOSTS {
            gates
                .enter(&target(&format!("http://h{index}.test/")))
                .await
                .unwrap();
        }
        let hosts = gates.hosts();
        assert!(hosts.len() <= MAX_HOSTS && hosts.contains_key(&busy));
    }
}

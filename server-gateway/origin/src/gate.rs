//! Limits of the concurrent requests to a host, each device's share of them, and a single first TLS handshake
//! with a new host.
use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::sync::watch;

use crate::{
    config::{Limits, Timeouts},
    error::{FetchError, Limit},
    owner::ConnectionOwner,
    shares::{FairShares, Lasting, Place, Shares},
    target::{Scheme, Target},
};

/// Hosts whose protocol is remembered. Above this number, hosts without a request or an HTTP/2 connection are
/// removed.
const MAX_HOSTS: usize = 4096;
/// Devices remembered per host, with the same rule.
const MAX_DEVICES: usize = 256;
/// Age from which a request counts as long-lived: an event stream, a long poll, a large download. Nearly all
/// other requests end earlier, also on slow links.
const LASTING: Duration = Duration::from_secs(30);

/// The gates of all hosts.
pub(crate) struct Gates {
    limits: Limits,
    wait: Duration,
    lasting: Lasting<ConnectionOwner>,
    hosts: Mutex<HashMap<Target, Arc<HostGate>>>,
}

/// Knowledge of a host's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// No connection is open, and the protocol of the next one is unknown.
    Unknown,
    /// One request is opening the first connection; the device's other requests wait for its protocol.
    Probing,
    /// Each request needs a connection.
    Http1,
    /// A connection is open that all requests of the device share.
    Http2,
}

struct HostGate {
    scheme: Scheme,
    /// True if the last connection of any device to this host spoke HTTP/1.1.
    is_http1: AtomicBool,
    connections: Arc<FairShares<ConnectionOwner>>,
    streams: Arc<FairShares<ConnectionOwner>>,
    devices: Mutex<BTreeMap<ConnectionOwner, Arc<DeviceGate>>>,
}

/// State of one device at a host.
struct DeviceGate {
    protocol: watch::Sender<Protocol>,
    live_h2: AtomicUsize,
    /// The reference prevents the host's removal.
    host: Arc<HostGate>,
}

/// Permission of a request to run, until dropped.
pub(crate) struct Turn {
    gate: Arc<DeviceGate>,
    is_probe: bool,
    place: Place<ConnectionOwner>,
    lasting: Lasting<ConnectionOwner>,
}

/// An open HTTP/2 connection that a device may use, until dropped.
pub(crate) struct LiveH2(Arc<DeviceGate>);

impl Gates {
    pub(crate) fn new(limits: Limits, timeouts: &Timeouts) -> Self {
        let places = FairShares::new(Shares {
            total: usize::MAX,
            per_owner: limits.lasting_per_device,
            reserved: 0,
            waiting: 0,
        });
        Self {
            limits,
            wait: timeouts.turn,
            lasting: Lasting { age: LASTING, places },
            hosts: Mutex::default(),
        }
    }

    /// Waits for a request's turn.
    ///
    /// A device's first request to an `https` host proceeds alone until its connection is open: if the
    /// connection speaks HTTP/2, the device's other requests share it, and one TLS handshake suffices.
    pub(crate) async fn enter(&self, target: &Target, owner: ConnectionOwner) -> Result<Turn, FetchError> {
        let gate = self.gate(target).device(owner);
        let (places, is_probe) = match gate.admission().await {
            Protocol::Unknown => (&gate.host.connections, true),
            Protocol::Http2 => (&gate.host.streams, false),
            Protocol::Http1 | Protocol::Probing => (&gate.host.connections, false),
        };
        // The probing state must be cleared also if this future is dropped while it waits for its slot.
        let mut probe = Probe {
            gate: &gate,
            is_armed: is_probe,
        };
        let place = places
            .acquire_within(owner, self.wait, Some(&self.lasting))
            .await
            .map_err(|_| FetchError::Overloaded(Limit::Host))?;
        probe.is_armed = false;
        drop(probe);
        Ok(Turn {
            gate,
            is_probe,
            place,
            lasting: self.lasting.clone(),
        })
    }

    /// Records that a device has an HTTP/2 connection to this target.
    pub(crate) fn h2_opened(&self, target: &Target, owner: ConnectionOwner) -> LiveH2 {
        let gate = self.gate(target).device(owner);
        gate.live_h2.fetch_add(1, Relaxed);
        LiveH2(gate)
    }

    fn gate(&self, target: &Target) -> Arc<HostGate> {
        let mut hosts = self.hosts();
        if let Some(gate) = hosts.get(target) {
            return Arc::clone(gate);
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, gate| gate.is_used());
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
        let waiting = limits.waiting_per_host;
        Self {
            scheme,
            is_http1: AtomicBool::new(false),
            connections: FairShares::new(Shares {
                total: limits.connections_per_host,
                per_owner: limits.connections_per_host,
                reserved: limits.reserved_per_host,
                waiting,
            }),
            // A device's streams use connections that no other device uses at the time.
            streams: FairShares::new(Shares {
                total: usize::MAX,
                per_owner: limits.streams_per_host,
                reserved: 0,
                waiting,
            }),
            devices: Mutex::default(),
        }
    }

    fn device(self: &Arc<Self>, owner: ConnectionOwner) -> Arc<DeviceGate> {
        let mut devices = self.devices();
        if let Some(gate) = devices.get(&owner) {
            return Arc::clone(gate);
        }
        if devices.len() >= MAX_DEVICES {
            devices.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        let protocol = match self.scheme {
            Scheme::Http => Protocol::Http1,
            Scheme::Https if self.is_http1.load(Relaxed) => Protocol::Http1,
            Scheme::Https => Protocol::Unknown,
        };
        let gate = Arc::new(DeviceGate {
            protocol: watch::Sender::new(protocol),
            live_h2: AtomicUsize::new(0),
            host: Arc::clone(self),
        });
        devices.insert(owner, Arc::clone(&gate));
        gate
    }

    /// Returns true if a device has a request or an HTTP/2 connection here. Removes the state of all other
    /// devices, which holds references to the host.
    fn is_used(&self) -> bool {
        let mut devices = self.devices();
        devices.retain(|_, gate| Arc::strong_count(gate) > 1);
        !devices.is_empty()
    }

    fn devices(&self) -> MutexGuard<'_, BTreeMap<ConnectionOwner, Arc<DeviceGate>>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeviceGate {
    /// Returns the protocol state for a new request; [`Protocol::Unknown`] makes the request the probe.
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

    /// Admits all waiting requests after a probe without result: if each of them became a probe in turn, an
    /// unresponsive host would cost one timeout per request.
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
    /// Records the protocol of this request's connection.
    pub(crate) fn connected(&mut self, is_h2: bool) {
        self.is_probe = false;
        self.gate.host.is_http1.store(!is_h2, Relaxed);
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

    /// Marks the response as long-lived, so that it occupies no slot of the host.
    pub(crate) fn lasts(&self) {
        self.place.lasts(&self.lasting);
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
    gate: &'a DeviceGate,
    is_armed: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.gate.give_up_probe();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::Future, pin::pin, task::Poll};

    use longhaul_types::PublicKey;
    use tokio::time::Instant;

    use super::*;

    const ANNA: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([1; 32]));
    const BERT: ConnectionOwner = ConnectionOwner::Device(PublicKey::from_bytes([2; 32]));

    fn gates(limits: Limits) -> Gates {
        Gates::new(limits, &Timeouts::default())
    }

    fn target(url: &str) -> Target {
        Target::of(&url.parse().unwrap()).unwrap()
    }

    /// Polls a future once; returns true if it is pending.
    async fn waits(future: impl Future) -> bool {
        let mut future = pin!(future);
        std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
    }

    #[tokio::test]
    async fn the_first_https_request_of_a_device_goes_alone() {
        let gates = gates(Limits::default());
        let site = target("https://site.test/");
        let mut probe = gates.enter(&site, ANNA).await.unwrap();
        assert!(waits(gates.enter(&site, ANNA)).await);
        assert!(!waits(gates.enter(&target("https://other.test/"), ANNA)).await);
        assert!(!waits(gates.enter(&target("http://site.test/"), ANNA)).await);
        assert!(!waits(gates.enter(&site, BERT)).await, "its own probe");
        let live = gates.h2_opened(&site, ANNA);
        probe.connected(true);
        let second = gates.enter(&site, ANNA).await.unwrap();
        // The connection is lost: the next request is a probe again.
        drop((live, probe, second));
        let _probe = gates.enter(&site, ANNA).await.unwrap();
        assert!(waits(gates.enter(&site, ANNA)).await);
    }

    #[tokio::test]
    async fn all_devices_share_the_knowledge_that_a_host_lacks_http2() {
        let gates = gates(Limits::default());
        let site = target("https://site.test/");
        let mut probe = gates.enter(&site, ANNA).await.unwrap();
        assert!(waits(gates.enter(&site, ANNA)).await);
        probe.connected(false);
        for owner in [ANNA, BERT] {
            let _one = gates.enter(&site, owner).await.unwrap();
            assert!(!waits(gates.enter(&site, owner)).await);
        }
    }

    #[tokio::test]
    async fn a_failed_probe_lets_all_others_through() {
        let gates = gates(Limits::default());
        let site = target("https://site.test/");
        let probe = gates.enter(&site, ANNA).await.unwrap();
        let mut second = pin!(gates.enter(&site, ANNA));
        assert!(waits(&mut second).await);
        drop(probe);
        let _second = second.await.unwrap();
        assert!(!waits(gates.enter(&site, ANNA)).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_host_serves_another_device_at_once() {
        let limits = Limits::default();
        let gates = gates(limits);
        let site = target("http://site.test/");
        let mut held = Vec::new();
        for _ in 0..limits.connections_per_host {
            held.push(gates.enter(&site, ANNA).await.unwrap());
        }
        assert!(waits(gates.enter(&site, ANNA)).await);
        for _ in 0..limits.reserved_per_host {
            held.push(gates.enter(&site, BERT).await.unwrap());
        }
        assert!(waits(gates.enter(&site, BERT)).await, "beyond its share");
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_a_reason() {
        let limits = Limits {
            connections_per_host: 1,
            reserved_per_host: 1,
            lasting_per_device: 0,
            waiting_per_host: 1,
            ..Limits::default()
        };
        let gates = gates(limits);
        let site = target("http://site.test/");
        let _first = gates.enter(&site, ANNA).await.unwrap();
        let begun = Instant::now();
        let (second, third) = tokio::join!(gates.enter(&site, ANNA), gates.enter(&site, ANNA));
        for refused in [second, third] {
            assert_eq!(refused.err(), Some(FetchError::Overloaded(Limit::Host)));
        }
        assert_eq!(begun.elapsed(), Timeouts::default().turn);
    }

    #[tokio::test(start_paused = true)]
    async fn long_lived_responses_do_not_count_for_the_host() {
        let limits = Limits {
            connections_per_host: 2,
            reserved_per_host: 1,
            ..Limits::default()
        };
        let gates = gates(limits);
        let site = target("http://site.test/");
        let events = gates.enter(&site, ANNA).await.unwrap();
        events.lasts();
        let _slow = [
            gates.enter(&site, ANNA).await.unwrap(),
            gates.enter(&site, ANNA).await.unwrap(),
        ];
        let begun = Instant::now();
        let _next = gates.enter(&site, ANNA).await.unwrap();
        assert_eq!(begun.elapsed(), LASTING);
    }

    #[tokio::test]
    async fn idle_hosts_are_forgotten() {
        let gates = gates(Limits::default());
        let busy = target("http://busy.test/");
        let _turn = gates.enter(&busy, ANNA).await.unwrap();
        for index in 0..2 * MAX_HOSTS {
            gates
                .enter(&target(&format!("http://h{index}.test/")), ANNA)
                .await
                .unwrap();
        }
        let hosts = gates.hosts();
        assert!(hosts.len() <= MAX_HOSTS && hosts.contains_key(&busy));
    }
}

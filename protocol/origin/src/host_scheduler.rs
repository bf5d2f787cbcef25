//! Limits of the concurrent requests to a host, each device's share of them, and a single first TLS handshake
//! with a new host.
mod device;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::device::LiveH2;
use self::device::{DeviceScheduler, Probe, Protocol};
use crate::{
    config::{Limits, Timeouts},
    error::{FetchError, Limit},
    owner::ConnectionOwner,
    shares::{FairShares, LongLivedSlots, Shares, Slot},
    target::{Scheme, Target},
};

/// Hosts whose protocol is remembered. Above this number, hosts without a request or an HTTP/2 connection are
/// removed.
const MAX_HOSTS: usize = 4096;
/// Devices remembered per host, with the same rule.
const MAX_DEVICES: usize = 256;
/// Age from which a request counts as long-lived: an event stream, a long poll, a large download. Nearly all
/// other requests end earlier, also on slow links.
const LONG_LIVED_AGE: Duration = Duration::from_secs(30);

/// The schedulers of all hosts.
pub(crate) struct HostSchedulers {
    limits: Limits,
    /// Maximum wait of a request for its turn, in milliseconds.
    wait: AtomicU64,
    long_lived: LongLivedSlots<ConnectionOwner>,
    hosts: Mutex<HashMap<Target, Arc<HostScheduler>>>,
}

struct HostScheduler {
    scheme: Scheme,
    /// True if the last connection of any device to this host spoke HTTP/1.1.
    is_http1: AtomicBool,
    connections: Arc<FairShares<ConnectionOwner>>,
    streams: Arc<FairShares<ConnectionOwner>>,
    devices: Mutex<BTreeMap<ConnectionOwner, Arc<DeviceScheduler>>>,
}

/// Permission of a request to run, until dropped.
pub(crate) struct RequestPermit {
    scheduler: Arc<DeviceScheduler>,
    is_probe: bool,
    slot: Slot<ConnectionOwner>,
    long_lived: LongLivedSlots<ConnectionOwner>,
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl HostSchedulers {
    pub(crate) fn new(limits: Limits, timeouts: &Timeouts) -> Self {
        let slots = FairShares::new(Shares {
            total: usize::MAX,
            per_owner: limits.long_lived_per_device,
            reserved: 0,
            waiting: 0,
        });
        Self {
            limits,
            wait: AtomicU64::new(millis(timeouts.host_wait)),
            long_lived: LongLivedSlots {
                age: LONG_LIVED_AGE,
                slots,
            },
            hosts: Mutex::default(),
        }
    }

    /// Sets the maximum wait of requests that enter from now on.
    pub(crate) fn set_wait(&self, wait: Duration) {
        self.wait.store(millis(wait), Relaxed);
    }

    /// Waits until a request may run.
    ///
    /// A device's first request to an `https` host proceeds alone until its connection is open: if the
    /// connection speaks HTTP/2, the device's other requests share it, and one TLS handshake suffices.
    pub(crate) async fn enter(
        &self,
        target: &Target,
        owner: ConnectionOwner,
    ) -> Result<RequestPermit, FetchError> {
        let scheduler = self.scheduler(target).device(owner);
        let (slots, is_probe) = match scheduler.admission().await {
            Protocol::Unknown => (&scheduler.host.connections, true),
            Protocol::Http2 => (&scheduler.host.streams, false),
            Protocol::Http1 | Protocol::Probing => (&scheduler.host.connections, false),
        };
        // The probing state must be cleared also if this future is dropped while it waits for its slot.
        let mut probe = Probe {
            scheduler: &scheduler,
            is_armed: is_probe,
        };
        let wait = Duration::from_millis(self.wait.load(Relaxed));
        let slot = slots
            .acquire_within(owner.share(), wait, Some(&self.long_lived))
            .await
            .map_err(|_| FetchError::Overloaded(Limit::Host))?;
        probe.is_armed = false;
        drop(probe);
        Ok(RequestPermit {
            scheduler,
            is_probe,
            slot,
            long_lived: self.long_lived.clone(),
        })
    }

    /// Records that a device has an HTTP/2 connection to this target.
    pub(crate) fn h2_opened(&self, target: &Target, owner: ConnectionOwner) -> LiveH2 {
        self.scheduler(target).device(owner).h2_opened()
    }

    fn scheduler(&self, target: &Target) -> Arc<HostScheduler> {
        let mut hosts = self.hosts();
        if let Some(scheduler) = hosts.get(target) {
            return Arc::clone(scheduler);
        }
        if hosts.len() >= MAX_HOSTS {
            hosts.retain(|_, scheduler| scheduler.is_used());
        }
        let scheduler = Arc::new(HostScheduler::new(target.scheme, &self.limits));
        hosts.insert(target.clone(), Arc::clone(&scheduler));
        scheduler
    }

    fn hosts(&self) -> MutexGuard<'_, HashMap<Target, Arc<HostScheduler>>> {
        self.hosts.lock()
    }
}

impl HostScheduler {
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

    fn device(self: &Arc<Self>, owner: ConnectionOwner) -> Arc<DeviceScheduler> {
        let mut devices = self.devices();
        if let Some(scheduler) = devices.get(&owner) {
            return Arc::clone(scheduler);
        }
        if devices.len() >= MAX_DEVICES {
            devices.retain(|_, scheduler| Arc::strong_count(scheduler) > 1);
        }
        let protocol = match self.scheme {
            Scheme::Http => Protocol::Http1,
            Scheme::Https if self.is_http1.load(Relaxed) => Protocol::Http1,
            Scheme::Https => Protocol::Unknown,
        };
        let scheduler = DeviceScheduler::new(Arc::clone(self), protocol);
        devices.insert(owner, Arc::clone(&scheduler));
        scheduler
    }

    /// Returns true if a device has a request or an HTTP/2 connection here. Removes the state of all other
    /// devices, which holds references to the host.
    fn is_used(&self) -> bool {
        let mut devices = self.devices();
        devices.retain(|_, scheduler| Arc::strong_count(scheduler) > 1);
        !devices.is_empty()
    }

    fn devices(&self) -> MutexGuard<'_, BTreeMap<ConnectionOwner, Arc<DeviceScheduler>>> {
        self.devices.lock()
    }
}

impl RequestPermit {
    /// Records the protocol of this request's connection.
    pub(crate) fn connected(&mut self, is_h2: bool) {
        self.is_probe = false;
        self.scheduler.connected(is_h2);
    }

    /// Marks the response as long-lived, so that it occupies no slot of the host.
    pub(crate) fn mark_long_lived(&self) {
        self.slot.mark_long_lived(&self.long_lived);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if self.is_probe {
            self.scheduler.give_up_probe();
        }
    }
}

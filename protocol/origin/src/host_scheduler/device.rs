//! The requests of one device to one host, until the host's protocol is known.
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::watch;

use super::HostScheduler;

/// Knowledge of a host's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// No connection is open, and the protocol of the next one is unknown.
    Unknown,
    /// One request is opening the first connection; the device's other requests wait for its protocol.
    Probing,
    /// Each request needs a connection.
    Http1,
    /// A connection is open that all requests of the device share.
    Http2,
}

/// State of one device at a host.
pub(super) struct DeviceScheduler {
    protocol: watch::Sender<Protocol>,
    live_h2: AtomicUsize,
    /// The reference prevents the host's removal.
    pub(super) host: Arc<HostScheduler>,
}

/// An open HTTP/2 connection that a device may use, until dropped.
pub(crate) struct LiveH2(Arc<DeviceScheduler>);

impl DeviceScheduler {
    pub(super) fn new(host: Arc<HostScheduler>, protocol: Protocol) -> Arc<Self> {
        Arc::new(Self {
            protocol: watch::Sender::new(protocol),
            live_h2: AtomicUsize::new(0),
            host,
        })
    }

    /// Records the protocol of a connection.
    pub(super) fn connected(&self, is_h2: bool) {
        self.host.is_http1.store(!is_h2, Relaxed);
        let found = if is_h2 && self.live_h2.load(Relaxed) > 0 {
            Protocol::Http2
        } else {
            Protocol::Http1
        };
        self.protocol.send_if_modified(|protocol| {
            let is_new = *protocol != found;
            *protocol = found;
            is_new
        });
    }

    /// Records an HTTP/2 connection that the device may use.
    pub(super) fn h2_opened(self: Arc<Self>) -> LiveH2 {
        self.live_h2.fetch_add(1, Relaxed);
        LiveH2(self)
    }

    /// Returns the protocol state for a new request; [`Protocol::Unknown`] makes the request the probe.
    pub(super) async fn admission(&self) -> Protocol {
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
    pub(super) fn give_up_probe(&self) {
        self.protocol.send_if_modified(|protocol| {
            let was_probing = *protocol == Protocol::Probing;
            if was_probing {
                *protocol = Protocol::Http1;
            }
            was_probing
        });
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

/// The first request of a device to a host, while it waits for its slot: if it is dropped, others proceed.
pub(super) struct Probe<'a> {
    pub(super) scheduler: &'a DeviceScheduler,
    pub(super) is_armed: bool,
}

impl Drop for Probe<'_> {
    fn drop(&mut self) {
        if self.is_armed {
            self.scheduler.give_up_probe();
        }
    }
}

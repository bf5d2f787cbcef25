//! The open sessions and what is known of each device since the gateway's start.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_driver::Session;
use longhaul_types::PublicKey;

use super::metrics::LinkBytes;

/// Open sessions, and the activity of devices.
#[derive(Debug, Default)]
pub(crate) struct SessionLedger(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    next: u64,
    /// Bounded by the number of sessions that the listener admits.
    open: BTreeMap<u64, OpenSession>,
    closed: LinkBytes,
    /// Bounded by the number of devices that were admitted since the start.
    devices: BTreeMap<PublicKey, PastActivity>,
}

#[derive(Debug)]
struct OpenSession {
    session: Session,
    device: PublicKey,
    since: SystemTime,
    /// Bytes at the last look, and the time at which they last changed.
    received: u64,
    heard: SystemTime,
}

#[derive(Clone, Debug, Default)]
struct PastActivity {
    software: Option<String>,
    heard: Option<SystemTime>,
    closed: LinkBytes,
}

/// What the gateway knows of a device since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceActivity {
    /// Program and version of the agent, as it names itself.
    pub(crate) software: Option<String>,
    /// Time of the last packet from the device, to within a second.
    pub(crate) heard: Option<SystemTime>,
    /// Start of the open session.
    pub(crate) since: Option<SystemTime>,
    /// Round-trip time of the open session, smoothed; `None` if nothing has been measured.
    pub(crate) rtt: Option<Duration>,
    /// Bytes of all sessions.
    pub(crate) bytes: LinkBytes,
}

/// A session in the ledger; drop it when the session has ended.
pub(crate) struct Entry {
    ledger: Arc<SessionLedger>,
    number: u64,
}

impl SessionLedger {
    pub(crate) fn enter(self: &Arc<Self>, session: Session, device: PublicKey) -> Entry {
        let now = SystemTime::now();
        let mut ledger = self.lock();
        let number = ledger.next;
        ledger.next += 1;
        let open = OpenSession {
            received: session.stats().bytes_received,
            session,
            device,
            since: now,
            heard: now,
        };
        ledger.open.insert(number, open);
        drop(ledger);
        Entry {
            ledger: Arc::clone(self),
            number,
        }
    }

    /// Notes the name by which the device's agent introduces itself.
    pub(crate) fn introduce(&self, device: PublicKey, software: &str) {
        self.lock().devices.entry(device).or_default().software = Some(software.to_owned());
    }

    /// Notes which sessions have received something since the last look. Called about twice a second.
    pub(crate) fn look(&self) {
        let now = SystemTime::now();
        for open in self.lock().open.values_mut() {
            open.look(now);
        }
    }

    /// Bytes of all sessions since the start.
    pub(crate) fn bytes(&self) -> LinkBytes {
        let ledger = self.lock();
        let open = ledger.open.values();
        open.fold(ledger.closed, |sum, open| sum.plus(&open.session))
    }

    /// The devices that have had a session since the start.
    pub(crate) fn activity(&self) -> BTreeMap<PublicKey, DeviceActivity> {
        self.look();
        let ledger = self.lock();
        let past = ledger.devices.iter().map(|(device, past)| {
            let activity = DeviceActivity {
                software: past.software.clone(),
                heard: past.heard,
                bytes: past.closed,
                ..DeviceActivity::default()
            };
            (*device, activity)
        });
        let mut found: BTreeMap<PublicKey, DeviceActivity> = past.collect();
        for open in ledger.open.values() {
            let activity = found.entry(open.device).or_default();
            let stats = open.session.stats();
            activity.bytes = activity.bytes.plus(&open.session);
            activity.heard = activity.heard.max(Some(open.heard));
            activity.since = activity.since.max(Some(open.since));
            // Before the first measurement, the transport assumes a value.
            activity.rtt = stats.min_rtt.map(|_| stats.srtt);
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock()
    }
}

impl OpenSession {
    fn look(&mut self, now: SystemTime) {
        let received = self.session.stats().bytes_received;
        if received != self.received {
            self.received = received;
            self.heard = now;
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        if let Some(mut open) = ledger.open.remove(&self.number) {
            open.look(SystemTime::now());
            ledger.closed = ledger.closed.plus(&open.session);
            let past = ledger.devices.entry(open.device).or_default();
            past.closed = past.closed.plus(&open.session);
            past.heard = past.heard.max(Some(open.heard));
        }
    }
}

impl LinkBytes {
    /// The sum with the bytes of a session.
    fn plus(self, session: &Session) -> Self {
        let stats = session.stats();
        Self {
            sent: self.sent + stats.bytes_sent,
            received: self.received + stats.bytes_received,
        }
    }
}

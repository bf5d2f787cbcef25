//! The open sessions, and what is known of each device, also from before the gateway's start.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_driver::{LinkState, Session};
use longhaul_types::{BitRate, PublicKey};

use super::{device_usage::DeviceUsage, metrics::LinkBytes, transport_totals::TransportTotals};

/// Open sessions, and the activity of devices.
#[derive(Debug, Default)]
pub struct SessionLedger(Mutex<Ledger>);

#[derive(Debug, Default)]
struct Ledger {
    next: u64,
    /// Bounded by the number of sessions that the listener admits.
    open: BTreeMap<u64, OpenSession>,
    closed: TransportTotals,
    /// Of clients without an agent, too. Bounded by the number of devices and named clients that were ever admitted.
    devices: BTreeMap<PublicKey, DeviceUsage>,
    /// True if something changed since [`SessionLedger::take_changed`].
    has_changed: bool,
}

#[derive(Debug)]
struct OpenSession {
    session: Session,
    device: PublicKey,
    since: SystemTime,
    /// Bytes that the device's usage contains already.
    counted: LinkBytes,
    heard: SystemTime,
    /// Time of the last packet in either direction, to within a second.
    moved: SystemTime,
}

/// What the gateway knows of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceActivity {
    /// What is kept across restarts, with the open session.
    pub usage: DeviceUsage,
    /// Start of the open session.
    pub since: Option<SystemTime>,
    /// True if the device's packets arrive.
    pub is_open: bool,
    /// Round-trip time of the open session, smoothed; `None` if nothing has been measured.
    pub rtt: Option<Duration>,
}

/// An open session and its device's use of the month.
#[derive(Debug)]
pub struct SessionUse {
    /// Number of the session since the gateway's start.
    pub number: u64,
    /// The session.
    pub session: Session,
    /// Its device.
    pub device: PublicKey,
    /// Bytes of the month in both directions.
    pub in_month: u64,
    /// Time since the last packet in either direction.
    pub quiet: Duration,
}

/// A session in the ledger; drop it when the session has ended.
pub struct Entry {
    ledger: Arc<SessionLedger>,
    number: u64,
}

impl SessionLedger {
    /// Creates a ledger with what is known of the devices from before.
    pub fn new(devices: BTreeMap<PublicKey, DeviceUsage>) -> Self {
        Self(Mutex::new(Ledger {
            devices,
            ..Ledger::default()
        }))
    }

    /// Adds a session until the result is dropped.
    pub fn enter(self: &Arc<Self>, session: Session, device: PublicKey) -> Entry {
        let now = SystemTime::now();
        let mut ledger = self.lock();
        let number = ledger.next;
        ledger.next += 1;
        let open = OpenSession {
            session,
            device,
            since: now,
            counted: LinkBytes::default(),
            heard: now,
            moved: now,
        };
        ledger.open.insert(number, open);
        ledger.count(now);
        drop(ledger);
        Entry {
            ledger: Arc::clone(self),
            number,
        }
    }

    /// Counts bytes of a client without an agent; returns those of the month in both directions.
    pub fn count_client(&self, client: PublicKey, bytes: LinkBytes, now: SystemTime) -> u64 {
        let mut ledger = self.lock();
        if bytes != LinkBytes::default() {
            let usage = ledger.devices.entry(client).or_default();
            usage.count(bytes, now);
            usage.heard = usage.heard.max(Some(now));
            ledger.has_changed = true;
        }
        let usage = ledger.devices.get(&client);
        usage.map_or(0, |usage| usage.in_month(now).both())
    }

    /// Notes the name by which the device's agent introduces itself.
    pub fn introduce(&self, device: PublicKey, software: &str) {
        let mut ledger = self.lock();
        ledger.devices.entry(device).or_default().software = Some(software.to_owned());
        ledger.has_changed = true;
    }

    /// Counts what the sessions have transferred since the last look. Called about twice a second.
    pub fn look(&self) {
        self.lock().count(SystemTime::now());
    }

    /// The open sessions.
    pub fn open_sessions(&self) -> Vec<SessionUse> {
        let now = SystemTime::now();
        let ledger = self.lock();
        let open = ledger.open.iter().map(|(number, open)| {
            let usage = ledger.devices.get(&open.device);
            SessionUse {
                number: *number,
                session: open.session.clone(),
                device: open.device,
                in_month: usage.map_or(0, |usage| usage.in_month(now).both()),
                quiet: now.duration_since(open.moved).unwrap_or_default(),
            }
        });
        open.collect()
    }

    /// Counters of all sessions since the start.
    pub fn totals(&self) -> TransportTotals {
        let ledger = self.lock();
        let open = ledger.open.values();
        open.fold(ledger.closed, |sum, open| sum.plus(&open.session.stats()))
    }

    /// Bytes of unread and unacknowledged data of the open sessions.
    pub fn buffered(&self) -> u64 {
        let ledger = self.lock();
        let held = ledger.open.values().map(|open| {
            let stats = open.session.stats();
            stats.receive_buffered.bytes() + stats.send_buffered.bytes()
        });
        held.sum()
    }

    /// What is kept across restarts, if it has changed since the last call.
    pub fn take_changed(&self) -> Option<BTreeMap<PublicKey, DeviceUsage>> {
        let mut ledger = self.lock();
        ledger.count(SystemTime::now());
        std::mem::take(&mut ledger.has_changed).then(|| ledger.devices.clone())
    }

    /// Notes that what [`SessionLedger::take_changed`] returned could not be kept.
    pub fn not_kept(&self) {
        self.lock().has_changed = true;
    }

    /// The devices that have had a session.
    pub fn activity(&self) -> BTreeMap<PublicKey, DeviceActivity> {
        let mut ledger = self.lock();
        ledger.count(SystemTime::now());
        let known = ledger.devices.iter().map(|(device, usage)| {
            let activity = DeviceActivity {
                usage: usage.clone(),
                ..DeviceActivity::default()
            };
            (*device, activity)
        });
        let mut found: BTreeMap<PublicKey, DeviceActivity> = known.collect();
        for open in ledger.open.values() {
            let activity = found.entry(open.device).or_default();
            let stats = open.session.stats();
            activity.since = activity.since.max(Some(open.since));
            activity.is_open |= *open.session.state().borrow() == LinkState::Open;
            // Before the first measurement, the transport assumes a value.
            activity.rtt = stats.min_rtt.map(|_| stats.srtt);
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock()
    }
}

impl Ledger {
    fn count(&mut self, now: SystemTime) {
        for open in self.open.values_mut() {
            let usage = self.devices.entry(open.device).or_default();
            self.has_changed |= open.count(usage, now);
        }
    }
}

impl OpenSession {
    /// Counts what was transferred since the last look; returns true if that is anything.
    fn count(&mut self, usage: &mut DeviceUsage, now: SystemTime) -> bool {
        let stats = self.session.stats();
        let seen = LinkBytes {
            sent: stats.bytes_sent,
            received: stats.bytes_received,
        };
        if seen == self.counted {
            return false;
        }
        self.moved = now;
        if seen.received != self.counted.received {
            self.heard = now;
        }
        usage.count(seen.minus(self.counted), now);
        usage.heard = usage.heard.max(Some(self.heard));
        usage.link = stats
            .link_rate
            .filter(|rate| *rate > BitRate::bps(0))
            .or(usage.link);
        self.counted = seen;
        true
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        if let Some(mut open) = ledger.open.remove(&self.number) {
            let usage = ledger.devices.entry(open.device).or_default();
            let changed = open.count(usage, SystemTime::now());
            ledger.has_changed |= changed;
            ledger.closed = ledger.closed.plus(&open.session.stats());
        }
    }
}

impl LinkBytes {
    /// The sum.
    pub const fn plus(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_add(other.sent),
            received: self.received.saturating_add(other.received),
        }
    }

    /// The difference; zero where `other` is larger.
    const fn minus(self, other: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(other.sent),
            received: self.received.saturating_sub(other.received),
        }
    }

    /// Bytes of both directions.
    pub const fn both(self) -> u64 {
        self.sent.saturating_add(self.received)
    }
}

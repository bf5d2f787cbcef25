//! A link of the world, for its readers.
use std::{
    fmt,
    io::{self, PipeWriter, Write as _},
    sync::{Arc, mpsc::sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use parking_lot::Mutex;

use longhaul_netem::{AddressChanges, Count, DelayHistogram, Hop, HopConfig, LinkStats, Side};
use longhaul_types::{ByteCount, Timestamp};
use tun_rs::SyncDevice;

use crate::{
    clock::Clock,
    driver::{Addresses, Driver, DriverCounters, LinkSample, Sampling, Shared},
};

/// Shortest interval between samples: with shorter ones the driver would have little time for packets.
const MIN_SAMPLING: Duration = Duration::from_millis(1);

/// An emulated link with both directions. *Down* is towards the client, *up* away from it, on both links of
/// the world.
///
/// Times are [`Timestamp`]s since the world's start, the same on both links.
#[derive(Clone)]
pub struct EmulatedLink {
    shared: Arc<Shared>,
    wake: Arc<Mutex<PipeWriter>>,
}

impl fmt::Debug for EmulatedLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmulatedLink").finish_non_exhaustive()
    }
}

/// Counters of a link at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Time of the snapshot.
    pub now: Timestamp,
    /// Direction towards the client.
    pub down: LinkStats,
    /// Direction away from the client.
    pub up: LinkStats,
    /// Packets that arrived for an address that the client no longer had. `down` counts them as delivered.
    pub misaddressed: Count,
    /// Counters of the driver, outside of the model.
    pub driver: DriverCounters,
}

/// Result of waiting for an idle link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quiet {
    /// No packet was offered, queued or in flight for the requested time.
    Reached,
    /// The limit passed first.
    LimitPassed,
}

/// Stops a link's thread when dropped.
#[derive(Debug)]
pub(crate) struct LinkThread {
    link: EmulatedLink,
    thread: Option<JoinHandle<()>>,
}

impl EmulatedLink {
    /// Joins two devices by a link with this configuration.
    pub(crate) fn start(
        name: &'static str,
        clock: Clock,
        config: HopConfig,
        seed: u64,
        near: SyncDevice,
        far: SyncDevice,
    ) -> io::Result<(Self, LinkThread)> {
        let (wake_reader, wake) = io::pipe()?;
        let addresses = if config.address_changes == AddressChanges::default() {
            Addresses::Fixed
        } else {
            Addresses::Changing
        };
        let (ready, started) = sync_channel(1);
        let shared = Arc::new(Shared::new(clock, Hop::new(config, seed)));
        let driver = Driver {
            shared: shared.clone(),
            near,
            far,
            addresses,
            wake: wake_reader,
            ready,
        };
        let thread = thread::Builder::new()
            .name(format!("link {name}"))
            .spawn(move || driver.run())?;
        let link = Self {
            shared,
            wake: Arc::new(Mutex::new(wake)),
        };
        let owner = LinkThread {
            link: link.clone(),
            thread: Some(thread),
        };
        // Packets that come earlier would be delayed more than the link specifies. A failure of the driver is
        // visible in its counters.
        let _ = started.recv();
        Ok((link, owner))
    }

    /// Current time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Returns the current counters.
    pub fn snapshot(&self) -> Snapshot {
        let mut state = self.shared.lock();
        let now = self.now();
        state.advance(now);
        Snapshot {
            now,
            down: *state.hop.down().stats(),
            up: *state.hop.up().stats(),
            misaddressed: state.hop.misaddressed(),
            driver: state.counters.clone(),
        }
    }

    /// Returns the time between `from` and `to` (both past) in which the direction to the client was
    /// backlogged and not held by an outage; `None` if the link has discarded part of that time (it stores
    /// 65,536 busy periods).
    pub fn busy_down(&self, from: Timestamp, to: Timestamp) -> Option<Duration> {
        let mut state = self.shared.lock();
        state.advance(self.now());
        state.hop.down().busy_between(from, to)
    }

    /// Returns the queueing delays since the start or the last call: down, up.
    pub fn take_queueing_delays(&self) -> (DelayHistogram, DelayHistogram) {
        let mut state = self.shared.lock();
        state.advance(self.now());
        let down = state.hop.take_queueing_delays(Side::Client);
        (down, state.hop.take_queueing_delays(Side::Gateway))
    }

    /// Returns the delay of packet deliveries to the kernel compared with the model, since the start or the
    /// last call: the error of the emulator. It grows when the machine is overloaded; a run whose lateness is
    /// not small compared with the link's delay measures the machine.
    pub fn take_lateness(&self) -> DelayHistogram {
        std::mem::take(&mut self.shared.lock().lateness)
    }

    /// Starts to sample the link's state at each multiple of `interval` (at least a millisecond), and ends an
    /// earlier sampling. Samples that have not been taken are kept.
    pub fn start_sampling(&self, interval: Duration) {
        let interval = interval.max(MIN_SAMPLING);
        let mut state = self.shared.lock();
        let passed = self.now().as_nanos() / whole_nanos(interval);
        let next = Timestamp::from_nanos((passed + 1).saturating_mul(whole_nanos(interval)));
        state.sampling = Some(Sampling { interval, next });
        drop(state);
        self.wake_driver();
    }

    /// Replaces the model of the link, which must be idle, as when a computer comes to another network. The counters begin
    /// anew.
    pub fn change(&self, config: HopConfig, seed: u64) {
        self.shared.lock().hop = Hop::new(config, seed);
        self.wake_driver();
    }

    /// Loses one packet of the direction towards `receiver`: the packet with which the bytes sent from now on
    /// reach `bytes`.
    pub fn lose_after(&self, receiver: Side, bytes: ByteCount) {
        let mut state = self.shared.lock();
        let now = self.now();
        state.advance(now);
        state.hop.lose_after(now, receiver, bytes);
    }

    /// Returns the samples up to now and removes them.
    pub fn take_samples(&self) -> Vec<LinkSample> {
        let mut state = self.shared.lock();
        state.advance(self.now());
        std::mem::take(&mut state.samples)
    }

    /// Waits until no packet has been offered, queued or in flight for `quiet` from now on, or `limit` has
    /// passed. Packets sent just before the call may not have reached the link yet, so earlier idle time does
    /// not count.
    pub async fn idle(&self, quiet: Duration, limit: Duration) -> Quiet {
        let called = self.now();
        let give_up = called + limit;
        loop {
            let snapshot = self.snapshot();
            let now = snapshot.now;
            let empty = [&snapshot.down, &snapshot.up]
                .iter()
                .all(|stats| stats.queued.packets == 0 && stats.in_flight.packets == 0);
            let quiet_at = match self.shared.lock().last_activity {
                last if empty => last.max(called) + quiet,
                _ => now + quiet,
            };
            if quiet_at <= now {
                return Quiet::Reached;
            }
            if now >= give_up {
                return Quiet::LimitPassed;
            }
            let wait = quiet_at.min(give_up) - now;
            tokio::time::sleep_until(tokio::time::Instant::now() + wait).await;
        }
    }

    /// Wakes the driver, which then reads the state again.
    fn wake_driver(&self) {
        let mut wake = self.wake.lock();
        // It fails only if the driver has ended.
        let _ = wake.write_all(&[0]);
    }
}

fn whole_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        self.link.shared.stop();
        self.link.wake_driver();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

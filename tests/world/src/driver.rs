//! The thread that carries packets between two TUN devices through the link model.
use std::{
    io::{self, PipeReader, Read as _},
    os::fd::AsFd as _,
    process::Command,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    time::Duration,
};

use longhaul_netem::{Count, DelayHistogram, Hop, Side};
use longhaul_types::{ByteCount, Timestamp};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::{prctl, time::TimeSpec},
};
use tun_rs::SyncDevice;

use crate::{clock::Clock, translation};

/// Packets read from one device before the other one and the due deliveries get their turn.
const READ_BATCH: usize = 64;

/// Most samples kept, 48 MiB: half a day at 20 a second. Later ones are not recorded.
const MAX_SAMPLES: usize = 1 << 20;

/// The lowest nice value, for the calling thread alone (Linux has one for each thread).
const HIGHEST_PRIORITY: i32 = -20;

/// The largest IP packet.
const MAX_PACKET: usize = 65_535;

/// The link's course at one time: cumulative bytes sent, and the bytes in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSample {
    /// When.
    pub at: Timestamp,
    /// Bytes that have left the queue towards the client since the world's start, lost ones included.
    pub down_bytes_sent: ByteCount,
    /// The same, away from the client.
    pub up_bytes_sent: ByteCount,
    /// Bytes in the queue towards the client.
    pub down_queued: ByteCount,
    /// The same, away from the client.
    pub up_queued: ByteCount,
}

/// What the driver saw beside the model. In a sound run all counts but `multicast` are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Packets that are not IPv4. They were not carried.
    pub foreign: Count,
    /// Packets to multicast and broadcast addresses, carried like others.
    pub multicast: Count,
    /// Packets that the model delivered and the kernel did not take. It refuses what a flipped bit has turned into no IP
    /// packet; anything else is a fault of the test world.
    pub write_failures: Count,
    /// The last such refusal.
    pub write_error: Option<io::ErrorKind>,
    /// Why the driver has stopped, if it has: the link is dead then.
    pub fault: Option<String>,
}

/// What the driver and the link's readers share.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    state: Mutex<State>,
    stop: AtomicBool,
}

pub(crate) struct State {
    pub(crate) hop: Hop<Vec<u8>>,
    pub(crate) counters: DriverCounters,
    pub(crate) sampling: Option<Sampling>,
    pub(crate) samples: Vec<LinkSample>,
    /// When a packet was last offered or delivered.
    pub(crate) last_activity: Timestamp,
    pub(crate) lateness: DelayHistogram,
}

#[derive(Clone, Copy)]
pub(crate) struct Sampling {
    pub(crate) interval: Duration,
    pub(crate) next: Timestamp,
}

impl Shared {
    pub(crate) fn new(clock: Clock, hop: Hop<Vec<u8>>) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                hop,
                counters: DriverCounters::default(),
                sampling: None,
                samples: Vec::new(),
                last_activity: Timestamp::ZERO,
                lateness: DelayHistogram::default(),
            }),
            stop: AtomicBool::new(false),
        }
    }

    /// The state. It holds no invariant that a panic elsewhere could have broken.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the driver end at its next wake-up.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl State {
    /// Records the samples that are due at `now`, each as the model stood at its own time.
    fn sample(&mut self, now: Timestamp) {
        while let Some(sampling) = &mut self.sampling
            && sampling.next <= now
        {
            let at = sampling.next;
            sampling.next += sampling.interval;
            self.hop.advance(at);
            if self.samples.len() < MAX_SAMPLES {
                let (down, up) = (self.hop.down().stats(), self.hop.up().stats());
                self.samples.push(LinkSample {
                    at,
                    down_bytes_sent: down.sent.bytes,
                    up_bytes_sent: up.sent.bytes,
                    down_queued: down.queued.bytes,
                    up_queued: up.queued.bytes,
                });
            }
        }
    }

    fn next_wake(&self) -> Option<Timestamp> {
        let event = self.hop.next_event();
        let sample = self.sampling.map(|sampling| sampling.next);
        event.into_iter().chain(sample).min()
    }

    fn refuse_foreign(&mut self, packet: &[u8]) -> bool {
        let (version, destination) = (packet.first().map(|byte| byte >> 4), packet.get(16));
        if version != Some(4) {
            count(&mut self.counters.foreign, packet.len());
            return true;
        }
        if destination.is_some_and(|byte| *byte >= 224) {
            count(&mut self.counters.multicast, packet.len());
        }
        false
    }
}

fn count(count: &mut Count, len: usize) {
    count.packets += 1;
    count.bytes += ByteCount::new(len as u64);
}

/// Whether packets carry the client's own address on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    Fixed,
    /// The driver translates, see [`translation`].
    Changing,
}

/// The two devices of a link and the model between them.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    /// The device on the client's side of the link.
    pub(crate) near: SyncDevice,
    /// The device on the Internet's side.
    pub(crate) far: SyncDevice,
    pub(crate) addresses: Addresses,
    /// Becomes readable when the state has changed under the driver, or it is to stop.
    pub(crate) wake: PipeReader,
    /// Told when the driver begins to carry packets.
    pub(crate) ready: SyncSender<()>,
}

impl Driver {
    /// Runs until told to stop.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.carry() {
            tracing::error!(%error, "an emulated link has died");
            self.shared.lock().counters.fault = Some(error.to_string());
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        // Without it the kernel may wake us 50 us late to save power.
        prctl::set_timerslack(1)?;
        take_precedence();
        // Nobody listens any more only if the world could not be built.
        let _ = self.ready.send(());
        let mut buffer = vec![0; MAX_PACKET];
        while !self.shared.stop.load(Ordering::Acquire) {
            self.deliver_due();
            let more_up = self.take_in(Side::Client, &mut buffer)?;
            let more_down = self.take_in(Side::Gateway, &mut buffer)?;
            if more_up == Backlog::Empty && more_down == Backlog::Empty {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Writes out everything that has arrived.
    fn deliver_due(&self) {
        loop {
            let mut state = self.shared.lock();
            let now = self.shared.clock.now();
            state.sample(now);
            let delivery = match state.hop.poll_client(now) {
                Some(mut delivery) => {
                    if self.addresses == Addresses::Changing {
                        translation::to_inside(&mut delivery.packet);
                    }
                    Some((&self.near, delivery))
                }
                None => state.hop.poll_gateway(now).map(|from_client| {
                    let mut delivery = from_client.delivery;
                    if self.addresses == Addresses::Changing {
                        translation::to_outside(&mut delivery.packet, from_client.from);
                    }
                    (&self.far, delivery)
                }),
            };
            let Some((device, delivery)) = delivery else {
                return;
            };
            state.last_activity = now;
            state.lateness.record(now - delivery.arrived);
            // The kernel handles the packet within the write: readers of the state need not wait for that.
            drop(state);
            if let Err(error) = device.send(&delivery.packet) {
                let counters = &mut self.shared.lock().counters;
                count(&mut counters.write_failures, delivery.packet.len());
                counters.write_error = Some(error.kind());
            }
        }
    }

    /// Hands the model what the kernel at `side` has sent, up to a batch.
    fn take_in(&self, side: Side, buffer: &mut [u8]) -> io::Result<Backlog> {
        let device = match side {
            Side::Client => &self.near,
            Side::Gateway => &self.far,
        };
        for _ in 0..READ_BATCH {
            let len = match device.recv(buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Backlog::Empty),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let packet = buffer.get(..len).unwrap_or_default();
            let mut state = self.shared.lock();
            let now = self.shared.clock.now();
            state.sample(now);
            if state.refuse_foreign(packet) {
                continue;
            }
            state.last_activity = now;
            let packet = packet.to_vec();
            match (side, self.addresses) {
                (Side::Gateway, Addresses::Changing) => {
                    let to = translation::destination(&packet);
                    state.hop.send_to_client(now, to, packet);
                }
                (Side::Client | Side::Gateway, _) => {
                    state.hop.send(now, side, packet);
                }
            }
        }
        Ok(Backlog::MayHoldMore)
    }

    /// Sleeps until a device has a packet, something is due or someone calls.
    fn wait(&mut self) -> io::Result<()> {
        let next = self.shared.lock().next_wake();
        let timeout = next.map(|next| TimeSpec::from_duration(next - self.shared.clock.now()));
        let watched = PollFlags::POLLIN;
        let mut fds = [
            PollFd::new(self.near.as_fd(), watched),
            PollFd::new(self.far.as_fd(), watched),
            PollFd::new(self.wake.as_fd(), watched),
        ];
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if fds[2].any().unwrap_or(true) {
            let mut calls = [0; 64];
            if self.wake.read(&mut calls)? == 0 {
                // The other end is gone, and so is everyone who could want anything.
                self.shared.stop();
            }
        }
        Ok(())
    }
}

/// Has the scheduler prefer the calling thread: a link does not slow down when its users compute.
///
/// Only root of the machine may do this; without it the lateness tells how much the link suffers.
fn take_precedence() {
    let thread = rustix::thread::gettid().to_string();
    // There is no safe call for the real-time scheduler; the program belongs to util-linux, as `unshare` does. The lowest
    // real-time priority is above everything else, and the kernel leaves the others 5 % of the time in any case.
    let outcome = Command::new("chrt")
        .args(["--fifo", "--pid", "1", &thread])
        .output();
    if outcome.is_ok_and(|output| output.status.success()) {
        return;
    }
    if rustix::process::setpriority_process(None, HIGHEST_PRIORITY).is_err() {
        tracing::debug!("the threads of emulated links run at ordinary priority");
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Backlog {
    Empty,
    MayHoldMore,
}

//! The thread that carries packets between two TUN devices through the link model.
use std::{
    io::{self, PipeReader, Read as _},
    os::fd::AsFd as _,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::SyncSender,
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_netem::{Count, DelayHistogram, Hop, Side};
use longhaul_types::{ByteCount, Timestamp};
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, ppoll},
    sys::{prctl, time::TimeSpec},
};
use tun_rs::SyncDevice;

use crate::{clock::Clock, translation};

/// Number of packets read from one device before the other device and the due deliveries are served.
const READ_BATCH: usize = 64;

/// Maximum number of stored samples, 48 MiB: half a day at 20 per second. Later samples are not recorded.
const MAX_SAMPLES: usize = 1 << 20;

/// Lowest nice value, set for the calling thread only (Linux has one per thread).
const HIGHEST_PRIORITY: i32 = -20;

/// Maximum length of an IP packet.
const MAX_PACKET: usize = 65_535;

/// State of the link at one time: cumulative bytes sent, and bytes in the queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSample {
    /// Time of the sample.
    pub at: Timestamp,
    /// Bytes that have left the queue towards the client since the world's start, including lost bytes.
    pub down_bytes_sent: ByteCount,
    /// The same in the direction from the client.
    pub up_bytes_sent: ByteCount,
    /// Bytes in the queue towards the client.
    pub down_queued: ByteCount,
    /// The same in the direction from the client.
    pub up_queued: ByteCount,
}

/// Counters of the driver, outside of the model. In a valid run all counts except `multicast` are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Packets that are not IPv4. They were not carried.
    pub foreign: Count,
    /// Packets to multicast and broadcast addresses, which are carried like others.
    pub multicast: Count,
    /// Packets that the model delivered and the kernel rejected. It rejects packets that an inverted bit has
    /// turned into invalid IP packets; other rejections are errors of the test world.
    pub write_failures: Count,
    /// The last such rejection.
    pub write_error: Option<io::ErrorKind>,
    /// Reason for which the driver has stopped; the link no longer works then.
    pub fault: Option<String>,
}

/// State shared by the driver and the link's readers.
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
    /// Time at which a packet was last offered or delivered.
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

    /// Locks the state. It has no invariant that a panic elsewhere could have violated.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Stops the driver at its next wake-up.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }
}

impl State {
    /// Advances the model to `now`. Samples that are due before are taken on the way, also if the driver is late.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        self.sample(now);
        self.hop.advance(now);
    }

    /// Records the samples that are due at `now`, each with the state of the model at its own time.
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

/// Client address of packets on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    Fixed,
    /// The driver translates addresses, see [`translation`].
    Changing,
}

/// The two devices of a link and the model between them.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    /// The device on the client's side of the link.
    pub(crate) near: SyncDevice,
    /// The device on the Internet's side of the link.
    pub(crate) far: SyncDevice,
    pub(crate) addresses: Addresses,
    /// Becomes readable when another thread has changed the state, or when the driver must stop.
    pub(crate) wake: PipeReader,
    /// Receives a message when the driver starts to carry packets.
    pub(crate) ready: SyncSender<()>,
}

impl Driver {
    /// Runs until it is stopped.
    pub(crate) fn run(mut self) {
        if let Err(error) = self.carry() {
            tracing::error!(%error, "an emulated link has stopped");
            self.shared.lock().counters.fault = Some(error.to_string());
        }
    }

    fn carry(&mut self) -> io::Result<()> {
        // Without this the kernel may wake the thread 50 us late to save power.
        prctl::set_timerslack(1)?;
        raise_priority();
        // The receiver is gone only if the world could not be built.
        let _ = self.ready.send(());
        let mut buffer = vec![0; MAX_PACKET];
        while !self.shared.stop.load(Ordering::Acquire) {
            self.deliver_due();
            let more_up = self.read_packets(Side::Client, &mut buffer)?;
            let more_down = self.read_packets(Side::Gateway, &mut buffer)?;
            if more_up == Backlog::Empty && more_down == Backlog::Empty {
                self.wait()?;
            }
        }
        Ok(())
    }

    /// Writes all packets that have arrived.
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
            // The kernel processes the packet within the write: readers of the state need not wait for it.
            drop(state);
            if let Err(error) = device.send(&delivery.packet) {
                let counters = &mut self.shared.lock().counters;
                count(&mut counters.write_failures, delivery.packet.len());
                counters.write_error = Some(error.kind());
            }
        }
    }

    /// Adds to the model the packets that the kernel at `side` has sent, up to a batch.
    fn read_packets(&self, side: Side, buffer: &mut [u8]) -> io::Result<Backlog> {
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

    /// Sleeps until a device has a packet, an event is due or the wake pipe is readable.
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
                // The other end is closed, so no user of the link remains.
                self.shared.stop();
            }
        }
        Ok(())
    }
}

/// Raises the priority of the calling thread: a link must not slow down while its users compute.
///
/// Only root of the machine may do this; without it the lateness shows the effect on the link.
fn raise_priority() {
    let thread = rustix::thread::gettid().to_string();
    // There is no safe call for the real-time scheduler; the program belongs to util-linux, as `unshare`
    // does. The lowest real-time priority is above all ordinary threads, and the kernel reserves 5 % of the
    // time for these in any case.
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

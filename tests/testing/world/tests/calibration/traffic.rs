//! Worlds for measurements, and traffic of real kernels.
use std::{
    io::{self, IoSliceMut},
    net::{Ipv4Addr, SocketAddr},
    os::fd::{AsFd, AsRawFd as _, RawFd},
    time::{Duration, SystemTime},
};

use parking_lot::{Mutex, MutexGuard};

use longhaul_netem::{Capacity, HopConfig, LinkConfig, Outage, OutageSchedule, Profile, WhileOut};
use longhaul_types::{BitRate, ByteCount, Timestamp};
use longhaul_world::{CLIENT, GATEWAY_ON_HOP, Namespace, World, WorldConfig, WorldError};
use nix::sys::{
    socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt::ReceiveTimestampns},
    time::TimeSpec,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::{TcpListener, TcpStream, UdpSocket},
    sync::oneshot,
    time::timeout,
};

/// Maximum waiting time of the tests.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Seed of all worlds in these tests.
pub(crate) const SEED: u64 = 7;
/// Longer than the sending of a blast takes on a loaded machine.
pub(crate) const HELD: Duration = Duration::from_millis(400);
/// Length of the headers of an IPv4 packet with UDP.
pub(crate) const UDP_HEADERS: usize = 28;
/// Length of [`ping`]'s echo requests and replies on the link.
pub(crate) const PING_BYTES: u64 = 84;

/// Lock of the machine, held while time is measured.
pub(crate) fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    // A failed test does not invalidate it.
    MACHINE.lock()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Returns a link of this rate, delay and queue bound, without impairments.
pub(crate) fn link(rate: BitRate, delay: Duration, queue: ByteCount) -> LinkConfig {
    LinkConfig::new(Capacity::Rate(rate), delay, queue)
}

/// Returns a hop with equal directions.
pub(crate) fn both(link: LinkConfig) -> HopConfig {
    HopConfig::new(link.clone(), link)
}

/// Returns the same hop, held for its first [`HELD`]: packets sent meanwhile wait in its queues. A delay of
/// the sender on a loaded machine then leaves no gap on the link.
pub(crate) fn held(mut hop: HopConfig) -> HopConfig {
    for link in [&mut hop.down, &mut hop.up] {
        link.outages = OutageSchedule::new(vec![Outage {
            start: Timestamp::ZERO,
            length: HELD,
            behaviour: WhileOut::Hold,
        }])
        .unwrap();
    }
    hop
}

pub(crate) fn profile(name: &str) -> HopConfig {
    Profile::named(name).unwrap().into()
}

pub(crate) fn config(hop: HopConfig) -> WorldConfig {
    WorldConfig {
        hop,
        internet: profile("lan-fast"),
        seed: SEED,
        congestion: None,
    }
}

/// Builds a world with this hop and a fast Internet link. Returns `None`, with a message, if the test may not
/// build one.
pub(crate) fn world(hop: HopConfig) -> Option<World> {
    build(config(hop))
}

/// Maximum delay of a delivery by the machine at which measured times show the link.
const ON_TIME: Duration = Duration::from_millis(1);
/// Maximum number of measurements, the late ones included.
const ATTEMPTS: u32 = 10;

/// Measures something in a new [`world`]. Repeats the measurement, in another world, while the machine
/// delivered a packet more than [`ON_TIME`] late: such times show the machine. Returns the world and its result, or
/// `None`, with a message, if all measurements were late.
pub(crate) fn measured<T>(hop: &HopConfig, measure: impl Fn(&World) -> T) -> Option<(World, T)> {
    for attempt in 1..=ATTEMPTS {
        let world = world(hop.clone())?;
        let result = measure(&world);
        let late = world.hop().take_lateness().max();
        if late <= ON_TIME {
            return Some((world, result));
        }
        eprintln!("measurement {attempt} of {ATTEMPTS}: the machine delivered a packet {late:?} late");
    }
    eprintln!("SKIPPED: this machine is too busy to measure a link");
    None
}

pub(crate) fn build(config: WorldConfig) -> Option<World> {
    match World::build(config) {
        Ok(world) => Some(world),
        Err(
            error @ (WorldError::Namespace(_)
            | WorldError::Device { .. }
            | WorldError::Sysctl(_)
            | WorldError::Congestion { .. }),
        ) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Runs a test's future on a thread outside of the world's namespaces.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        timeout(PATIENCE, work)
            .await
            .expect("the test exceeds its time limit")
    })
}

/// Returns the round-trip times of `count` echo requests of [`PING_BYTES`], sent one after the other. A lost
/// request is repeated.
pub(crate) async fn ping(from: &Namespace, to: Ipv4Addr, count: u16) -> Vec<Duration> {
    from.run(move || async move {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::ICMPV4)).unwrap();
        socket.set_nonblocking(true).unwrap();
        with_stamps(&socket);
        let socket = UdpSocket::from_std(socket.into()).unwrap();
        let mut times = Vec::new();
        let mut number = 0_u16;
        while times.len() < usize::from(count) {
            number += 1;
            times.extend(
                timeout(Duration::from_secs(2), echo(&socket, to, number))
                    .await
                    .ok(),
            );
        }
        times
    })
    .await
}

/// Returns the round-trip time of one request, until the kernel has the reply.
async fn echo(socket: &UdpSocket, to: Ipv4Addr, number: u16) -> Duration {
    let mut request = [0; 64];
    request[0] = 8;
    request[6..8].copy_from_slice(&number.to_be_bytes());
    let mut reply = [0; 128];
    let sent = SystemTime::now();
    socket.send_to(&request, SocketAddr::from((to, 0))).await.unwrap();
    loop {
        let (len, at) = receive(socket, &mut reply).await;
        if len == request.len() && reply[0] == 0 && reply[6..8] == request[6..8] {
            return at.duration_since(sent).unwrap();
        }
    }
}

/// Enables the kernel's receive timestamps: the time of the link's delivery, not of a thread's read.
fn with_stamps(socket: &impl AsFd) {
    setsockopt(socket, ReceiveTimestampns, &true).unwrap();
}

/// Reads a datagram and returns its length and the kernel's timestamp.
async fn receive(socket: &UdpSocket, datagram: &mut [u8]) -> (usize, SystemTime) {
    socket
        .async_io(Interest::READABLE, || stamped(socket.as_raw_fd(), datagram))
        .await
        .unwrap()
}

/// Reads from a socket and returns the length and the kernel's timestamp, the last one if TCP has several.
/// Without data, as at the end of a connection, the time is zero.
fn stamped(socket: RawFd, buffer: &mut [u8]) -> io::Result<(usize, SystemTime)> {
    let mut space = nix::cmsg_space!(TimeSpec);
    let mut parts = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<()>(socket, &mut parts, Some(&mut space), flags)?;
    let stamp = match message.cmsgs()?.next() {
        Some(ControlMessageOwned::ScmTimestampns(stamp)) => Duration::from(stamp),
        other => {
            assert_eq!(
                message.bytes, 0,
                "the received data has no kernel timestamp: {other:?}"
            );
            Duration::ZERO
        }
    };
    Ok((message.bytes, SystemTime::UNIX_EPOCH + stamp))
}

/// Returns the time that `percent` of the times do not exceed.
pub(crate) fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[(sorted.len() * percent).div_ceil(100).max(1) - 1]
}

/// Direction of a transfer over the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Down,
    Up,
}

impl Way {
    /// Returns sender, receiver and the receiver's address.
    fn ends(self, world: &World) -> (Namespace, Namespace, Ipv4Addr) {
        let (client, gateway) = (world.client().clone(), world.gateway().clone());
        match self {
            Self::Down => (gateway, client, CLIENT),
            Self::Up => (client, gateway, GATEWAY_ON_HOP),
        }
    }
}

/// A datagram at its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
}

/// Sends `count` datagrams of `len` bytes on the link at full speed, and returns the datagrams that the other
/// side's socket receives until the hop is idle.
pub(crate) async fn blast(world: &World, way: Way, count: u32, len: usize) -> Vec<Arrival> {
    let (sender, receiver, address) = way.ends(world);
    let socket = receiver.run_blocking(move || receiving_socket(address));
    let to = socket.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let origin = origin(world);
    let receive = receiver.run(move || receive_until(socket, origin, stopped));
    let send = async {
        sender.run_blocking(move || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            let mut payload = vec![0; len - UDP_HEADERS];
            for number in 0..count {
                payload[..4].copy_from_slice(&number.to_be_bytes());
                socket.send_to(&payload, to).unwrap();
            }
        });
        world.hop().idle(ms(20), PATIENCE).await;
        stop.send(()).unwrap();
    };
    tokio::join!(receive, send).0
}

fn receiving_socket(address: Ipv4Addr) -> UdpSocketOfStd {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    // The largest buffer that the system allows: a late reader must not lose delivered packets.
    let _ = socket.set_recv_buffer_size(8 << 20);
    socket.bind(&SocketAddr::from((address, 0)).into()).unwrap();
    socket.set_nonblocking(true).unwrap();
    with_stamps(&socket);
    socket.into()
}

type UdpSocketOfStd = std::net::UdpSocket;

async fn receive_until(
    socket: UdpSocketOfStd,
    origin: SystemTime,
    mut stopped: oneshot::Receiver<()>,
) -> Vec<Arrival> {
    let socket = UdpSocket::from_std(socket).unwrap();
    let mut arrivals = Vec::new();
    let mut datagram = [0; 2000];
    let mut note = |datagram: &[u8], at: SystemTime| {
        let number = u32::from_be_bytes(datagram[..4].try_into().unwrap());
        let at = Timestamp::ZERO + at.duration_since(origin).unwrap();
        arrivals.push(Arrival { number, at });
    };
    loop {
        tokio::select! {
            biased;
            (len, at) = receive(&socket, &mut datagram) => note(&datagram[..len], at),
            _ = &mut stopped => break,
        }
    }
    // All delivered packets are in the socket now.
    while let Ok((len, at)) = stamped(socket.as_raw_fd(), &mut datagram) {
        note(&datagram[..len], at);
    }
    arrivals
}

/// Wall-clock time of the world's start, because the kernel's timestamps use the wall clock.
fn origin(world: &World) -> SystemTime {
    SystemTime::now() - (world.hop().now() - Timestamp::ZERO)
}

/// Payload received over one TCP connection: times of reception by the kernel, with the cumulative bytes.
pub(crate) type Course = Vec<(Timestamp, u64)>;

/// Transfers `bytes` over TCP and returns the progress at the receiver's socket.
pub(crate) async fn transfer(world: &World, way: Way, bytes: u64) -> Course {
    let (sender, receiver, address) = way.ends(world);
    let listener = receiver.run_blocking(move || std::net::TcpListener::bind((address, 0)).unwrap());
    listener.set_nonblocking(true).unwrap();
    // Connections inherit the option.
    with_stamps(&listener);
    let to = listener.local_addr().unwrap();
    let origin = origin(world);
    let receive = receiver.run(move || async move {
        let (stream, _) = TcpListener::from_std(listener).unwrap().accept().await.unwrap();
        let socket = stream.as_raw_fd();
        let mut course = Course::new();
        let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
        loop {
            let read = stream.async_io(Interest::READABLE, || stamped(socket, &mut buffer));
            let (len, at) = read.await.unwrap();
            if len == 0 {
                return course;
            }
            total += len as u64;
            // A full buffer may end in the middle of the data to which the timestamp belongs.
            if len < buffer.len() {
                course.push((Timestamp::ZERO + at.duration_since(origin).unwrap(), total));
            }
        }
    });
    let send = sender.run(move || async move {
        let mut stream = TcpStream::connect(to).await.unwrap();
        let piece = vec![0x55; 1 << 16];
        let mut left = bytes;
        while left > 0 {
            let len = left.min(piece.len() as u64);
            stream
                .write_all(&piece[..usize::try_from(len).unwrap()])
                .await
                .unwrap();
            left -= len;
        }
        stream.shutdown().await.unwrap();
    });
    tokio::join!(receive, send).0
}

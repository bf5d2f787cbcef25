//! A proxy that splits TCP connections.
use std::{collections::BTreeSet, fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use longhaul_types::BitRate;
use parking_lot::Mutex;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use crate::listening::{self, ListenError};

/// Maximum number of bytes buffered in each direction, in addition to the kernel's socket buffers.
const BUFFER: usize = 64 * 1024;
/// Maximum number of connections at a time; further ones wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 4096;
/// Maximum time until an origin accepts: Linux gives up after 127 s, browsers much earlier.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Destination of the proxy's connection for a redirected connection.
#[derive(Clone, Default)]
pub enum Destination {
    /// The address and port to which the client connected, which are those of the accepted socket.
    #[default]
    AsDialled,
    /// The result of this function for the address to which the client connected.
    Mapped(Arc<dyn Fn(SocketAddr) -> SocketAddr + Send + Sync>),
}

/// How the proxy sends to clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sender {
    /// As the system does.
    #[default]
    OfSystem,
    /// As the gateway's proxy for clients without an agent (decision 48): BBR, and short buffers.
    ForSlowHop {
        /// Bytes that may wait in the kernel.
        unsent: u32,
        /// These bytes and two bandwidth-delay products.
        buffer: usize,
    },
}

impl Sender {
    /// The sender for a link of this rate and round-trip time.
    pub fn for_link(rate: BitRate, rtt: Duration) -> Self {
        const LEAST_UNSENT: u64 = 16 * 1024;
        const MOST_UNSENT: u64 = 128 * 1024;
        const INITIAL_WINDOW: u64 = 10 * 1460;
        let bytes = rate.as_bps() / 8;
        let unsent = (bytes / 10).clamp(LEAST_UNSENT, MOST_UNSENT);
        let flight = u128::from(bytes) * (rtt * 2).as_micros() / 1_000_000;
        let flight = u64::try_from(flight).unwrap_or(u64::MAX).max(INITIAL_WINDOW);
        Self::ForSlowHop {
            unsent: u32::try_from(unsent).unwrap_or(u32::MAX),
            buffer: usize::try_from(flight.saturating_add(unsent)).unwrap_or(usize::MAX),
        }
    }

    /// Sets the options of a connection.
    fn set(self, client: &TcpStream) -> io::Result<()> {
        let Self::ForSlowHop { unsent, buffer } = self else {
            return Ok(());
        };
        let socket = socket2::SockRef::from(client);
        socket.set_tcp_notsent_lowat(unsent)?;
        socket.set_send_buffer_size(buffer)?;
        socket.set_tcp_congestion(b"bbr")
    }
}

/// Counters of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitStatistics {
    /// Connections accepted from clients.
    pub connections: u64,
    /// Connections without a reachable origin, which were reset.
    pub refused: u64,
    /// Connections that came from the proxy itself and were reset: the route from the proxy to the origins
    /// leads back to it.
    pub looped: u64,
    /// Connections that are open now.
    pub open: u64,
    /// Bytes relayed to clients.
    pub bytes_down: u64,
    /// Bytes relayed to origins.
    pub bytes_up: u64,
    /// Connections whose sender the system refused.
    pub senders_refused: u64,
}

/// Error of starting a proxy.
#[derive(Debug, thiserror::Error)]
#[error("the TCP-splitting proxy cannot listen on {address}: {source}")]
pub struct SplittingProxyError {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Error of the operating system.
    pub source: io::Error,
}

/// A transparent TCP-splitting proxy (RFC 3135 section 3.1; the TCP proxy of UMTS-PROXY). It ends when
/// dropped.
///
/// The routing of its namespace redirects connections to an origin to this proxy. It accepts at once,
/// connects to the origin from its own address, and relays with bounded buffers: a slow side slows the other.
/// It relays a half-close and a reset.
#[derive(Debug)]
pub struct SplittingProxy {
    addresses: Vec<SocketAddr>,
    counters: Arc<Counters>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counters {
    statistics: Mutex<SplitStatistics>,
    /// Local addresses of its connections to origins, one for each open connection.
    outgoing: Mutex<BTreeSet<SocketAddr>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

impl SplittingProxy {
    /// Accepts connections at these addresses (one for each redirected port) from tasks of the current
    /// runtime.
    ///
    /// # Errors
    /// Listening on an address fails.
    pub async fn start(listen: &[SocketAddr], destination: Destination) -> Result<Self, SplittingProxyError> {
        Self::start_with(listen, destination, Sender::OfSystem).await
    }

    /// The same with this sender towards clients.
    ///
    /// # Errors
    /// Listening on an address fails.
    pub async fn start_with(
        listen: &[SocketAddr],
        destination: Destination,
        sender: Sender,
    ) -> Result<Self, SplittingProxyError> {
        let counters = Arc::new(Counters::default());
        let turns = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut proxy = Self {
            addresses: Vec::new(),
            counters: Arc::clone(&counters),
            _tasks: JoinSet::new(),
        };
        for address in listen {
            let (listener, local) = listening::listen(*address).await?;
            proxy.addresses.push(local);
            let (counters, destination) = (Arc::clone(&counters), destination.clone());
            let serve = move |stream| split(stream, sender, destination.clone(), Arc::clone(&counters));
            proxy
                ._tasks
                .spawn(listening::accept(listener, Arc::clone(&turns), serve));
        }
        Ok(proxy)
    }

    /// Addresses of the proxy, in the given order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the counters.
    pub fn statistics(&self) -> SplitStatistics {
        self.counters.change(|statistics| *statistics)
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsDialled => f.write_str("AsDialled"),
            Self::Mapped(_) => f.write_str("Mapped"),
        }
    }
}

impl From<ListenError> for SplittingProxyError {
    fn from(ListenError { address, source }: ListenError) -> Self {
        Self { address, source }
    }
}

impl Counters {
    fn change<T>(&self, change: impl FnOnce(&mut SplitStatistics) -> T) -> T {
        change(&mut self.statistics.lock())
    }

    fn outgoing<T>(&self, change: impl FnOnce(&mut BTreeSet<SocketAddr>) -> T) -> T {
        change(&mut self.outgoing.lock())
    }
}

/// Counts a connection as open until it is dropped.
struct Open(Arc<Counters>);

impl Open {
    fn new(counters: Arc<Counters>) -> Self {
        counters.change(|statistics| {
            statistics.connections += 1;
            statistics.open += 1;
        });
        Self(counters)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|statistics| statistics.open -= 1);
    }
}

/// The local address of an open connection to an origin.
struct Outgoing<'a> {
    counters: &'a Counters,
    address: SocketAddr,
}

impl<'a> Outgoing<'a> {
    fn new(counters: &'a Counters, address: SocketAddr) -> Self {
        counters.outgoing(|open| open.insert(address));
        Self { counters, address }
    }
}

impl Drop for Outgoing<'_> {
    fn drop(&mut self) {
        self.counters.outgoing(|open| open.remove(&self.address));
    }
}

async fn split(client: TcpStream, sender: Sender, destination: Destination, counters: Arc<Counters>) {
    let _open = Open::new(Arc::clone(&counters));
    if let Err(error) = sender.set(&client) {
        tracing::debug!(%error, "the system refuses the sender of a connection");
        counters.change(|statistics| statistics.senders_refused += 1);
    }
    let mut client = client;
    if let Err(error) = relay_both(&mut client, &destination, &counters).await {
        tracing::debug!(%error, "a connection was reset");
        reset(&client);
    }
}

/// Relays until both sides have ended, or one has reset its connection: the other must not mistake a reset
/// for an ordinary end.
async fn relay_both(
    client: &mut TcpStream,
    destination: &Destination,
    counters: &Counters,
) -> Result<(), SplitError> {
    let from = client.peer_addr()?;
    let mut origin = match connect(client, destination).await {
        Ok(origin) => origin,
        Err(error) => {
            counters.change(|statistics| statistics.refused += 1);
            return Err(SplitError::Refused(error));
        }
    };
    let _outgoing = Outgoing::new(counters, origin.local_addr()?);
    // Tested only now: the proxy's local address is known when its connection is established, which may be
    // later than the accept.
    if counters.outgoing(|open| open.contains(&from)) {
        counters.change(|statistics| statistics.looped += 1);
        reset(&origin);
        tracing::warn!(
            "connections of the TCP-splitting proxy are redirected to itself; correct the routes to the origins"
        );
        return Err(SplitError::Looped);
    }
    let relayed = {
        let (from_client, to_client) = client.split();
        let (from_origin, to_origin) = origin.split();
        tokio::try_join!(
            relay(from_client, to_origin, Way::Up, counters),
            relay(from_origin, to_client, Way::Down, counters),
        )
    };
    if relayed.is_err() {
        reset(&origin);
    }
    relayed?;
    Ok(())
}

#[derive(Debug, thiserror::Error)]
enum SplitError {
    #[error("the origin does not accept connections: {0}")]
    Refused(io::Error),
    #[error("the connection came from the proxy itself")]
    Looped,
    #[error(transparent)]
    Broken(#[from] io::Error),
}

async fn connect(client: &TcpStream, destination: &Destination) -> io::Result<TcpStream> {
    let dialled = client.local_addr()?;
    let address = match destination {
        Destination::AsDialled => dialled,
        Destination::Mapped(map) => map(dialled),
    };
    let origin = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    origin.set_nodelay(true)?;
    Ok(origin)
}

async fn relay(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    way: Way,
    counters: &Counters,
) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let length = from.read(&mut buffer).await?;
        if length == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..length).unwrap_or_default()).await?;
        counters.change(|statistics| match way {
            Way::Down => statistics.bytes_down += length as u64,
            Way::Up => statistics.bytes_up += length as u64,
        });
    }
}

/// Makes the next close a reset.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

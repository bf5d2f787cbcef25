//! A proxy that splits TCP connections.
use std::{
    collections::BTreeSet,
    fmt, io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpStream,
    sync::Semaphore,
    task::JoinSet,
    time::timeout,
};

use crate::listening::{self, ListenError};

/// Bytes taken from one side and not yet given to the other, each way, beside the kernel's socket buffers.
const BUFFER: usize = 64 * 1024;
/// Connections at a time; further ones wait in the kernel's backlog.
const MAX_CONNECTIONS: usize = 4096;
/// How long an origin may take to accept: Linux gives up after 127 s, browsers long before.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Where a diverted connection goes on.
#[derive(Clone, Default)]
pub enum Destination {
    /// To the address and port that the client dialled, which are the accepted socket's own.
    #[default]
    AsDialled,
    /// To where this function says for the address that was dialled.
    Mapped(Arc<dyn Fn(SocketAddr) -> SocketAddr + Send + Sync>),
}

/// Counters of a proxy since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitStatistics {
    /// Connections accepted from clients.
    pub connections: u64,
    /// Of these, connections that had no origin to go to and were reset.
    pub refused: u64,
    /// Of these, connections that came from the proxy itself and were reset: where it is, the way to the origins leads
    /// back to it.
    pub looped: u64,
    /// Of these, connections that are open now.
    pub open: u64,
    /// Bytes given to clients.
    pub bytes_down: u64,
    /// Bytes given to origins.
    pub bytes_up: u64,
}

/// A proxy that cannot be started.
#[derive(Debug, thiserror::Error)]
#[error("the TCP-splitting proxy cannot listen on {address}: {source}")]
pub struct SplittingProxyError {
    /// Where it was to listen.
    pub address: SocketAddr,
    /// Why it cannot.
    pub source: io::Error,
}

/// A transparent TCP-splitting proxy (RFC 3135 section 3.1; the TCP proxy of UMTS-PROXY). It ends when dropped.
///
/// Clients that dial an origin are diverted to it by the routing of its namespace. It accepts at once, connects to the
/// origin from its own address, and relays with bounded buffers: a slow side slows the other. A half-close is
/// carried over, and so is a reset.
#[derive(Debug)]
pub struct SplittingProxy {
    addresses: Vec<SocketAddr>,
    counters: Arc<Counters>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct Counters {
    statistics: Mutex<SplitStatistics>,
    /// The proxy's own ends of its connections to origins; as many as there are open connections.
    outgoing: Mutex<BTreeSet<SocketAddr>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

impl SplittingProxy {
    /// Takes connections at these addresses (one for each port that is diverted) from tasks of the current runtime.
    ///
    /// # Errors
    /// An address cannot be listened on.
    pub async fn start(listen: &[SocketAddr], destination: Destination) -> Result<Self, SplittingProxyError> {
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
            let serve = move |stream| split(stream, destination.clone(), Arc::clone(&counters));
            proxy
                ._tasks
                .spawn(listening::accept(listener, Arc::clone(&turns), serve));
        }
        Ok(proxy)
    }

    /// Where it listens, in the order given.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What it has done so far.
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
        change(&mut self.statistics.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn outgoing<T>(&self, change: impl FnOnce(&mut BTreeSet<SocketAddr>) -> T) -> T {
        change(&mut self.outgoing.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counts a connection as open while it lives, however it ends.
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

/// The proxy's own end of a connection to an origin while it is open.
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

async fn split(client: TcpStream, destination: Destination, counters: Arc<Counters>) {
    let _open = Open::new(Arc::clone(&counters));
    let mut client = client;
    if let Err(error) = relay_both(&mut client, &destination, &counters).await {
        tracing::debug!(%error, "a connection was reset");
        reset(&client);
    }
}

/// Relays until both sides have ended, or one has reset its connection: the other must not take that for an ordinary
/// end.
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
    // Asked only now: the proxy's end is known when its connection stands, which may be after it was accepted.
    if counters.outgoing(|open| open.contains(&from)) {
        counters.change(|statistics| statistics.looped += 1);
        reset(&origin);
        tracing::warn!("the TCP-splitting proxy is diverted to itself; route the origins away from it");
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
    #[error("the origin does not accept: {0}")]
    Refused(io::Error),
    #[error("it came from the proxy itself")]
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

/// Makes the coming close a reset.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

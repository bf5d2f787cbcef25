//! Agent side: opening a session.
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use longhaul_protocol::{
    connection::TransportConfig,
    endpoint::{AgentEndpointConfig, ConnectError, ConnectTo, Endpoint},
    streams::OpenError,
};
use longhaul_types::{LinkProfile, PublicKey, SecretKey, UnixTime};
use tokio::sync::{mpsc, watch};

use crate::{
    carrier_choice::CarrierPlan,
    clock::Clock,
    driver_task::DriverTask,
    session::{End, LinkState, OpenOptions, Session},
    socket::{SegmentationOffload, SessionSocket},
    stream::SendStream,
};

/// Configuration of a session to be opened.
#[derive(Clone, Debug)]
pub struct DialConfig {
    /// Public key of the gateway, pinned at enrolment.
    pub gateway_key: PublicKey,
    /// Address of the gateway.
    pub remote: SocketAddr,
    /// Secret key of this device.
    pub secret: SecretKey,
    /// Newest token; without a token there is no early data.
    pub token: Option<[u8; 32]>,
    /// Link profile of the hop.
    pub profile: Option<LinkProfile>,
    /// Stamp of the last session: see [`ConnectTo::last_stamp`].
    pub last_stamp: Option<UnixTime>,
    /// Limits and windows.
    pub transport: TransportConfig,
}

/// Further addresses of the gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Alternatives {
    /// The addresses, of either family, in their order. At most seven are used.
    pub addresses: Vec<SocketAddr>,
    /// Time between the first datagrams to two addresses.
    pub delay: Duration,
}

/// A stream that is opened with the session. Its permitted early data is sent in the first datagram.
#[derive(Clone, Debug)]
pub struct FirstStream {
    /// Options of the stream.
    pub options: OpenOptions,
    /// First bytes of the stream.
    pub bytes: Bytes,
    /// States if the stream ends after these bytes.
    pub end: End,
}

/// Errors of starting a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// No UDP socket could be opened.
    #[error("no UDP socket: {0}")]
    Socket(#[source] io::Error),
    /// The system provided no randomness.
    #[error("the system provides no random numbers: {0}")]
    Randomness(getrandom::Error),
    /// The endpoint refused.
    #[error(transparent)]
    Connect(ConnectError),
    /// There are more first streams than a session may have.
    #[error("the first streams cannot be opened: {0}")]
    Streams(OpenError),
}

/// Opens a session. Returns at once, in state [`LinkState::Connecting`], with the sending ends of the first
/// streams; the handshake continues until it succeeds or the session is closed.
///
/// # Errors
/// See [`DialError`].
pub fn dial(config: DialConfig, first: Vec<FirstStream>) -> Result<(Session, Vec<SendStream>), DialError> {
    dial_with(config, first, SegmentationOffload::default())
}

/// Like [`dial`], with further addresses of the gateway and a choice of carriers: all addresses get the same
/// datagrams one after the other, and the session continues with the first one that answers
/// (docs/protocol/transport.md section 3.9).
///
/// # Errors
/// See [`DialError`].
pub fn dial_over(
    config: DialConfig,
    alternatives: &Alternatives,
    first: Vec<FirstStream>,
    plan: CarrierPlan,
) -> Result<(Session, Vec<SendStream>), DialError> {
    start(config, alternatives, first, SegmentationOffload::default(), plan)
}

/// Like [`dial`], with a choice of the kernel's segmentation offload.
///
/// # Errors
/// See [`DialError`].
pub fn dial_with(
    config: DialConfig,
    first: Vec<FirstStream>,
    offload: SegmentationOffload,
) -> Result<(Session, Vec<SendStream>), DialError> {
    start(config, &Alternatives::default(), first, offload, CarrierPlan::Udp)
}

fn start(
    config: DialConfig,
    alternatives: &Alternatives,
    first: Vec<FirstStream>,
    offload: SegmentationOffload,
    plan: CarrierPlan,
) -> Result<(Session, Vec<SendStream>), DialError> {
    let socket = socket_for(config.remote, &alternatives.addresses, offload).map_err(DialError::Socket)?;
    let clock = Clock::start();
    let now = clock.now();
    let seed = seed().map_err(DialError::Randomness)?;
    let mut transport = config.transport;
    transport.profile = config.profile.or(transport.profile);
    let endpoint = AgentEndpointConfig {
        secret: config.secret,
        transport,
    };
    let endpoint = Endpoint::agent(endpoint, clock.unix_at_origin(), seed);
    let to = ConnectTo {
        gateway: config.gateway_key,
        remote: config.remote.into(),
        token: config.token,
        profile: config.profile,
        last_stamp: config.last_stamp,
    };
    // Only its session controls the driver task of a dialled session.
    let (_owner, control) = mpsc::channel(1);
    let (counters, _) = watch::channel(endpoint.counters());
    let mut driver = DriverTask::new(endpoint, socket, clock, None, control, counters);
    let handle = driver
        .connect(to, config.remote, alternatives, plan)
        .map_err(DialError::Connect)?;
    let session = driver.add_connection(handle, LinkState::Connecting);
    let mut streams = Vec::with_capacity(first.len());
    if let Some((endpoint, channels, _)) = driver.parts(handle) {
        for FirstStream { options, bytes, end } in first {
            if let Some(connection) = endpoint.connection(handle) {
                streams.push(
                    channels
                        .open_now(now, connection, options, bytes, end)
                        .map_err(DialError::Streams)?,
                );
            }
        }
        endpoint.start(handle);
    }
    tokio::spawn(driver.run());
    Ok((session, streams))
}

/// Opens a socket for the families of these addresses; one socket sends to both.
fn socket_for(
    remote: SocketAddr,
    others: &[SocketAddr],
    offload: SegmentationOffload,
) -> io::Result<SessionSocket> {
    let v4: SocketAddr = (Ipv4Addr::UNSPECIFIED, 0).into();
    let both: SocketAddr = (Ipv6Addr::UNSPECIFIED, 0).into();
    let has = |is_wanted: fn(&SocketAddr) -> bool| is_wanted(&remote) || others.iter().any(is_wanted);
    match (has(SocketAddr::is_ipv4), has(SocketAddr::is_ipv6)) {
        (_, false) => SessionSocket::bind(v4, offload),
        (false, true) => SessionSocket::bind(both, offload),
        // A system without IPv6 has no socket for both.
        (true, true) => SessionSocket::bind(both, offload).or_else(|_| SessionSocket::bind(v4, offload)),
    }
}

/// Draws 32 bytes of randomness from the system.
pub(crate) fn seed() -> Result<[u8; 32], getrandom::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    Ok(seed)
}

//! Agent side: opening a session.
use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
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

/// Like [`dial`], with a choice of the kernel's segmentation offload.
///
/// # Errors
/// See [`DialError`].
pub fn dial_with(
    config: DialConfig,
    first: Vec<FirstStream>,
    offload: SegmentationOffload,
) -> Result<(Session, Vec<SendStream>), DialError> {
    let local: SocketAddr = match config.remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = SessionSocket::bind(local, offload).map_err(DialError::Socket)?;
    let clock = Clock::start();
    let now = clock.now();
    let seed = seed().map_err(DialError::Randomness)?;
    let mut transport = config.transport;
    transport.profile = config.profile.or(transport.profile);
    let endpoint = AgentEndpointConfig {
        secret: config.secret,
        transport,
    };
    let mut endpoint = Endpoint::agent(endpoint, clock.unix_at_origin(), seed);
    let to = ConnectTo {
        gateway: config.gateway_key,
        remote: config.remote,
        token: config.token,
        profile: config.profile,
        last_stamp: config.last_stamp,
    };
    let handle = endpoint.connect(now, to).map_err(DialError::Connect)?;
    // Only its session controls the driver task of a dialled session.
    let (_owner, control) = mpsc::channel(1);
    let (counters, _) = watch::channel(endpoint.counters());
    let mut driver = DriverTask::new(endpoint, socket, clock, None, control, counters);
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

/// Draws 32 bytes of randomness from the system.
pub(crate) fn seed() -> Result<[u8; 32], getrandom::Error> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)?;
    Ok(seed)
}

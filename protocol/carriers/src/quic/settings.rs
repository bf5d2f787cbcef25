//! Settings of QUIC connections at both ends.
use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::Arc,
    time::Duration,
};

use quinn::{
    AckFrequencyConfig, AsyncUdpSocket, ConnectionId, ConnectionIdGenerator, Endpoint, EndpointConfig,
    IdleTimeout, MtuDiscoveryConfig, ServerConfig, TokioRuntime, TransportConfig, VarInt,
};
use socket2::{Domain, Protocol, Socket, Type};

use super::unlimited::Unlimited;

/// Application protocol. No HTTP/3 is spoken: the name is a label for boxes that pass only web traffic.
pub(super) const ALPN: &[u8] = b"h3";
/// UDP payload of a new connection: 1,280 bytes with the headers of IPv6, which every link has to take.
const INITIAL_MTU: u16 = 1_232;
/// Least difference of two sizes that the search for a larger one tells apart. It is more than half of what lies between
/// [`INITIAL_MTU`] and 1,452 bytes, so that the search tries only the latter: each step is a packet without data, which on GPRS
/// takes 0.3 s, and the sizes between save less than 1 % of the bytes.
const MTU_STEP: u16 = 120;
/// Silence after which a connection ends. The session's keepalive is sent every 25 s, and its probes in an outage at
/// least every 15 s; an address translation forgets the connection sooner.
const IDLE: VarInt = VarInt::from_u32(120_000);
/// Packets that are received without an acknowledgement: nobody repeats a packet or counts a credit by them. Each one is a
/// packet of its own, because the packets of a download leave no room for it.
const UNACKNOWLEDGED: VarInt = VarInt::from_u32(64);
/// Time for which an acknowledgement waits for further packets; quinn bounds it by the round-trip time.
const ACKNOWLEDGEMENT_DELAY: Duration = Duration::from_secs(1);
/// Time for the end of a connection to reach the peer.
pub(super) const END_TIME: Duration = Duration::from_secs(2);
/// Bytes that wait for the socket: more packets wait in the driver, where more urgent ones overtake them.
pub(super) const SEND_BUFFER: usize = 64 * 1024;
/// Received bytes that wait for the driver; more are lost, as in the buffer of a socket.
const RECEIVE_BUFFER: usize = 256 * 1024;

/// Settings of a connection.
pub(super) fn transport() -> Arc<TransportConfig> {
    let mut search = MtuDiscoveryConfig::default();
    search.minimum_change(MTU_STEP);
    let mut acknowledgements = AckFrequencyConfig::default();
    acknowledgements
        .ack_eliciting_threshold(UNACKNOWLEDGED)
        .max_ack_delay(Some(ACKNOWLEDGEMENT_DELAY));
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(IdleTimeout::from(IDLE)))
        .keep_alive_interval(None)
        .initial_mtu(INITIAL_MTU)
        .mtu_discovery_config(Some(search))
        .ack_frequency_config(Some(acknowledgements))
        .datagram_send_buffer_size(SEND_BUFFER)
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .congestion_controller_factory(Arc::new(Unlimited));
    Arc::new(config)
}

/// Makes random connection ids of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionIds(pub(super) usize);

/// Length of the ids by which a gateway finds its connections.
pub(super) const GATEWAY_IDS: usize = 8;
/// An agent has one connection on a socket: its packets need no id.
pub(super) const AGENT_IDS: usize = 0;

impl ConnectionIdGenerator for ConnectionIds {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut bytes = [0; GATEWAY_IDS];
        let bytes = bytes.get_mut(..self.0).unwrap_or_default();
        // Without randomness the id is taken already, and the connection fails.
        let _refused = getrandom::fill(bytes);
        ConnectionId::new(bytes)
    }

    fn cid_len(&self) -> usize {
        self.0
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

/// Binds a UDP socket; one of IPv6 serves IPv4 as well, where the system permits it.
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        let _kept = socket.set_only_v6(false);
    }
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// Creates an endpoint on a socket, with ids of this length.
pub(super) fn endpoint(
    mut config: EndpointConfig,
    ids: usize,
    server: Option<ServerConfig>,
    socket: Arc<dyn AsyncUdpSocket>,
) -> io::Result<Endpoint> {
    config
        .cid_generator(move || Box::new(ConnectionIds(ids)))
        // Boxes recognise QUIC by this bit, which quinn would vary.
        .grease_quic_bit(false);
    Endpoint::new_with_abstract_socket(config, server, socket, Arc::new(TokioRuntime))
}

//! A complete handshake byte for byte: a change of these bytes changes the wire format and requires a new
//! version.
use longhaul_types::ByteCount;

use super::*;

const INIT: &str = concat!(
    "01010020fd1edf19864da6a2c3c3c751d9ac93f5bdb86df86b19bd1076630dec0ab7ff6d76b8de35ee38f6db419d3e56",
    "c15bca079be87265753d3de1671a4194358a50b217962632d2dc46763f3f9b5204238ef45a68dac2d041b00eece27dc9",
    "b8f32e4243489a7b11a5198e08d1d2bc06616f764027010cb1874d937d1e272e3962b62d1b30e9f2e3ffc6a118",
);
const RESP: &str = concat!(
    "0201200070776d5ca5009b3d37e1e4bebc142c431869196c2f82db22019db3e7e7253f1c37e31f7f086c7563dbf50d7f",
    "928729e60486b7192a452fcc61b18018f321717c4fea6950e6bd55e954c62d1b11e88de8ae371708020b810299908abe",
    "e6000cfc1467cbdc15021fcacd001af1dd0d771abc",
);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn transport() -> TransportConfig {
    TransportConfig {
        stream_window: ByteCount::kib(1024),
        max_streams: 100,
        max_udp_payload: 1252,
        rate_probing: RateProbing::Off,
        datagrams: false,
        ..TransportConfig::default()
    }
}

#[test]
fn init_and_resp_match_golden_vectors() {
    let now = Timestamp::from_nanos(1_234_567_890);
    let agent = AgentEndpointConfig {
        secret: AGENT_KEY,
        transport: transport(),
    };
    let mut agent = Endpoint::agent(agent, UNIX, [1; 32]);
    let mut config = gateway_config(1);
    config.transport = transport();
    let mut gateway = Endpoint::gateway(config, UNIX, [2; 32]);
    let devices = BTreeMap::from([(AGENT_KEY.public(), DeviceStatus::Admitted)]);
    gateway.set_devices(now, devices);
    let gateway_address: SocketAddr = "198.51.100.1:443".parse().unwrap();
    let to = ConnectTo {
        gateway: GATEWAY_KEY.public(),
        remote: gateway_address.into(),
        token: None,
        profile: None,
        last_stamp: None,
    };
    let handle = agent.connect(now, to).unwrap();
    agent.start(handle);
    let mut datagram = Vec::new();
    agent.poll_transmit(now, &mut datagram).unwrap();
    assert_eq!(hex(&datagram), INIT);
    gateway.handle_datagram(
        now,
        "192.0.2.1:4000".parse::<SocketAddr>().unwrap(),
        &mut datagram,
    );
    gateway.poll_transmit(now, &mut datagram).unwrap();
    let (_, resp_len) = crate::wire::Resp::parse(&datagram).unwrap();
    assert_eq!(hex(&datagram[..resp_len]), RESP);
    agent.handle_datagram(now, gateway_address, &mut datagram);
    assert_eq!(
        agent.poll_event().map(|(_, event)| event),
        Some(Event::Connected {
            early: EarlyOutcome::Rejected
        })
    );
}

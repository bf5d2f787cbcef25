//! UDP associations.
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;
use longhaul_driver::{Datagram, EarlyData, End, Priority, SendStream};
use longhaul_gateway_core::config::settings;
use longhaul_session::{
    AssociationOpen, FailureReason, FetchId, Message,
    datagram::{DatagramHost, Reassembly, UdpDatagram, part_of, parts},
};
use tokio::net::UdpSocket;

use crate::{
    agent::{Agent, Answer, options, wire},
    gateway::Gateway,
};

/// A UDP server on loopback.
async fn socket() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

/// A server that returns what it gets.
async fn echo() -> u16 {
    let (socket, port) = socket().await;
    tokio::spawn(async move {
        let mut buffer = vec![0; 65_535];
        while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
            socket.send_to(&buffer[..length], from).await.unwrap();
        }
    });
    port
}

fn to(host: &str, port: u16, payload: &[u8]) -> UdpDatagram {
    let host = host
        .parse::<IpAddr>()
        .map_or_else(|_| DatagramHost::Name(host.to_owned()), DatagramHost::Address);
    UdpDatagram {
        host,
        port,
        payload: Bytes::copy_from_slice(payload),
    }
}

/// An open association of an agent.
struct Association {
    id: FetchId,
    up: SendStream,
    down: Answer,
    number: u16,
    reassembly: Reassembly,
}

async fn ask(agent: &mut Agent) -> (FetchId, SendStream, Answer) {
    let id = agent.id();
    let open = wire(Message::AssociationOpen(AssociationOpen { id }));
    let up = agent
        .session
        .open(options(EarlyData::Forbidden), open.into(), End::Open)
        .await
        .unwrap();
    let answer = agent.answer().await;
    (id, up, answer)
}

async fn associate(agent: &mut Agent) -> Association {
    let (id, up, down) = ask(agent).await;
    assert!(
        matches!(down.message, Message::AssociationAccept(accept) if accept.id == id),
        "{:?}",
        down.message
    );
    Association {
        id,
        up,
        down,
        number: 0,
        reassembly: Reassembly::default(),
    }
}

impl Association {
    fn send(&mut self, agent: &Agent, datagram: &UdpDatagram) {
        let max = agent.session.max_datagram().unwrap();
        let parts = parts(self.id, self.number, &datagram.encode().unwrap(), max);
        assert!(!parts.is_empty());
        self.number += 1;
        for bytes in parts {
            agent.session.send_datagram(Datagram {
                flow: 1,
                class: Priority::NORMAL,
                bytes,
            });
        }
    }

    async fn receive(&mut self, agent: &Agent) -> UdpDatagram {
        loop {
            let part = part_of(agent.session.recv_datagram().await.unwrap()).unwrap();
            assert_eq!(part.association, self.id);
            if let Some(bytes) = self.reassembly.take(part.place, part.bytes) {
                return UdpDatagram::decode(bytes).unwrap();
            }
        }
    }
}

#[tokio::test]
async fn datagrams_are_relayed_with_the_address_of_their_host() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let mut association = associate(&mut agent).await;
    let port = echo().await;
    // The last two do not fit a packet.
    for length in [0, 1, 500, 1400, 4000] {
        let payload = vec![b'x'; length];
        association.send(&agent, &to("echo.test", port, &payload));
        let answer = association.receive(&agent).await;
        assert_eq!(answer, to("127.0.0.1", port, &payload), "{length} bytes");
    }
}

#[tokio::test]
async fn only_hosts_to_which_the_client_has_sent_may_answer() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let mut association = associate(&mut agent).await;
    let (host, port) = socket().await;
    let (stranger, _) = socket().await;
    association.send(&agent, &to("host.test", port, b"question"));
    let mut buffer = [0; 100];
    let (length, from) = host.recv_from(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], b"question");
    // It comes from one port, to which others can send as well.
    let from = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), from.port());
    stranger.send_to(b"injected", from).await.unwrap();
    host.send_to(b"answer", from).await.unwrap();
    assert_eq!(association.receive(&agent).await.payload, "answer");
    // The same port for every host, so that programs can tell each other their address.
    let (other, other_port) = socket().await;
    association.send(&agent, &to("other.test", other_port, b"question"));
    assert_eq!(other.recv_from(&mut buffer).await.unwrap().1.port(), from.port());
}

#[tokio::test]
async fn forbidden_hosts_and_ports_get_nothing() {
    let gateway = Gateway::start_in(tempfile::tempdir().unwrap(), |flags| {
        flags.set(&settings::TUNNEL_UDP_PORTS, "1024-65535");
    })
    .await;
    let mut agent = Agent::connect(&gateway).await;
    let mut association = associate(&mut agent).await;
    let (host, port) = socket().await;
    for forbidden in [
        to("127.0.0.1", port, b"loopback"),
        to("::1", port, b"loopback"),
        to("::ffff:127.0.0.1", port, b"loopback"),
        to("localhost", port, b"loopback"),
        to("10.0.0.1", port, b"private"),
        to("169.254.169.254", port, b"metadata"),
        to("255.255.255.255", port, b"broadcast"),
        to("239.1.2.3", port, b"multicast"),
        to("host.test", 53, b"a port that is not permitted"),
        to("own.test", gateway.address.port(), b"the gateway itself"),
        to("not a host", port, b"malformed"),
    ] {
        association.send(&agent, &forbidden);
    }
    association.send(&agent, &to("host.test", port, b"permitted"));
    let mut buffer = [0; 100];
    let (length, _) = host.recv_from(&mut buffer).await.unwrap();
    assert_eq!(&buffer[..length], b"permitted", "the first that arrives");
}

#[tokio::test]
async fn malformed_datagrams_are_dropped() {
    let gateway = Gateway::start().await;
    let mut agent = Agent::connect(&gateway).await;
    let mut association = associate(&mut agent).await;
    let port = echo().await;
    let id = u8::try_from(association.id.number()).unwrap();
    for bytes in [
        &[][..],
        &[0xff],
        &[id],
        &[id, 0],
        &[id, 0x22, 0],
        &[id, 0, 9, 9, 9],
        &[id + 1, 0, 1, 1, 1, 1, 1, 0, 53],
    ] {
        agent.session.send_datagram(Datagram {
            flow: 1,
            class: Priority::NORMAL,
            bytes: Bytes::copy_from_slice(bytes),
        });
    }
    association.send(&agent, &to("echo.test", port, b"x"));
    assert_eq!(association.receive(&agent).await.payload, "x");
}

#[tokio::test]
async fn a_device_has_a_limit_of_associations_that_ended_ones_do_not_count_for() {
    let gateway = Gateway::start_in(tempfile::tempdir().unwrap(), |flags| {
        flags.set(&settings::LIMITS_ASSOCIATIONS_PER_DEVICE, "2");
    })
    .await;
    let mut agent = Agent::connect(&gateway).await;
    let mut first = associate(&mut agent).await;
    let _second = associate(&mut agent).await;
    let refused = |answer: &Answer| match &answer.message {
        Message::TunnelFailed(failed) => failed.reason,
        other => panic!("{other:?}"),
    };
    let (_, _up, answer) = ask(&mut agent).await;
    assert_eq!(refused(&answer), FailureReason::Overloaded);
    let mut other = Agent::connect(&gateway).await;
    let _other_device = associate(&mut other).await;
    // The gateway's stream ends when the association has ended.
    first.up.cancel(1);
    while first.down.bytes().await.unwrap().is_some() {}
    associate(&mut agent).await;
}

#[tokio::test]
async fn an_operator_can_refuse_datagrams() {
    let gateway = Gateway::start_in(tempfile::tempdir().unwrap(), |flags| {
        flags.set(&settings::TUNNEL_UDP_PORTS, "");
    })
    .await;
    let mut agent = Agent::connect(&gateway).await;
    let (_, _up, answer) = ask(&mut agent).await;
    match answer.message {
        Message::TunnelFailed(failed) => assert_eq!(failed.reason, FailureReason::TargetRefused),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_device_never_gets_the_datagrams_of_another_one() {
    let gateway = Gateway::start().await;
    let mut agents = [Agent::connect(&gateway).await, Agent::connect(&gateway).await];
    let port = echo().await;
    let [one, other] = &mut agents;
    let mut first = associate(one).await;
    let mut second = associate(other).await;
    assert_eq!(first.id, second.id, "each session has its own numbers");
    for number in 0..50_u8 {
        first.send(one, &to("echo.test", port, &[1, number]));
        second.send(other, &to("echo.test", port, &[2, number]));
        let (got, also) = (first.receive(one).await, second.receive(other).await);
        assert_eq!(
            (&got.payload[..], &also.payload[..]),
            (&[1, number][..], &[2, number][..])
        );
    }
    // Without an association of its own, a device reaches nobody.
    second.up.cancel(1);
    while second.down.bytes().await.unwrap().is_some() {}
    second.send(other, &to("echo.test", port, b"nobody"));
    first.send(one, &to("echo.test", port, b"mine"));
    assert_eq!(first.receive(one).await.payload, "mine");
}

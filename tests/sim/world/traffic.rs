//! Datagrams between the endpoints, the hop and the attacker.
use std::{net::SocketAddr, time::Duration};

use longhaul_netem::ClientAddress;
use longhaul_types::Timestamp;

use super::{RESET, Sent, World};
use crate::{
    application::User,
    datagram::{Datagram, Fate, HEADERS},
};

/// Socket address of a client's address: each change is a move to another network.
pub(crate) fn client_socket(address: ClientAddress) -> SocketAddr {
    let network = u8::try_from(address.0 % 200).expect("below 200");
    SocketAddr::from(([192, 0, 2, network], 40_000))
}

/// End of the interval of a fixed raster in which `now` is.
fn end_of(now: Timestamp, interval: Duration) -> Timestamp {
    let interval = u64::try_from(interval.as_nanos()).expect("a short interval");
    Timestamp::from_nanos(now.as_nanos().div_ceil(interval) * interval)
}

fn client_address(socket: SocketAddr) -> Option<ClientAddress> {
    let SocketAddr::V4(socket) = socket else {
        return None;
    };
    let [192, 0, 2, network] = socket.ip().octets() else {
        return None;
    };
    (socket.port() == 40_000).then_some(ClientAddress(u32::from(network)))
}

impl World {
    pub(super) fn deliver(&mut self) {
        let now = self.now;
        while let Some(delivery) = self.hop.poll_client(now) {
            let at = self.bunching.map_or(now, |interval| end_of(now, interval));
            self.bunched.push_back((at, delivery.packet));
        }
        while let Some((_, mut packet)) = self.bunched.pop_front_if(|(at, _)| *at <= now) {
            self.note("delivers to agent", &packet.payload);
            if packet.fate == Fate::Arrives {
                self.agent
                    .endpoint
                    .handle_datagram(now, self.gateway_address, &mut packet.payload);
            }
        }
        while let Some(mut arrival) = self.hop.poll_gateway(now) {
            self.note("delivers to gateway", &arrival.delivery.packet.payload);
            if arrival.delivery.packet.fate == Fate::Arrives && now >= self.gateway_back {
                self.amplification
                    .received(arrival.from, arrival.delivery.packet.payload.len() as u64);
                let from = client_socket(arrival.from);
                let gateway = &mut self.gateway.endpoint;
                let accepted = gateway.counters().accepted;
                gateway.handle_datagram(now, from, &mut arrival.delivery.packet.payload);
                if gateway.counters().accepted > accepted {
                    self.amplification.accepted(arrival.from);
                }
            }
        }
        let Some(attacker) = &mut self.attacker else {
            return;
        };
        if attacker.next().is_some_and(|at| at <= now) {
            for (victim, from, mut datagram) in attacker.strike(now) {
                self.injected += 1;
                if let (User::Gateway, Some(address)) = (victim, client_address(from)) {
                    self.amplification.received(address, datagram.len() as u64);
                }
                match victim {
                    User::Agent => self.agent.endpoint.handle_datagram(now, from, &mut datagram),
                    User::Gateway => self.gateway.endpoint.handle_datagram(now, from, &mut datagram),
                }
            }
        }
    }

    pub(super) fn transmit(&mut self, user: User) {
        let mut buf = Vec::new();
        loop {
            let (now, side) = match user {
                User::Agent => (self.now, &mut self.agent),
                User::Gateway => (self.now, &mut self.gateway),
            };
            let Some(transmit) = side.endpoint.poll_transmit(now, &mut buf) else {
                return;
            };
            assert_eq!(transmit.len, buf.len());
            assert!(transmit.len <= 1472, "a datagram of {} bytes", transmit.len);
            side.packet_numbers.check(user, &buf);
            // A gateway without the session responds to late packets with RESET.
            let reset = buf.first() == Some(&RESET);
            side.sent_after_close += usize::from(side.closed.is_some() && !reset);
            let number = side.sent;
            side.sent += 1;
            let fate = self
                .censor
                .as_mut()
                .map_or(Fate::Arrives, |censor| censor(user, number, &buf));
            if let Some(attacker) = &mut self.attacker {
                attacker.overhear(now, user, &buf);
            }
            self.hash.word(now.as_nanos());
            self.hash.bytes(&buf);
            self.note(
                if user == User::Agent {
                    "agent sends"
                } else {
                    "gateway sends"
                },
                &buf,
            );
            let len = buf.len() as u64 + HEADERS;
            let datagram = Datagram {
                payload: buf.clone(),
                fate,
            };
            match user {
                User::Agent => {
                    assert_eq!(transmit.remote, self.gateway_address);
                    self.hop.send_to_gateway(now, datagram);
                }
                User::Gateway => match transmit.remote.udp().and_then(client_address) {
                    Some(address) => {
                        self.amplification
                            .sent(now, address, datagram.payload.len() as u64);
                        self.hop.send_to_client(now, address, datagram);
                    }
                    // A response to the attacker does not cross the hop.
                    None => continue,
                },
            }
            self.sent.push(Sent {
                at: now,
                from: user,
                len,
            });
        }
    }
}

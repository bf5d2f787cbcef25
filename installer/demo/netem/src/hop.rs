//! Both directions of a link between a client and a gateway.
use longhaul_types::{ByteCount, Timestamp};

use crate::{Count, DelayHistogram, Delivery, Enqueued, Link, LinkConfig, Packet, Profile, hash::EventHash};

/// An end of the hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The side of the last mile, whose address may change.
    Client,
    /// The side of the Internet.
    Gateway,
}

/// An opaque client address that can only be compared. Its meaning (an IP address, a NAT port) is defined by
/// the caller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientAddress(pub u32);

/// Times at which the client's address changes, because of a new network or an expired NAT binding.
///
/// The client begins with `ClientAddress(0)`; each change assigns the next number. Addresses are not reused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressChanges(Vec<Timestamp>);

impl AddressChanges {
    /// Creates changes at these times, in any order.
    pub fn at(times: impl IntoIterator<Item = Timestamp>) -> Self {
        let mut times: Vec<_> = times.into_iter().collect();
        times.sort_unstable();
        Self(times)
    }

    /// The times of the changes, in order.
    pub fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().copied()
    }

    /// Returns the client's address at `now`; a change takes effect exactly at its time.
    pub fn address(&self, now: Timestamp) -> ClientAddress {
        let changes = self.0.partition_point(|change| *change <= now);
        ClientAddress(u32::try_from(changes).unwrap_or(u32::MAX))
    }
}

/// Configuration of a hop.
#[derive(Clone, Debug, PartialEq)]
pub struct HopConfig {
    /// Direction from gateway to client.
    pub down: LinkConfig,
    /// Direction from client to gateway.
    pub up: LinkConfig,
    /// Times of the client's address changes.
    pub address_changes: AddressChanges,
}

impl HopConfig {
    /// Creates a hop of these two directions whose client keeps its address.
    pub fn new(down: LinkConfig, up: LinkConfig) -> Self {
        Self {
            down,
            up,
            address_changes: AddressChanges::default(),
        }
    }
}

impl From<Profile> for HopConfig {
    fn from(profile: Profile) -> Self {
        Self::new(profile.down(), profile.up())
    }
}

/// A packet and its client address: the source of packets from the client, the destination of packets to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addressed<P> {
    /// The client address.
    pub client: ClientAddress,
    /// The packet.
    pub packet: P,
}

impl<P: Packet> Packet for Addressed<P> {
    fn len_on_link(&self) -> ByteCount {
        self.packet.len_on_link()
    }

    fn flip_bit(&mut self, bit: u64) {
        self.packet.flip_bit(bit);
    }
}

/// A packet that has arrived at the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromClient<P> {
    /// Its source: the client's address when it was sent.
    pub from: ClientAddress,
    /// The packet and its times.
    pub delivery: Delivery<P>,
}

/// Both directions of a link between a client and a gateway. The calls follow the contract of [`Link`].
pub struct Hop<P> {
    down: Link<Addressed<P>>,
    up: Link<Addressed<P>>,
    address_changes: AddressChanges,
    misaddressed: Count,
}

impl<P: Packet> Hop<P> {
    /// Creates an idle hop. Equal seeds give equal draws; each direction has its own random streams.
    pub fn new(config: HopConfig, seed: u64) -> Self {
        Self {
            down: Link::numbered(config.down, seed, 0),
            up: Link::numbered(config.up, seed, 1),
            address_changes: config.address_changes,
            misaddressed: Count::default(),
        }
    }

    /// Returns the client's address at `now`.
    pub fn client_address(&self, now: Timestamp) -> ClientAddress {
        self.address_changes.address(now)
    }

    /// Sends a packet from `side` at `now`, to the current client address. A gateway that learns the address
    /// only from packets uses [`send_to_client`](Self::send_to_client).
    pub fn send(&mut self, now: Timestamp, side: Side, packet: P) -> Enqueued {
        match side {
            Side::Client => self.send_to_gateway(now, packet),
            Side::Gateway => self.send_to_client(now, self.client_address(now), packet),
        }
    }

    /// Sends a packet from the client; its source is the client's address at `now`.
    pub fn send_to_gateway(&mut self, now: Timestamp, packet: P) -> Enqueued {
        let client = self.client_address(now);
        self.up.enqueue(now, Addressed { client, packet })
    }

    /// Sends a packet from the gateway to a client address. If the client has another address when the packet
    /// arrives, the packet crosses the link and is lost.
    pub fn send_to_client(&mut self, now: Timestamp, to: ClientAddress, packet: P) -> Enqueued {
        self.down.enqueue(now, Addressed { client: to, packet })
    }

    /// Returns the next packet that has arrived at the client by `now`.
    pub fn poll_client(&mut self, now: Timestamp) -> Option<Delivery<P>> {
        while let Some(delivery) = self.down.poll_deliver(now) {
            let Addressed { client, packet } = delivery.packet;
            if client == self.address_changes.address(delivery.arrived) {
                return Some(Delivery {
                    sent: delivery.sent,
                    arrived: delivery.arrived,
                    packet,
                });
            }
            self.misaddressed.add(packet.len_on_link().bytes().max(1));
        }
        None
    }

    /// Returns the next packet that has arrived at the gateway by `now`.
    pub fn poll_gateway(&mut self, now: Timestamp) -> Option<FromClient<P>> {
        let delivery = self.up.poll_deliver(now)?;
        let Addressed { client, packet } = delivery.packet;
        Some(FromClient {
            from: client,
            delivery: Delivery {
                sent: delivery.sent,
                arrived: delivery.arrived,
                packet,
            },
        })
    }

    /// Returns the time of the next poll of either side; see [`Link::next_event`].
    pub fn next_event(&self) -> Option<Timestamp> {
        match (self.down.next_event(), self.up.next_event()) {
            (Some(down), Some(up)) => Some(down.min(up)),
            (down, up) => down.or(up),
        }
    }

    /// Runs both links up to `now`, see [`Link::advance`].
    pub fn advance(&mut self, now: Timestamp) {
        self.down.advance(now);
        self.up.advance(now);
    }

    /// Returns the direction from gateway to client with its counters, busy time and queueing delays.
    pub fn down(&self) -> &Link<Addressed<P>> {
        &self.down
    }

    /// Returns the direction from client to gateway with its counters, busy time and queueing delays.
    pub fn up(&self) -> &Link<Addressed<P>> {
        &self.up
    }

    /// Loses one packet of the direction towards `receiver`, see [`Link::lose_after`].
    pub fn lose_after(&mut self, now: Timestamp, receiver: Side, bytes: ByteCount) {
        match receiver {
            Side::Client => self.down.lose_after(now, bytes),
            Side::Gateway => self.up.lose_after(now, bytes),
        }
    }

    /// Returns the queueing delays of the direction towards `receiver` and starts a new histogram.
    pub fn take_queueing_delays(&mut self, receiver: Side) -> DelayHistogram {
        match receiver {
            Side::Client => self.down.take_queueing_delays(),
            Side::Gateway => self.up.take_queueing_delays(),
        }
    }

    /// Packets that arrived for an address that the client no longer had. The link counts them as delivered.
    pub fn misaddressed(&self) -> Count {
        self.misaddressed
    }

    /// Returns a hash of all events on both links, see [`Link::event_hash`].
    pub fn event_hash(&self) -> u64 {
        let mut hash = EventHash::default();
        hash.word(self.down.event_hash());
        hash.word(self.up.event_hash());
        hash.word(self.misaddressed.packets);
        hash.value()
    }
}

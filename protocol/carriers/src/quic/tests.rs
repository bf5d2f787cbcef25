//! Connections with the settings of the carrier over a link in virtual time.
mod virtual_link;

use std::{sync::Arc, time::Duration};

use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, ServerConfig,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use tokio::time::{Instant, interval, timeout};

use self::virtual_link::{AGENT, Direction, GATEWAY, VirtualLink, lane};
use super::settings::{self, AGENT_IDS, GATEWAY_IDS};
use crate::{PemIdentity, dialer::any_certificate};

/// UDP payload of the largest packets that QUIC searches.
const LARGEST: usize = 1452;
/// Longest QUIC packet that contains nothing but an acknowledgement.
const ACKNOWLEDGEMENT: usize = 60;

/// An agent and a gateway whose handshake is complete.
struct Pair {
    agent: Connection,
    gateway: Connection,
    link: VirtualLink,
    _endpoints: [Endpoint; 2],
}

impl Pair {
    /// Connects over a link with this delay in each direction, which loses packets above `largest` bytes of UDP payload.
    async fn connect(delay: Duration, largest: usize) -> Self {
        let link = VirtualLink {
            up: lane(delay, largest),
            down: lane(delay, largest),
        };
        let identity = PemIdentity::self_signed("localhost").unwrap().parse().unwrap();
        let crypto = QuicServerConfig::try_from(identity.server_config(settings::ALPN).unwrap()).unwrap();
        let mut server = ServerConfig::with_crypto(Arc::new(crypto));
        server.transport_config(settings::transport());
        let mut tls = any_certificate().unwrap();
        tls.alpn_protocols = vec![settings::ALPN.to_vec()];
        let mut client = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls).unwrap()));
        client.transport_config(settings::transport());
        let (near, far) = link.sockets();
        let config = EndpointConfig::default;
        let near = settings::endpoint(config(), AGENT_IDS, None, near).unwrap();
        let far = settings::endpoint(config(), GATEWAY_IDS, Some(server), far).unwrap();
        let connecting = near.connect_with(client, GATEWAY, "localhost").unwrap();
        let accepting = async { far.accept().await.unwrap().accept().unwrap().await };
        let (agent, gateway) = tokio::try_join!(connecting, accepting).unwrap();
        assert_eq!(gateway.remote_address(), AGENT);
        Self {
            agent,
            gateway,
            link,
            _endpoints: [near, far],
        }
    }

    /// Waits until both ends have searched for larger packets. Returns the sizes of all packets in each direction.
    async fn search(&self) -> [Vec<usize>; 2] {
        let ended = timeout(Duration::from_secs(20), self.agent.closed()).await;
        assert!(ended.is_err(), "{ended:?}");
        self.sent()
    }

    /// Sizes of the packets in each direction since the last call.
    fn sent(&self) -> [Vec<usize>; 2] {
        [&self.link.up, &self.link.down].map(Direction::take_sizes)
    }

    /// Sends `count` datagrams of the largest size from the gateway, all at once.
    async fn burst(&self, count: usize) {
        for _ in 0..count {
            self.send_one().await;
        }
    }

    /// Sends `count` datagrams of the largest size from the gateway, one each `pause`.
    async fn download(&self, count: usize, pause: Duration) {
        let mut ticks = interval(pause);
        // The first tick is at once.
        ticks.tick().await;
        for _ in 0..count {
            self.send_one().await;
            ticks.tick().await;
        }
    }

    async fn send_one(&self) {
        let size = self.gateway.max_datagram_size().unwrap();
        self.gateway
            .send_datagram_wait(vec![7; size].into())
            .await
            .unwrap();
    }

    /// Number of datagrams that the agent has received, and receives within a second.
    async fn received(&self) -> usize {
        let mut count = 0;
        while timeout(Duration::from_secs(1), self.agent.read_datagram())
            .await
            .is_ok_and(|datagram| datagram.is_ok())
        {
            count += 1;
        }
        count
    }
}

/// A minute of a download on GPRS and UMTS: four and 33 packets a second.
#[tokio::test(start_paused = true)]
async fn acknowledgements_of_a_slow_download_are_few() {
    for (delay, rate) in [(Duration::from_millis(330), 4), (Duration::from_millis(130), 33)] {
        let pair = Pair::connect(delay, LARGEST).await;
        let _searched = pair.search().await;
        let count = 60 * rate;
        let reading = async { while pair.agent.read_datagram().await.is_ok() {} };
        tokio::select! {
            () = pair.download(count, Duration::from_secs(1) / u32::try_from(rate).unwrap()) => {}
            () = reading => panic!("the connection has ended"),
        }
        let [up, down] = pair.sent();
        assert!(down.len() >= count && down.len() <= count + 10, "{}", down.len());
        // One in a round trip and an interval; the round trip contains no queue here.
        let round_trips = Duration::from_secs(60).as_millis() / (delay * 2).as_millis();
        assert!(up.len() as u128 <= round_trips + 10, "{} packets", up.len());
        assert!(up.iter().all(|size| *size <= ACKNOWLEDGEMENT), "{up:?}");
    }
}

/// What the search costs on a link that takes the largest packets and on one that does not.
#[tokio::test(start_paused = true)]
async fn the_search_for_larger_packets_tries_one_size() {
    let large = |sizes: &[usize]| sizes.iter().filter(|size| **size > 1_232).count();
    let delay = Duration::from_millis(330);
    let pair = Pair::connect(delay, LARGEST).await;
    let [up, down] = pair.search().await;
    assert_eq!((large(&up), large(&down)), (1, 1), "{up:?} {down:?}");
    assert!(pair.gateway.max_datagram_size().unwrap() >= LARGEST - 50);
    let pair = Pair::connect(delay, 1_400).await;
    let [up, down] = pair.search().await;
    assert!(large(&up) <= 3 && large(&down) <= 3, "{up:?} {down:?}");
    let size = pair.gateway.max_datagram_size().unwrap();
    assert!((1_150..1_232).contains(&size), "{size}");
    pair.burst(10).await;
    assert_eq!(pair.received().await, 10);
}

/// Neither the window nor the pacer of QUIC limits packets: the credit of the session does.
#[tokio::test(start_paused = true)]
async fn quic_sends_at_once_what_nobody_acknowledges() {
    let delay = Duration::from_millis(300);
    let pair = Pair::connect(delay, LARGEST).await;
    let _searched = pair.search().await;
    pair.link.up.block();
    // More than a window of 100 Mbit/s over this link, and more than the buffer for packets to send.
    let began = Instant::now();
    let sending = pair.burst(5_000);
    let ((), received) = tokio::join!(sending, pair.received());
    assert_eq!(received, 5_000);
    // One way, and the second in which nothing follows.
    let took = began.elapsed();
    assert!(took < delay + Duration::from_millis(1_100), "{took:?}");
}

//! Hostile datagrams to both sockets during a download.
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use http::Request;
use hyper::body::Incoming;
use longhaul_tests::{
    client::{Ending, ask, get},
    origin::Origin,
    relay::{Direction, Relay},
};
use longhaul_types::BitRate;
use tokio::{
    net::UdpSocket,
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use crate::{
    content::{noise, ok},
    pair::{LIMIT, Link, Pair, Setup},
};

const SIZE: usize = 6_000_000;
const LINK: BitRate = BitRate::kbps(20_000);
/// Datagrams per second at each of the two sockets.
const RATE: u64 = 20_000;
const TICK: Duration = Duration::from_millis(1);

/// Sends hostile datagrams to one end: half from unknown addresses, half from the address of the other end.
struct Attacker {
    relay: Arc<Relay>,
    direction: Direction,
    victim: SocketAddr,
    strangers: Vec<UdpSocket>,
    sent: Arc<AtomicU64>,
}

impl Attacker {
    async fn new(relay: Arc<Relay>, direction: Direction, victim: SocketAddr) -> Result<Self> {
        let mut strangers = Vec::new();
        for last in 2..10 {
            strangers.push(UdpSocket::bind((format!("127.0.0.{last}"), 0)).await?);
        }
        Ok(Self {
            relay,
            direction,
            victim,
            strangers,
            sent: Arc::default(),
        })
    }

    async fn run(self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let began = Instant::now();
        let mut number = 0_u64;
        loop {
            ticks.tick().await;
            let copies = self.relay.copies(self.direction);
            // Catch up by at most the capacity of a socket buffer: the kernel would drop the rest.
            let due = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX) * RATE / 1_000_000;
            for _ in 0..due.saturating_sub(number).min(200) {
                self.send(number, &hostile(number, &copies)).await;
                number += 1;
            }
        }
    }

    async fn send(&self, number: u64, datagram: &[u8]) {
        let as_peer = number.is_multiple_of(2);
        let stranger = usize::try_from(number / 2).unwrap_or(0) % self.strangers.len();
        let sent = if as_peer {
            self.relay.inject(self.direction, datagram).await.is_ok()
        } else {
            self.strangers[stranger]
                .send_to(datagram, self.victim)
                .await
                .is_ok()
        };
        self.sent.fetch_add(u64::from(sent), Relaxed);
    }
}

/// The hostile datagram of this number: noise, fragments of genuine datagrams, copies, or genuine datagrams
/// with changes.
fn hostile(number: u64, copies: &[bytes::Bytes]) -> Vec<u8> {
    let pick = usize::try_from(number.wrapping_mul(2_654_435_761) % 1_000_003).unwrap_or(0);
    let copy = match copies.len() {
        0 => noise(pick % 1200 + 1, number),
        count => copies[pick % count].to_vec(),
    };
    match number % 5 {
        0 => noise(pick % 1400 + 1, number),
        1 => copy[..copy.len().min(pick % copy.len().max(1) + 1)].to_vec(),
        2 => copy,
        3 => {
            let mut forged = copy;
            let at = pick % forged.len().max(1);
            if let Some(byte) = forged.get_mut(at) {
                *byte ^= 1 << (pick % 8);
            }
            forged
        }
        _ => {
            // The header of a genuine datagram, so that it reaches the session, with a forged rest.
            let kept = copy.len().min(16);
            [&copy[..kept], &noise(copy.len() - kept, number)].concat()
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_and_new_sessions_survive_hostile_datagrams() -> Result<()> {
    let origin = Origin::start(
        None,
        |_| {},
        |request: Request<Incoming>| async move {
            let size = if request.uri().path() == "/small" {
                1000
            } else {
                SIZE
            };
            ok("application/octet-stream", noise(size, 30))
        },
    )
    .await?;
    let setup = Setup::resolving(&[("files.test", origin.address())]);
    let mut pair = Pair::start(setup.over(Link::Paced(LINK))).await?;
    let relay = Arc::new(pair.take_relay()?);
    let agent = relay.agent(LIMIT).await?;
    let file = get("http://files.test/file", &[]);

    let began = Instant::now();
    let response = ask(pair.proxy(), &file).await?;
    let calm = began.elapsed();
    ensure!(
        response.body == noise(SIZE, 30) && response.ending == Ending::Whole,
        "the download without an attack"
    );

    let mut attacks = JoinSet::new();
    let at_agent = Attacker::new(Arc::clone(&relay), Direction::Down, agent).await?;
    let at_gateway = Attacker::new(Arc::clone(&relay), Direction::Up, pair.gateway().address()).await?;
    let counts = [Arc::clone(&at_agent.sent), Arc::clone(&at_gateway.sent)];
    attacks.spawn(at_agent.run());
    attacks.spawn(at_gateway.run());
    let began = Instant::now();
    let response = ask(pair.proxy(), &file).await?;
    let attacked = began.elapsed();
    let rates = counts.map(|count| count.load(Relaxed) as f64 / attacked.as_secs_f64());
    // The gateway must also accept a new session during the attack.
    let second = pair.second_agent("second").await?;
    let newcomer = ask(second.address(), get("http://files.test/small", &[])).await?;
    attacks.abort_all();

    println!(
        "hostile datagrams per second: {:.0} at the agent, {:.0} at the gateway; download of {SIZE} bytes: {:.2} s calm, \
         {:.2} s under attack ({:.2} times)",
        rates[0],
        rates[1],
        calm.as_secs_f64(),
        attacked.as_secs_f64(),
        attacked.as_secs_f64() / calm.as_secs_f64()
    );
    assert_eq!((response.status, response.ending), (200, Ending::Whole));
    assert!(
        response.body == noise(SIZE, 30),
        "{} bytes that differ from the file",
        response.body.len()
    );
    assert_eq!(
        newcomer.status,
        200,
        "a new session during the attack: {}",
        newcomer.text()
    );
    let status = pair.status().await?;
    assert_eq!(status["sessions"], 1, "there is still one session: {status:#}");
    assert_eq!(status["failures"], 0, "{status:#}");
    assert!(
        rates.iter().all(|rate| *rate > 1000.0),
        "the attack rate is too low: {rates:?}"
    );
    Ok(())
}

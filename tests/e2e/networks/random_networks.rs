//! Random networks between agent and gateway: what a network does to UDP, to QUIC and to connections of TCP, in
//! combinations that change during a download. Wherever connections to TCP port 443 get through, a page loads and a
//! download is complete.
//!
//! `LONGHAUL_RANDOM_NETWORKS=200` runs 200 of them (`make random-networks`); `LONGHAUL_NETWORK_SEED=n` runs one.
use std::{
    env,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use longhaul_tests::client::{Ending, ask, get};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use tokio::time::timeout;

use super::{
    harness::{HOST, Net, Plug, Programs},
    middlebox::{Obstacle, place},
    moving::{PAGE, SIZE, download, origin},
};
use crate::content::noise;

/// The gateway has all carriers; TLS and QUIC at the ports at which networks expect them.
const CARRIERS: &str = "[carriers]\ntls = \"10.91.0.1:443\"\nquic = \"10.91.0.1:443\"\n";
/// Seeds of `make test`, which take a few seconds each: UDP that works, that ends, and that is blocked in one direction or
/// both, from the beginning or in the midst of the download.
const SEEDS: [u64; 4] = [24, 32, 35, 39];
/// Networks at the same time.
const PARALLEL: usize = 4;
/// Parts of the download; something may change between them.
const PARTS: usize = 4;
/// Maximum duration of page and download. 20 MB take 320 s at the rate of [`Obstacle::UdpPoliced`].
const LIMIT: Duration = Duration::from_secs(600);

/// What happens between two parts of the download.
#[derive(Clone, Debug)]
enum Change {
    Nothing,
    /// The network begins to do something else.
    Obstacles(Vec<Obstacle>),
    /// The computer changes to another network, which does this.
    OtherNetwork(Vec<Obstacle>),
}

/// The networks of one run, and what changes meanwhile.
#[derive(Clone, Debug)]
struct Course {
    mbps: u32,
    first: Vec<Obstacle>,
    changes: Vec<Change>,
}

impl Course {
    fn draw(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mbps = [10, 20, 50][below(&mut random, 3)];
        let first = obstacles(&mut random);
        let changes = (1..PARTS)
            .map(|_| match below(&mut random, 4) {
                0 => Change::Nothing,
                1 => Change::OtherNetwork(obstacles(&mut random)),
                _ => Change::Obstacles(obstacles(&mut random)),
            })
            .collect();
        Self { mbps, first, changes }
    }
}

/// None, one or two obstacles.
fn obstacles(random: &mut ChaCha8Rng) -> Vec<Obstacle> {
    let number = below(random, 3);
    (0..number)
        .map(|_| Obstacle::ALL[below(random, Obstacle::ALL.len())])
        .collect()
}

fn below(random: &mut ChaCha8Rng, end: usize) -> usize {
    usize::try_from(random.next_u32()).unwrap_or(usize::MAX) % end
}

/// The computer of the agent, and the network in which it is: 1 or 2.
struct Computer {
    net: Arc<Net>,
    network: u8,
    mbps: u32,
}

impl Computer {
    fn change(&mut self, change: &Change) -> Result<()> {
        match change {
            Change::Nothing => Ok(()),
            Change::Obstacles(obstacles) => place(&self.net, self.network, obstacles),
            Change::OtherNetwork(obstacles) => {
                self.net.unplug(self.network)?;
                self.network = 3 - self.network;
                place(&self.net, self.network, obstacles)?;
                self.net.plug(Plug {
                    number: self.network,
                    mbps: self.mbps,
                })
            }
        }
    }
}

async fn page(proxy: SocketAddr) -> Result<()> {
    let page = ask(
        proxy,
        get(&format!("http://{HOST}/page"), &[("cache-control", "no-store")]),
    )
    .await?;
    ensure!(
        (page.status, page.ending) == (200, Ending::Whole) && page.text() == PAGE,
        "the page: {} {}",
        page.status,
        page.text()
    );
    Ok(())
}

/// Loads a page, the file and another page; `false` without the privileges.
async fn run(seed: u64) -> Result<bool> {
    let Some(net) = Net::build()? else {
        return Ok(false);
    };
    let course = Course::draw(seed);
    place(&net, 1, &course.first)?;
    net.plug(Plug {
        number: 1,
        mbps: course.mbps,
    })?;
    let began = Instant::now();
    let programs = Programs::start_with(&net, origin, CARRIERS).await?;
    let proxy = programs.proxy();
    let mut computer = Computer {
        net: Arc::clone(&net),
        network: 1,
        mbps: course.mbps,
    };
    let changes = course.changes.clone();
    let work = net.computer.run(move || async move {
        page(proxy).await?;
        let body = download(proxy, PARTS, async |part| computer.change(&changes[part])).await?;
        ensure!(body == noise(SIZE, 30), "{} bytes that differ", body.len());
        page(proxy).await
    });
    let outcome = timeout(LIMIT, work)
        .await
        .context("not in time")
        .and_then(|done| done);
    let log = programs.agent().log().text();
    outcome.with_context(|| format!("LONGHAUL_NETWORK_SEED={seed}: {course:?}\n{log}"))?;
    println!("seed {seed}: {:.1} s, {course:?}", began.elapsed().as_secs_f64());
    Ok(true)
}

/// The seeds of the environment, or a few.
fn seeds() -> Result<Vec<u64>> {
    if let Ok(seed) = env::var("LONGHAUL_NETWORK_SEED") {
        return Ok(vec![seed.parse().context("LONGHAUL_NETWORK_SEED")?]);
    }
    match env::var("LONGHAUL_RANDOM_NETWORKS") {
        Ok(number) => Ok((1..=number.parse().context("LONGHAUL_RANDOM_NETWORKS")?).collect()),
        Err(_) => Ok(SEEDS.to_vec()),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_tcp_port_443_gets_through_pages_and_downloads_are_complete() -> Result<()> {
    let mut waiting = seeds()?.into_iter();
    let mut running = tokio::task::JoinSet::new();
    let (mut done, mut failed) = (0_usize, Vec::new());
    for seed in waiting.by_ref().take(PARALLEL) {
        running.spawn(run(seed));
    }
    while let Some(outcome) = running.join_next().await {
        match outcome? {
            Ok(is_run) => done += usize::from(is_run),
            Err(error) => {
                println!("FAILED {error:?}");
                failed.push(error);
            }
        }
        if let Some(seed) = waiting.next() {
            running.spawn(run(seed));
        }
    }
    println!("{done} networks, {} failures", failed.len());
    failed.into_iter().next().map_or(Ok(()), Err)
}

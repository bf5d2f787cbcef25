//! A session under faults for any time: real endpoints on real sockets; a relay between them that loses,
//! reorders, duplicates and damages datagrams, has outages and changes its port; restarts of both ends; and a
//! load like that of a browser, each byte of which is checked. Memory and file descriptors of the process
//! must not grow.
//!
//! `cargo bench -p longhaul-driver --bench soak -- [--minutes 30] [--seed 1]`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a long test: it prints, and stops at what it did not expect"
)]
mod load;
mod process;
mod random;
mod relay;

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_driver::{
    DeviceStatus, DialConfig, EpochKeys, ListenConfig, Listener, TransportConfig, dial, listen,
};
use longhaul_types::{SecretKey, UnixTime};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    load::{Load, Progress},
    process::Usage,
    random::Random,
    relay::{Event, Relay},
};

/// Permitted growth of memory after the warm-up: full buffers of sessions in the worst case.
const MAX_GROWTH: u64 = 32 << 20;
/// Permitted growth of the number of sockets after the warm-up: old sockets may still be closing.
const MAX_MORE_DESCRIPTORS: usize = 4;
/// Time without a finished exchange after which the session hangs: the longest outage is 10 s, and a restart
/// takes a handshake.
const LONGEST_STANDSTILL: Duration = Duration::from_secs(120);
/// Interval between lines of the report.
const REPORT: Duration = Duration::from_secs(120);
/// Shortest and longest duration of one set of faults, in seconds.
const PHASE: (u64, u64) = (5, 20);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo test --all-targets` also runs this program, without the flag.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    let minutes: f64 = value("--minutes").map_or(30.0, |value| value.parse().unwrap());
    let seed: u64 = value("--seed").map_or(1, |value| value.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let soak = runtime.spawn(soak(Duration::from_secs_f64(minutes * 60.0), seed));
    runtime.block_on(soak).unwrap();
}

fn gateway_secret() -> SecretKey {
    SecretKey::from_bytes([1; 32])
}

fn device_secret() -> SecretKey {
    SecretKey::from_bytes([2; 32])
}

fn epoch(number: u32) -> EpochKeys {
    EpochKeys {
        epoch: number,
        key: [5; 32],
    }
}

async fn listening(at: SocketAddr, number: u32) -> Listener {
    let config = ListenConfig {
        listen: at,
        also: Vec::new(),
        secret: gateway_secret(),
        epoch: epoch(number),
        reset_secret: [6; 32],
        transport: TransportConfig::gateway(),
        max_sessions: 16,
        devices: BTreeMap::from([(device_secret().public(), DeviceStatus::Admitted)]),
    };
    // The port is free once the task of the previous gateway has ended.
    loop {
        match listen(config.clone()) {
            Ok(listener) => return listener,
            Err(error) => println!("gateway: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for the signal to end.
async fn told(ends: &mut watch::Receiver<bool>) {
    // The sender of the signal exists until the end of the program.
    let _told = ends.wait_for(|ends| *ends).await;
}

/// A gateway that answers until the signal to end.
fn serve(mut listener: Listener, mut ends: watch::Receiver<bool>) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut answering = tokio::task::JoinSet::new();
        loop {
            tokio::select! {
                incoming = listener.accept() => {
                    let Some(incoming) = incoming else { return };
                    answering.spawn(load::answer(incoming.session));
                }
                Some(ended) = answering.join_next() => ended.unwrap(),
                () = told(&mut ends) => break,
            }
        }
        listener.shutdown().await;
    })
}

/// An agent that sends requests until the signal to end or the end of its session.
fn ask(remote: SocketAddr, load: &Arc<Load>, mut ends: watch::Receiver<bool>) -> JoinHandle<()> {
    let load = Arc::clone(load);
    tokio::spawn(async move {
        while !*ends.borrow() {
            let far = UnixTime::new(Duration::from_secs(4_000_000_000));
            let config = DialConfig {
                gateway_key: gateway_secret().public(),
                remote,
                secret: device_secret(),
                token: Some(epoch(1).mint(&device_secret().public(), [1; 4], far)),
                profile: None,
                last_stamp: None,
                transport: TransportConfig::agent(None),
            };
            let (session, _) = dial(config, Vec::new()).unwrap();
            tokio::select! {
                () = load.run(session) => load.session_lost(),
                () = told(&mut ends) => {}
            }
        }
    })
}

/// A running end and the switch that ends it.
struct Running {
    switch: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Running {
    fn start(start: impl FnOnce(watch::Receiver<bool>) -> JoinHandle<()>) -> Self {
        let (switch, ends) = watch::channel(false);
        Self {
            switch,
            task: start(ends),
        }
    }

    async fn end(self) {
        self.switch.send_replace(true);
        self.task.await.unwrap();
    }
}

async fn soak(length: Duration, seed: u64) {
    println!("seed {seed}, {:.1} min", length.as_secs_f64() / 60.0);
    let mut random = Random::new(seed);
    let listener = listening((Ipv4Addr::LOCALHOST, 0).into(), 1).await;
    let address = listener.local_addr();
    let mut generation = 1;
    let mut gateway = Running::start(|ends| serve(listener, ends));
    let relay = Relay::start(address, random.next()).await;
    let load = Arc::new(Load::new(random.next()));
    let mut agent = Running::start(|ends| ask(relay.address(), &load, ends));
    let started = Instant::now();
    let warm = (length / 5).min(Duration::from_secs(180));
    let mut watch = Watch::new(started, warm);
    while started.elapsed() < length {
        let phase = Duration::from_secs(random.between(PHASE.0, PHASE.1));
        let event = relay.change(random.next(), phase);
        match event {
            Event::Nothing | Event::Rebound => {}
            Event::AgentRestart => {
                agent.end().await;
                agent = Running::start(|ends| ask(relay.address(), &load, ends));
            }
            Event::GatewayRestart => {
                gateway.end().await;
                generation += 1;
                let listener = listening(address, generation).await;
                gateway = Running::start(|ends| serve(listener, ends));
            }
        }
        let until = started.elapsed() + phase;
        while started.elapsed() < until.min(length) {
            tokio::time::sleep(Duration::from_millis(500)).await;
            watch.look(&load.progress(), &relay);
        }
    }
    watch.report(&load.progress(), &relay);
    agent.end().await;
    gateway.end().await;
    println!("passed: every byte as it was sent, and nothing grew beyond its bound");
}

/// Limits of growth and of standstill.
struct Watch {
    started: Instant,
    warm: Duration,
    reported: Instant,
    baseline: Option<Usage>,
    finished: (u64, Instant),
}

impl Watch {
    fn new(started: Instant, warm: Duration) -> Self {
        println!("start: {}", Usage::now());
        Self {
            started,
            warm,
            reported: started,
            baseline: None,
            finished: (0, started),
        }
    }

    fn look(&mut self, progress: &Progress, relay: &Relay) {
        let now = Instant::now();
        if progress.finished > self.finished.0 {
            self.finished = (progress.finished, now);
        }
        let still = now.duration_since(self.finished.1);
        assert!(still < LONGEST_STANDSTILL, "nothing was finished for {still:?}");
        if self.started.elapsed() < self.warm {
            return;
        }
        let usage = Usage::now();
        match self.baseline {
            None => {
                println!("warm after {:.0} s: {usage}", self.warm.as_secs_f64());
                self.baseline = Some(usage);
            }
            Some(baseline) => {
                let (most, least) = (baseline.resident + MAX_GROWTH, baseline.descriptors);
                assert!(usage.resident <= most, "memory grew: {baseline}, then {usage}");
                assert!(
                    usage.descriptors <= least + MAX_MORE_DESCRIPTORS,
                    "descriptors grew: {baseline}, then {usage}"
                );
            }
        }
        if now.duration_since(self.reported) >= REPORT {
            self.reported = now;
            self.report(progress, relay);
        }
    }

    fn report(&self, progress: &Progress, relay: &Relay) {
        println!(
            "{:>5.0} s: {}; {progress}; {}",
            self.started.elapsed().as_secs_f64(),
            Usage::now(),
            relay.report()
        );
    }
}

//! Cost of idle sessions for a gateway: memory of each session and processor time of all.
//!
//! `cargo bench -p longhaul-driver --bench idle -- [--sessions 10000] [--seconds 60]`. The agents run in a
//! separate process.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_driver::{
    DeviceStatus, DialConfig, EpochKeys, LinkState, ListenConfig, Listener, Session, TransportConfig, dial,
    listen,
};
use longhaul_types::{SecretKey, UnixTime};
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use tokio::{sync::Semaphore, task::JoinSet};

/// Concurrent handshakes: no more than a gateway answers before agents repeat their INITs.
const HANDSHAKES: usize = 64;
/// File descriptors that a process needs in addition to its sockets.
const OTHER_DESCRIPTORS: u64 = 100;
/// Time until handshakes are complete and their memory is free again.
const SETTLE: Duration = Duration::from_secs(5);

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
    let sessions: u32 = value("--sessions").map_or(10_000, |value| value.parse().unwrap());
    let seconds: u64 = value("--seconds").map_or(60, |value| value.parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    match value("--agents-of") {
        Some(gateway) => runtime.block_on(agents(sessions, gateway.parse().unwrap())),
        None => runtime.block_on(gateway(sessions, Duration::from_secs(seconds))),
    }
}

fn gateway_secret() -> SecretKey {
    SecretKey::from_bytes([1; 32])
}

fn device_secret(number: u32) -> SecretKey {
    let mut bytes = [2; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_bytes(bytes)
}

fn epoch() -> EpochKeys {
    EpochKeys {
        epoch: 1,
        key: [5; 32],
    }
}

async fn gateway(sessions: u32, watched: Duration) {
    let devices: BTreeMap<_, _> = (0..sessions)
        .map(|number| (device_secret(number).public(), DeviceStatus::Admitted))
        .collect();
    let mut listener = listen(ListenConfig {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        also: Vec::new(),
        secret: gateway_secret(),
        epoch: epoch(),
        reset_secret: [6; 32],
        transport: TransportConfig::gateway(),
        max_sessions: 2 * usize::try_from(sessions).unwrap(),
        devices,
    })
    .unwrap();
    let mut agents = start_agents(sessions, listener.local_addr());
    let mut held = Vec::new();
    // Buffers that exist once are in use from the first session on.
    take_in(&mut listener, &mut held, 1).await;
    let before = resident();
    let started = Instant::now();
    take_in(&mut listener, &mut held, sessions).await;
    println!(
        "{sessions} sessions opened in {:.1} s",
        started.elapsed().as_secs_f64()
    );
    tokio::time::sleep(SETTLE).await;
    let after = resident();
    println!(
        "memory: {:.1} MiB, {} bytes a session",
        mib(after),
        after.saturating_sub(before) / u64::from(sessions.saturating_sub(1).max(1))
    );
    let counters = listener.counters();
    let (received, cpu) = (counters.borrow().received, cpu_seconds());
    tokio::time::sleep(watched).await;
    let cpu = cpu_seconds() - cpu;
    println!(
        "idle for {} s: {} datagrams received, {:.2} % of a core, {:.1} MiB",
        watched.as_secs(),
        counters.borrow().received - received,
        cpu / watched.as_secs_f64() * 100.0,
        mib(resident())
    );
    let alive = held
        .iter()
        .filter(|session| matches!(*session.state().borrow(), LinkState::Open))
        .count();
    assert_eq!(
        alive,
        usize::try_from(sessions).unwrap(),
        "sessions that were lost"
    );
    // Closing the pipe ends the agents.
    drop(agents.stdin.take());
    agents.wait().unwrap();
}

async fn take_in(listener: &mut Listener, held: &mut Vec<Session>, sessions: u32) {
    while held.len() < usize::try_from(sessions).unwrap() {
        held.push(listener.accept().await.unwrap().session);
    }
}

fn start_agents(sessions: u32, gateway: SocketAddr) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--bench", "--sessions", &sessions.to_string()])
        .args(["--agents-of", &gateway.to_string()])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The other process: opens the sessions and holds them until its input ends.
async fn agents(sessions: u32, gateway: SocketAddr) {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let needed = u64::from(sessions) + OTHER_DESCRIPTORS;
    assert!(
        most >= needed,
        "{sessions} sockets need `ulimit -n` of {needed} at least"
    );
    setrlimit(Resource::RLIMIT_NOFILE, needed, most).unwrap();
    let far = UnixTime::new(Duration::from_secs(4_000_000_000));
    let handshakes = Arc::new(Semaphore::new(HANDSHAKES));
    let mut opening = JoinSet::new();
    for number in 0..sessions {
        let permit = Arc::clone(&handshakes).acquire_owned().await.unwrap();
        let secret = device_secret(number);
        let token = epoch().mint(&secret.public(), number.to_be_bytes(), far);
        let config = DialConfig {
            gateway_key: gateway_secret().public(),
            remote: gateway,
            secret,
            token: Some(token),
            profile: None,
            last_stamp: None,
            transport: TransportConfig::agent(None),
        };
        let (session, _) = dial(config, Vec::new()).unwrap();
        opening.spawn(async move {
            let mut state = session.state();
            state.wait_for(|state| *state == LinkState::Open).await.unwrap();
            drop(permit);
            session
        });
    }
    let held = opening.join_all().await;
    let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
    ended.await.unwrap().unwrap();
    drop(held);
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = BufReader::new(std::fs::File::open("/proc/self/status").unwrap());
    let line = status
        .lines()
        .map_while(Result::ok)
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [usage.user_time(), usage.system_time()]
        .map(|time| {
            f64::from(u32::try_from(time.tv_sec()).unwrap())
                + f64::from(u32::try_from(time.tv_usec()).unwrap()) / 1e6
        })
        .iter()
        .sum()
}

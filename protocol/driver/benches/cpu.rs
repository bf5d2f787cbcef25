//! Processor time of a bulk transfer over loopback, for both ends together, compared with QUIC (quinn with
//! its defaults).
//!
//! `cargo bench -p longhaul-driver --bench cpu -- [--gbit 4] [--rounds 5] [--only NAME]`
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longhaul_driver::{
    DeviceStatus, DialConfig, EarlyData, End, EpochKeys, ListenConfig, OpenOptions, Priority,
    SegmentationOffload, TransportConfig, dial_with, listen_with,
};
use longhaul_types::{BitRate, SecretKey, UnixTime};
use nix::sys::{
    resource::{UsageWho, getrusage},
    time::TimeVal,
};

/// Size of a user's write.
const PIECE: usize = 64 * 1024;
/// Rate limit of both ends that does not limit the transfer.
const NO_LIMIT: BitRate = BitRate::bps(100_000_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Longhaul,
    LonghaulWithoutOffload,
    Quinn,
    QuinnWithoutOffload,
}

impl System {
    const ALL: [Self; 4] = [
        Self::Longhaul,
        Self::LonghaulWithoutOffload,
        Self::Quinn,
        Self::QuinnWithoutOffload,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Longhaul => "longhaul",
            Self::LonghaulWithoutOffload => "longhaul-no-gso",
            Self::Quinn => "quinn",
            Self::QuinnWithoutOffload => "quinn-no-gso",
        }
    }

    async fn transfer(self, bytes: u64) -> Duration {
        match self {
            Self::Longhaul => longhaul(bytes, SegmentationOffload::WherePossible).await,
            Self::LonghaulWithoutOffload => longhaul(bytes, SegmentationOffload::Off).await,
            Self::Quinn => quinn(bytes, true).await,
            Self::QuinnWithoutOffload => quinn(bytes, false).await,
        }
    }
}

struct Round {
    cpu: f64,
    seconds: f64,
}

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
    let gbit: f64 = value("--gbit").map_or(4.0, |value| value.parse().unwrap());
    let rounds: usize = value("--rounds").map_or(5, |value| value.parse().unwrap());
    let only = value("--only");
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a size that a person typed"
    )]
    let bytes = (gbit * 1e9 / 8.0) as u64;
    let mut results: BTreeMap<&str, Vec<Round>> = BTreeMap::new();
    for _ in 0..rounds {
        for system in System::ALL {
            if only.as_deref().is_some_and(|only| only != system.name()) {
                continue;
            }
            results
                .entry(system.name())
                .or_default()
                .push(measure(system, bytes, gbit));
        }
    }
    println!("{gbit} Gbit over loopback, {rounds} rounds; both ends; median (least to most)");
    for system in System::ALL {
        let Some(rounds) = results.get(system.name()) else {
            continue;
        };
        let (cpu, least, most) = spread(rounds.iter().map(|round| round.cpu / gbit));
        let (rate, ..) = spread(rounds.iter().map(|round| gbit / round.seconds));
        println!(
            "{:<16} {cpu:.3} cpu-s/Gbit ({least:.3} to {most:.3}), {rate:.2} Gbit/s",
            system.name()
        );
    }
}

/// Median, minimum and maximum.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64, f64) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn measure(system: System, bytes: u64, gbit: f64) -> Round {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let before = cpu_seconds();
    let started = Instant::now();
    // Run in a task, as a program does: a blocked thread would be woken for each packet.
    let transfer = runtime.spawn(system.transfer(bytes));
    let seconds = runtime.block_on(transfer).unwrap().as_secs_f64();
    let cpu = cpu_seconds() - before;
    println!(
        "{:<16} {:.3} cpu-s/Gbit, {:.2} Gbit/s ({:.1} s in all)",
        system.name(),
        cpu / gbit,
        gbit / seconds,
        started.elapsed().as_secs_f64()
    );
    Round { cpu, seconds }
}

fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    let seconds = |time: TimeVal| {
        let whole = f64::from(u32::try_from(time.tv_sec()).unwrap());
        whole + f64::from(u32::try_from(time.tv_usec()).unwrap()) / 1e6
    };
    seconds(usage.user_time()) + seconds(usage.system_time())
}

fn here() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Transfers one stream from the gateway to the agent.
async fn longhaul(bytes: u64, offload: SegmentationOffload) -> Duration {
    let gateway = SecretKey::from_bytes([1; 32]);
    let device = SecretKey::from_bytes([2; 32]);
    let epoch = EpochKeys {
        epoch: 1,
        key: [5; 32],
    };
    let far = UnixTime::new(Duration::from_secs(4_000_000_000));
    let token = epoch.mint(&device.public(), [1; 4], far);
    let config = ListenConfig {
        listen: here(),
        also: Vec::new(),
        secret: gateway.clone(),
        epoch,
        reset_secret: [6; 32],
        transport: TransportConfig {
            max_rate: NO_LIMIT,
            ..TransportConfig::gateway()
        },
        max_sessions: 16,
        devices: BTreeMap::from([(device.public(), DeviceStatus::Admitted)]),
    };
    let mut listener = listen_with(config, offload).unwrap();
    let config = DialConfig {
        gateway_key: gateway.public(),
        remote: listener.local_addr(),
        secret: device,
        token: Some(token),
        profile: None,
        last_stamp: None,
        transport: TransportConfig {
            max_rate: NO_LIMIT,
            ..TransportConfig::agent(None)
        },
    };
    let (agent, _) = dial_with(config, Vec::new(), offload).unwrap();
    let session = listener.accept().await.unwrap().session;
    let started = Instant::now();
    let sender = tokio::spawn(async move {
        let options = OpenOptions {
            class: Priority::NORMAL,
            early: EarlyData::Forbidden,
            total: Some(bytes),
        };
        let mut stream = session.open(options, Bytes::new(), End::Open).await.unwrap();
        for piece in pieces(bytes) {
            stream.write(piece).await.unwrap();
        }
        stream.finish().await.unwrap();
        let _delivered = stream.delivered().await;
        session
    });
    let mut stream = agent.accept().await.unwrap();
    let mut received = 0;
    while let Some(chunk) = stream.read().await.unwrap() {
        received += chunk.len() as u64;
    }
    assert_eq!(received, bytes);
    let elapsed = started.elapsed();
    let stats = sender.await.unwrap().stats();
    println!(
        "                 {} packets, {} lost, {} packets back",
        stats.packets_sent, stats.packets_lost, stats.packets_received
    );
    elapsed
}

/// The same transfer over QUIC.
async fn quinn(bytes: u64, offload: bool) -> Duration {
    let made = rcgen::generate_simple_self_signed(["gateway.invalid".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls_pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut transport = quinn::TransportConfig::default();
    transport.enable_segmentation_offload(offload);
    let transport = Arc::new(transport);
    let mut config = quinn::ServerConfig::with_single_cert(vec![certificate.clone()], key).unwrap();
    config.transport_config(Arc::clone(&transport));
    let server = quinn::Endpoint::server(config, here()).unwrap();
    let address = server.local_addr().unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let mut config = quinn::ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
    config.transport_config(transport);
    let mut client = quinn::Endpoint::client(here()).unwrap();
    client.set_default_client_config(config);
    let accepting = tokio::spawn(async move {
        let connection = server.accept().await.unwrap().await.unwrap();
        (server, connection)
    });
    let connection = client.connect(address, "gateway.invalid").unwrap().await.unwrap();
    let (server, sending) = accepting.await.unwrap();
    let started = Instant::now();
    let sender = tokio::spawn(async move {
        let mut stream = sending.open_uni().await.unwrap();
        for piece in pieces(bytes) {
            stream.write_chunk(piece).await.unwrap();
        }
        stream.finish().unwrap();
        let _delivered = stream.stopped().await;
        (server, sending)
    });
    let mut stream = connection.accept_uni().await.unwrap();
    let mut received = 0;
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await.unwrap() {
        received += chunk.bytes.len() as u64;
    }
    assert_eq!(received, bytes);
    let elapsed = started.elapsed();
    drop(connection);
    drop(sender.await.unwrap());
    elapsed
}

/// A body in pieces of a user's writes.
fn pieces(bytes: u64) -> impl Iterator<Item = Bytes> {
    let piece = Bytes::from(vec![0x5a; PIECE]);
    let size = PIECE as u64;
    (0..bytes.div_ceil(size)).map(move |number| {
        let left = bytes - number * size;
        piece.slice(..usize::try_from(left.min(size)).unwrap())
    })
}

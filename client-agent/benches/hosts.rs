//! Cost of accelerated HTTPS on the device: handshakes with 200 hosts, each twice, and the memory of their
//! certificates. `cargo bench -p longhaul-agent --bench hosts`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
use std::{
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use longhaul_types::{Invite, SecretKey};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

const HOSTS: usize = 200;
/// Clock ticks per second in `/proc` (proc(5)); Linux reports 100 to user space on all architectures.
const TICKS: u32 = 100;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // `cargo test --all-targets` also runs this program, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut agent, proxy) = start(dir.path());
    let connector = connector(dir.path());
    println!("before              {}", used(&agent));
    for turn in ["for the first time", "once more"] {
        let mut times = Vec::with_capacity(HOSTS);
        for host in 0..HOSTS {
            times.push(handshake(proxy, &connector, format!("host{host}.example")).await);
        }
        times.sort_unstable();
        let at = |percent: usize| times[(HOSTS - 1) * percent / 100].as_secs_f64() * 1000.0;
        println!(
            "{HOSTS} hosts {turn:<18} handshake p50 {:.2} ms, p95 {:.2} ms; {}",
            at(50),
            at(95),
            used(&agent)
        );
    }
    agent.kill().unwrap();
    agent.wait().unwrap();
}

/// Starts an agent that accelerates all hosts; a handshake does not need its gateway.
fn start(state: &Path) -> (Child, SocketAddr) {
    let gateway = SecretKey::from_bytes([3; 32]).public();
    let key = SecretKey::from_bytes([4; 32]);
    let invite = Invite::new("127.0.0.1:9".to_owned(), gateway, key, [5; 32]).unwrap();
    let agent = Command::new(env!("CARGO_BIN_EXE_longhaul-agent"))
        .args(["run", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
        .args([
            "--https-accelerate",
            "all",
            "--fallback-after",
            "never",
            "--state-dir",
        ])
        .arg(state)
        .env("LONGHAUL_INVITE", invite.to_line())
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    ready(agent)
}

/// Reads the agent's address from its first line.
fn ready(mut agent: Child) -> (Child, SocketAddr) {
    use std::io::BufRead as _;
    let mut line = String::new();
    std::io::BufReader::new(agent.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let proxy = line
        .split(|character: char| !(character.is_ascii_digit() || ".:".contains(character)))
        .find_map(|word| word.parse().ok())
        .unwrap();
    (agent, proxy)
}

fn connector(state: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(state.join("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // Every handshake is a full one, like that of a browser with a new host.
    config.resumption = rustls::client::Resumption::disabled();
    TlsConnector::from(Arc::new(config))
}

/// Returns the time from CONNECT to the end of the TLS handshake.
async fn handshake(proxy: SocketAddr, connector: &TlsConnector, host: String) -> Duration {
    let mut stream = TcpStream::connect(proxy).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let begun = Instant::now();
    let connect = format!("CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n");
    stream.write_all(connect.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200"));
    let mut secure = connector.connect(host.try_into().unwrap(), stream).await.unwrap();
    let taken = begun.elapsed();
    // A client that rejected the certificate would send no close_notify.
    let _closed = secure.shutdown().await;
    taken
}

/// Returns processor time and memory of the agent.
fn used(agent: &Child) -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", agent.id())).unwrap();
    let stat = read("stat");
    let (_, fields) = stat.rsplit_once(')').unwrap();
    // utime and stime, proc(5).
    let ticks: u32 = fields
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|number| number.parse::<u32>().unwrap())
        .sum();
    let status = read("status");
    let resident = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    format!("processor {} ms, {resident}", ticks * 1000 / TICKS)
}

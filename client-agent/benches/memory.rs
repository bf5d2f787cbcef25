//! Memory of an idle agent with a full cache of 256 MiB. `cargo bench -p longhaul-agent`.
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measurement: it prints, and stops at what it did not expect"
)]
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use longhaul_cache::{Cache, CacheConfig, Cost};
use longhaul_types::{ByteCount, Invite, SecretKey};

const QUOTA: ByteCount = ByteCount::mib(256);
const BODY: usize = 256 * 1024;
const BODIES: u32 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    // `cargo test --all-targets` also runs this program, without the flag.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path().join("cache")).await;
    let gateway = SecretKey::from_bytes([3; 32]).public();
    let invite = Invite::new(
        "127.0.0.1:9".to_owned(),
        gateway,
        SecretKey::from_bytes([4; 32]),
        [5; 32],
    )
    .unwrap();
    let mut agent = Command::new(env!("CARGO_BIN_EXE_longhaul-agent"))
        .args([
            "run",
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--state-dir",
        ])
        .arg(dir.path())
        .env("LONGHAUL_INVITE", invite.to_line())
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    BufReader::new(agent.stdout.take().unwrap())
        .read_line(&mut ready)
        .unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.id())).unwrap();
    agent.kill().unwrap();
    agent.wait().unwrap();
    for line in status
        .lines()
        .filter(|line| line.starts_with("VmRSS:") || line.starts_with("VmHWM:"))
    {
        println!("{line}");
    }
}

/// Fills the cache with incompressible bodies.
async fn fill(dir: std::path::PathBuf) {
    let config = CacheConfig {
        dir,
        file: "cache.sqlite",
        quota: QUOTA,
    };
    let cache = Cache::open(config, 1).unwrap().cache;
    for number in 0..BODIES {
        let mut body = vec![0; BODY];
        blake3::Hasher::new()
            .update(&number.to_le_bytes())
            .finalize_xof()
            .fill(&mut body);
        let mut writer = cache.writer(Cost::unknown());
        writer.write(body.into()).await;
        writer.commit().await.unwrap();
    }
    println!("cache: {}", cache.usage().await.bytes);
    cache.close().await;
}

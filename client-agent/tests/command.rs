//! Tests of the command as operators and scripts use it.
#[cfg(test)]
#[allow(dead_code, reason = "this program uses a part of it")]
#[path = "agent/support/mod.rs"]
mod support;

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

fn command(dir: &std::path::Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-agent"));
    command
        .env_clear()
        .env("LONGHAUL_STATE_DIR", dir)
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn line() -> String {
    support::invite(
        "127.0.0.1:9",
        support::gateway_secret().public(),
        support::device(),
    )
    .to_line()
}

#[test]
fn the_agent_reports_readiness_and_stops_on_request() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("invite"), line() + "\n").unwrap();
    let mut agent = command(dir.path())
        .args(["run", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut out = BufReader::new(agent.stdout.take().unwrap());
    let mut ready = String::new();
    out.read_line(&mut ready).unwrap();
    let address: std::net::SocketAddr = ready.trim().strip_prefix("ready ").unwrap().parse().unwrap();
    assert_ne!(address.port(), 0);
    let status = command(dir.path()).arg("status").output().unwrap();
    assert!(
        status.status.success(),
        "{}",
        String::from_utf8_lossy(&status.stderr)
    );
    assert!(String::from_utf8_lossy(&status.stdout).contains(&address.to_string()));
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("invite"), line() + "\n").unwrap();
    let taken = command(elsewhere.path())
        .args([
            "run",
            "--control",
            "127.0.0.1:0",
            "--listen",
            &address.to_string(),
        ])
        .output()
        .unwrap();
    assert!(!taken.status.success());
    assert!(String::from_utf8_lossy(&taken.stderr).contains("in use by another program"));
    let killed = Command::new("kill").arg(agent.id().to_string()).status().unwrap();
    assert!(killed.success());
    assert!(agent.wait().unwrap().success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "stdout contains more than one line");
    assert!(!dir.path().join("agent.json").exists());
}

#[test]
fn settings_are_checked_before_anything_starts() {
    let dir = tempfile::tempdir().unwrap();
    let missing = command(dir.path()).arg("run").output().unwrap();
    assert!(!missing.status.success());
    assert!(String::from_utf8_lossy(&missing.stderr).contains("longhaul enroll"));
    let file = dir.path().join("agent.toml");
    std::fs::write(&file, "listen = '127.0.0.1:0'\n[fallback]\nafter = '5s'\n").unwrap();
    let good = command(dir.path())
        .args([
            "check-config",
            "--invite",
            &line(),
            "--link",
            "umts-384",
            "--config",
        ])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(
        good.status.success() && said.contains("after 5 s") && said.contains("384.0 kbit/s"),
        "{said}"
    );
    std::fs::write(&file, "listen = '127.0.0.1:0'\n[fallback]\nafter = 5\n").unwrap();
    let bad = command(dir.path())
        .args(["check-config", "--invite", "longhaul1:x", "--config"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&bad.stderr).into_owned();
    assert!(
        !bad.status.success() && said.contains("2 problems") && said.contains("damaged"),
        "{said}"
    );
    let none = command(dir.path()).arg("status").output().unwrap();
    assert!(String::from_utf8_lossy(&none.stderr).contains("no agent runs"));
}

//! The command `longhaul-gateway` as operators use it.
#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpStream, UdpSocket},
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use longhaul_gateway_core::admission::{devices::Devices, state::StateDir};
use longhaul_types::{Invite, SecretKey};

fn command(state: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_longhaul-gateway"));
    command
        .env_clear()
        .env("LONGHAUL_STATE_DIR", state)
        .env("LONGHAUL_LOG", "info")
        .env("LONGHAUL_CONFIG", "/dev/null")
        .args(words);
    command
}

fn output(state: &Path, words: &[&str]) -> Output {
    command(state, words).output().unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr_of_failure(output: &Output) -> String {
    assert!(!output.status.success());
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stderr.clone()).unwrap()
}

struct Running(Child);

impl Running {
    fn start(state: &Path) -> (Self, SocketAddr, BufReader<std::process::ChildStdout>) {
        let mut child = command(state, &["run", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.strip_prefix("ready ").unwrap().trim_end().parse().unwrap();
        (Self(child), address, out)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[cfg(unix)]
#[test]
fn run_reports_readiness_once_and_stops_on_sigterm() {
    let home = tempfile::tempdir().unwrap();
    let (mut running, address, mut out) = Running::start(home.path());
    assert_ne!(address.port(), 0);
    let killed = Command::new("kill")
        .args(["-TERM", &running.0.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "exactly one line on standard output");
    assert!(running.0.wait().unwrap().success(), "a clean shutdown");
}

#[test]
fn a_port_in_use_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let message = stderr_of_failure(&output(home.path(), &["run", "--listen", &listen]));
    let port = taken.local_addr().unwrap().port().to_string();
    assert!(
        message.contains(&port) && message.contains("--listen"),
        "{message}"
    );
}

#[test]
fn an_invite_is_the_only_line_and_admits_its_device() {
    let home = tempfile::tempdir().unwrap();
    let words = ["invite", "--name", "Ann's laptop", "--address", "gw.example:4433"];
    let text = stdout(&output(home.path(), &words));
    assert_eq!(text.lines().count(), 1);
    let invite: Invite = text.parse().unwrap();
    assert_eq!(invite.address(), "gw.example:4433");
    let state = StateDir::open(home.path()).unwrap();
    assert_eq!(invite.gateway(), state.keys().unwrap().secret.public());
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let in_five_months = longhaul_types::UnixTime::new(now + Duration::from_secs(150 * 86_400));
    let epoch = state.keys().unwrap().epoch;
    let token = epoch.check(invite.token(), in_five_months).unwrap();
    assert!(epoch.is_for(&token, &invite.device().public()));
    let devices = Devices::load(&state).unwrap();
    assert_eq!(devices.iter().next().unwrap().key, invite.device().public());
    let kept = std::fs::read_to_string(state.file("devices.toml")).unwrap();
    assert!(
        !kept.contains(&invite.device().to_secret_text()),
        "the gateway must not store the device's secret"
    );
    assert!(stderr_of_failure(&output(home.path(), &words)).contains("admitted already"));
    let no_port = ["invite", "--name", "x", "--address", "gw.example"];
    assert!(stderr_of_failure(&output(home.path(), &no_port)).contains("HOST:PORT"));
    assert_eq!(Devices::load(&state).unwrap().iter().count(), 1);
}

#[test]
fn devices_are_added_listed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let key = SecretKey::from_bytes([5; 32]).public().to_string();
    stdout(&output(home.path(), &["device", "add", "--name", "phone", &key]));
    assert!(stdout(&output(home.path(), &["device", "list"])).contains("phone"));
    assert!(stdout(&output(home.path(), &["device", "remove", "phone"])).contains("removed phone"));
    assert!(stdout(&output(home.path(), &["device", "list"])).contains("  revoked "));
    assert!(stderr_of_failure(&output(home.path(), &["device", "revoke", "phone"])).contains("device list"));
}

#[test]
fn check_config_reports_all_mistakes() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("gateway.toml");
    std::fs::write(
        &file,
        "listen = '127.0.0.1:4433'\n[tunnel]\nidle-timeout = '5 min'\n",
    )
    .unwrap();
    let words = ["check-config", "--config", file.to_str().unwrap()];
    let text = stdout(&output(home.path(), &words));
    assert!(text.contains("listen = \"127.0.0.1:4433\" # "), "{text}");
    assert!(
        text.contains("state-dir = ") && text.contains("# environment variable LONGHAUL_STATE_DIR"),
        "{text}"
    );
    assert!(text.contains("idle-timeout = \"300s\" # "), "{text}");
    std::fs::write(&file, "lisen = 'x'\n[guard]\nalow = []\n").unwrap();
    let message = stderr_of_failure(&output(home.path(), &words));
    assert!(
        message.contains("unknown key `lisen`") && message.contains("unknown key `guard.alow`"),
        "{message}"
    );
}

#[test]
fn a_damaged_key_file_is_reported() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("gateway.key"), "no key\n").unwrap();
    let message = stderr_of_failure(&output(home.path(), &["run", "--listen", "127.0.0.1:0"]));
    assert!(message.contains("gateway.key does not hold a key"), "{message}");
}

/// Connections at the same time: more than the low limit below permits.
#[cfg(unix)]
const MANY: usize = 200;

#[cfg(unix)]
#[test]
fn a_low_limit_of_open_files_is_raised_and_many_connections_are_served() {
    let home = tempfile::tempdir().unwrap();
    // The shell lowers the soft limit only, as systems do that start services with a low one.
    let mut child = Command::new("sh")
        .env_clear()
        .env("LONGHAUL_STATE_DIR", home.path())
        .env("LONGHAUL_LOG", "info")
        .env("LONGHAUL_CONFIG", "/dev/null")
        .env("LONGHAUL_CLIENTLESS_LISTEN", "127.0.0.1:0")
        .env("LONGHAUL_CLIENTLESS_ALLOW", "127.0.0.0/8")
        .args(["-c", "ulimit -Sn 64 && exec \"$0\" run --listen 127.0.0.1:0"])
        .arg(env!("CARGO_BIN_EXE_longhaul-gateway"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let _running = Running(child);
    let proxy: SocketAddr = log
        .find_map(|line| {
            let line = line.contains("may use the HTTP proxy").then_some(line)?;
            let (_, rest) = line.split_once("127.0.0.1:")?;
            let port = rest.split(|c: char| !c.is_ascii_digit()).next()?;
            Some(([127, 0, 0, 1], port.parse().ok()?).into())
        })
        .unwrap();
    // The rest of the log must not fill the pipe.
    std::thread::spawn(move || log.for_each(drop));
    let mut connections = Vec::new();
    for number in 0..MANY {
        let mut connection = TcpStream::connect(proxy).unwrap();
        connection
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        connection
            .write_all(b"GET /proxy.pac HTTP/1.1\r\nHost: proxy.test\r\n\r\n")
            .unwrap();
        let mut status = [0; 12];
        let read = connection.read_exact(&mut status);
        assert!(read.is_ok(), "connection {number}: {read:?}");
        assert_eq!(&status, b"HTTP/1.1 200", "connection {number}");
        connections.push(connection);
    }
}

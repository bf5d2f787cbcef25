//! A gateway and an agent as separate processes, with the agent enrolled at the gateway.
use std::{
    ffi::OsString,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use longhaul_tests::{
    client::{RawResponse, ask, get},
    process::{Running, run},
    relay::Relay,
};
use longhaul_types::BitRate;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, UdpSocket},
    process::Command,
    time::{interval, timeout},
};

/// Maximum duration of a command that is not a server.
pub(crate) const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// Maximum wait for one event, sufficient for a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(40);
/// Name of an agent's own hosts file in a test folder.
pub(crate) const HOSTS: &str = "hosts";
/// Interval between status requests while a test waits for a change.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The hop between agent and gateway.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Link {
    /// Direct UDP over loopback.
    #[default]
    Direct,
    /// Through a relay without a rate limit.
    Relayed,
    /// Through a relay with this rate in both directions.
    Paced(BitRate),
}

/// Options of a pair.
#[derive(Debug, Default)]
pub(crate) struct Setup {
    /// Lines of the gateway's configuration file.
    pub(crate) gateway_config: String,
    /// Further arguments of the agent.
    pub(crate) agent_arguments: Vec<String>,
    /// The hop.
    pub(crate) link: Link,
    /// If set, both state directories are on file systems of this size in bytes. Requires root.
    pub(crate) disk: Option<u64>,
    /// If not empty, the hosts file (hosts(5)) that the agent sees. Requires root.
    pub(crate) agent_hosts: &'static str,
}

impl Setup {
    /// A gateway that resolves these names to these addresses, and an agent without direct fallback, so that
    /// no request can bypass the gateway.
    pub(crate) fn resolving(names: &[(&str, SocketAddr)]) -> Self {
        let lines: Vec<String> = names
            .iter()
            .map(|(name, address)| format!("\"{name}\" = \"{address}\""))
            .collect();
        Self {
            gateway_config: format!("[fetch.resolve]\n{}\n", lines.join("\n")),
            agent_arguments: vec!["--fallback-after".to_owned(), "never".to_owned()],
            ..Self::default()
        }
    }

    /// The same options for a test that counts bytes over the hop: the agent measures its link by a packet only, and not
    /// by up to 41 kB at a time that the test does not know.
    pub(crate) fn counted(mut self) -> Self {
        self.agent_arguments
            .extend(["--link-metered", "yes"].map(str::to_owned));
        self
    }

    /// The same options with another hop.
    pub(crate) fn over(self, link: Link) -> Self {
        Self { link, ..self }
    }
}

/// A running pair.
#[derive(Debug)]
pub(crate) struct Pair {
    gateway: Option<Running>,
    gateway_address: SocketAddr,
    agent: Option<Running>,
    relay: Option<Relay>,
    line: String,
    agent_arguments: Vec<String>,
    second_invite: String,
    _disks: Vec<SmallDisk>,
    folder: TempDir,
}

impl Pair {
    /// Starts gateway and agent; the agent gets an invite. A second device is enrolled for tests with two
    /// devices.
    pub(crate) async fn start(setup: Setup) -> Result<Self> {
        let folder = folder()?;
        let mut disks = Vec::new();
        for name in ["gateway", "agent"] {
            if let Some(size) = setup.disk {
                disks.push(SmallDisk::mount(&folder.path().join(name), size).await?);
            }
        }
        std::fs::write(folder.path().join("gateway.toml"), &setup.gateway_config)?;
        if !setup.agent_hosts.is_empty() {
            std::fs::write(folder.path().join(HOSTS), setup.agent_hosts)?;
        }
        // The devices are enrolled before the gateway starts, so that it knows them from the start.
        let gateway_address = free_udp_port().await?;
        let relay = match setup.link {
            Link::Direct => None,
            Link::Relayed => Some(Relay::start(gateway_address, None).await?),
            Link::Paced(rate) => Some(Relay::start(gateway_address, Some(rate)).await?),
        };
        let known_as = relay.as_ref().map_or(gateway_address, Relay::address).to_string();
        let line = invite(folder.path(), "test", &known_as).await?;
        let second_invite = invite(folder.path(), "spare", &known_as).await?;
        let gateway = start_gateway(folder.path(), &gateway_address.to_string()).await?;
        let agent = start_agent(folder.path(), &line, &setup.agent_arguments).await?;
        Ok(Self {
            gateway: Some(gateway),
            gateway_address,
            agent: Some(agent),
            relay,
            line,
            agent_arguments: setup.agent_arguments,
            second_invite,
            _disks: disks,
            folder,
        })
    }

    /// Starts an agent of the second device with its state in the folder `name`, which may exist from an
    /// earlier run.
    pub(crate) async fn second_agent(&self, name: &str) -> Result<Running> {
        self.second_agent_with(name, &[]).await
    }

    /// [`Self::second_agent`] with further arguments.
    pub(crate) async fn second_agent_with(&self, name: &str, more: &[&str]) -> Result<Running> {
        let folder = self.folder.path().join(name);
        std::fs::create_dir_all(&folder)?;
        let mut arguments = vec!["--fallback-after".to_owned(), "never".to_owned()];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        start_agent(&folder, &self.second_invite, &arguments).await
    }

    /// Value of a flag of the agent.
    pub(crate) fn agent_argument(&self, flag: &str) -> Option<&str> {
        let mut from = self.agent_arguments.iter().skip_while(|word| *word != flag);
        from.nth(1).map(String::as_str)
    }

    /// The invite of the second device.
    pub(crate) fn second_invite(&self) -> &str {
        &self.second_invite
    }

    /// The gateway.
    pub(crate) fn gateway(&self) -> &Running {
        self.gateway.as_ref().expect("not killed")
    }

    /// Address of the agent's proxy port.
    pub(crate) fn proxy(&self) -> SocketAddr {
        self.agent().address()
    }

    /// The agent.
    pub(crate) fn agent(&self) -> &Running {
        self.agent.as_ref().expect("not killed")
    }

    /// The hop's relay.
    pub(crate) fn relay(&self) -> &Relay {
        self.relay.as_ref().expect("a pair with a relay")
    }

    /// Takes the hop's relay out of the pair; the hop ends when the relay is dropped.
    pub(crate) fn take_relay(&mut self) -> Result<Relay> {
        self.relay.take().context("a pair with a relay")
    }

    /// The folder with the state directories `gateway` and `agent`.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the gateway as `kill -9` does.
    pub(crate) async fn kill_gateway(&mut self) -> Result<()> {
        self.gateway.take().context("a running gateway")?.kill().await
    }

    /// Ends the gateway in order, by a signal.
    pub(crate) async fn end_gateway(&mut self, signal: &str) -> Result<()> {
        let gateway = self.gateway.take().context("a running gateway")?;
        let status = gateway.end(signal, LIMIT).await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Waits until the gateway ends by itself, in order.
    pub(crate) async fn gateway_ends(&mut self) -> Result<()> {
        let status = self
            .gateway
            .take()
            .context("a running gateway")?
            .ended(LIMIT)
            .await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Starts the gateway again, with the same port and state.
    pub(crate) async fn start_gateway(&mut self) -> Result<()> {
        let address = self.gateway_address.to_string();
        self.gateway = Some(start_gateway(self.folder.path(), &address).await?);
        Ok(())
    }

    /// Kills the agent as `kill -9` does.
    pub(crate) async fn kill_agent(&mut self) -> Result<()> {
        self.agent.take().context("a running agent")?.kill().await
    }

    /// Ends the agent in order, by a signal.
    pub(crate) async fn end_agent(&mut self, signal: &str) -> Result<()> {
        let agent = self.agent.take().context("a running agent")?;
        let status = agent.end(signal, LIMIT).await?;
        ensure!(status.success(), "{status}");
        Ok(())
    }

    /// Starts the agent again with the same state; its port may change.
    pub(crate) async fn start_agent(&mut self) -> Result<()> {
        self.agent = Some(start_agent(self.folder.path(), &self.line, &self.agent_arguments).await?);
        Ok(())
    }

    /// Ends both programs in order.
    pub(crate) async fn end(&mut self) -> Result<()> {
        for running in [self.agent.take(), self.gateway.take()] {
            running.context("a running program")?.end("INT", LIMIT).await?;
        }
        Ok(())
    }

    /// Address of the agent's control port.
    pub(crate) fn control(&self) -> Result<SocketAddr> {
        control(self.folder.path())
    }

    /// The agent's status.
    pub(crate) async fn status(&self) -> Result<Value> {
        status(self.control()?).await
    }

    /// Waits until the agent's status meets a condition.
    pub(crate) async fn status_until(&self, reached: impl Fn(&Value) -> bool) -> Result<Value> {
        status_until(self.control()?, reached).await
    }

    /// Sends a GET request through the agent.
    pub(crate) async fn get(&self, url: &str) -> Result<RawResponse> {
        ask(self.proxy(), get(url, &[])).await
    }
}

/// A small file system for a state directory; dropping it unmounts it.
#[derive(Debug)]
struct SmallDisk(PathBuf);

impl SmallDisk {
    async fn mount(folder: &Path, size: u64) -> Result<Self> {
        std::fs::DirBuilder::new().mode(0o700).create(folder)?;
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=0700"), "tmpfs"])
            .arg(folder)
            .output()
            .await?;
        let output = String::from_utf8_lossy(&mounted.stderr).into_owned();
        ensure!(mounted.status.success(), "mount: {output}");
        Ok(Self(folder.to_owned()))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A killed process may still use the file system for a moment.
        let _left = std::process::Command::new("umount")
            .arg("--lazy")
            .arg(&self.0)
            .status();
    }
}

/// The ports that a test may name before a program binds them. Systems do not give them to sockets without a port of their
/// own, so no other socket takes them in between.
const NAMED_PORTS: std::ops::Range<u16> = 10_000..32_000;

/// An address of loopback with a port of [`NAMED_PORTS`] that `binds` finds free, another one at each call.
async fn free_port<T>(binds: impl AsyncFn(SocketAddr) -> std::io::Result<T>) -> Result<SocketAddr> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let ports = u32::from(NAMED_PORTS.end - NAMED_PORTS.start);
    for _ in 0..ports {
        // Runs side by side begin at different ports.
        let number = std::process::id()
            .wrapping_mul(61)
            .wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed));
        let port = NAMED_PORTS.start + u16::try_from(number % ports)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if binds(address).await.is_ok() {
            return Ok(address);
        }
    }
    bail!("no port is free")
}

/// An address with a free UDP port.
pub(crate) async fn free_udp_port() -> Result<SocketAddr> {
    free_port(async |address| UdpSocket::bind(address).await).await
}

/// An address with a free TCP port.
pub(crate) async fn free_tcp_port() -> Result<SocketAddr> {
    free_port(async |address| TcpListener::bind(address).await).await
}

/// A temporary folder for the state of a test.
pub(crate) fn folder() -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("longhaul-e2e-").tempdir()?)
}

/// Starts the gateway whose state is in a test folder.
pub(crate) async fn start_gateway(folder: &Path, listen: &str) -> Result<Running> {
    let mut arguments: Vec<OsString> = ["run", "--listen", listen, "--config"]
        .map(OsString::from)
        .to_vec();
    arguments.push(folder.join("gateway.toml").into_os_string());
    arguments.extend(["--state-dir".into(), folder.join("gateway").into_os_string()]);
    Running::start("longhaul-gateway", &arguments).await
}

/// Creates an invite of the gateway whose state is in a test folder.
pub(crate) async fn invite(folder: &Path, name: &str, address: &str) -> Result<String> {
    let state = folder.join("gateway").display().to_string();
    let arguments = [
        "invite",
        "--state-dir",
        &state,
        "--name",
        name,
        "--address",
        address,
    ];
    let made = run("longhaul-gateway", &arguments, COMMAND_LIMIT).await?;
    ensure!(made.code == Some(0), "invite: {}", made.stderr);
    ensure!(
        made.stdout.lines().count() == 1,
        "not exactly one line: {}",
        made.stdout
    );
    Ok(made.stdout.trim().to_owned())
}

/// Starts the agent whose state is in a test folder.
pub(crate) async fn start_agent(folder: &Path, line: &str, more: &[String]) -> Result<Running> {
    let arguments = agent_arguments(folder, line, more);
    let hosts = folder.join(HOSTS);
    if hosts.exists() {
        Running::start_with_hosts(&hosts, "longhaul-agent", &arguments).await
    } else {
        Running::start("longhaul-agent", &arguments).await
    }
}

/// Arguments of an agent whose state is in a test folder.
pub(crate) fn agent_arguments(folder: &Path, line: &str, more: &[String]) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "run",
        "--listen",
        "127.0.0.1:0",
        "--control",
        "127.0.0.1:0",
        "--invite",
        line,
    ]
    .map(OsString::from)
    .to_vec();
    arguments.extend(["--state-dir".into(), folder.join("agent").into_os_string()]);
    arguments.extend(more.iter().map(OsString::from));
    arguments
}

/// Address of the control port of the agent whose state is in a test folder.
pub(crate) fn control(folder: &Path) -> Result<SocketAddr> {
    let about = std::fs::read_to_string(folder.join("agent/agent.json")).context("agent.json")?;
    let about: Value = serde_json::from_str(&about)?;
    Ok(about["control"].as_str().context("control address")?.parse()?)
}

/// The status of an agent.
pub(crate) async fn status(control: SocketAddr) -> Result<Value> {
    let request = format!("GET /status.json HTTP/1.1\r\nHost: {control}\r\nConnection: close\r\n\r\n");
    let response = ask(control, request).await?;
    ensure!(response.status == 200, "{response:?}");
    Ok(serde_json::from_slice(&response.body)?)
}

/// Waits until an agent's status meets a condition.
pub(crate) async fn status_until(control: SocketAddr, reached: impl Fn(&Value) -> bool) -> Result<Value> {
    let mut last = Value::Null;
    let mut looks = interval(POLL_INTERVAL);
    let wait = async {
        loop {
            looks.tick().await;
            last = status(control).await?;
            if reached(&last) {
                return Ok(last.clone());
            }
        }
    };
    match timeout(LIMIT, wait).await {
        Ok(result) => result,
        Err(_) => anyhow::bail!("the last status was {last:#}"),
    }
}

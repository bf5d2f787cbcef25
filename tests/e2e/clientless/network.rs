//! A visitor behind a router on which a gateway runs, and the hosts of the web behind the router.
use std::{
    io::Write as _,
    net::IpAddr,
    process::{Command, Output, Stdio},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use longhaul_tests::process::{Running, run};
use longhaul_world::{Namespace, NamespaceError, NamespaceThread};
use tempfile::TempDir;

use crate::pair::{COMMAND_LIMIT, folder, start_gateway};

/// Addresses of the router towards the visitor, and of the visitor.
pub(super) const ROUTER_V4: &str = "10.92.0.1";
pub(super) const ROUTER_V6: &str = "fd92::1";
pub(super) const VISITOR_V4: &str = "10.92.0.2";
/// The networks of visitors.
pub(super) const VISITORS: [&str; 2] = ["10.92.0.0/24", "fd92::/64"];
/// The gateway's address for agents, which are none.
const AGENTS: &str = "10.92.0.1:4433";
/// Interface of the router towards the visitor.
pub(super) const INTERFACE: &str = "lan0";
/// Addresses of hosts, public ones: others are not redirected.
pub(super) const HOST_V4: &str = "11.92.0.2";
pub(super) const OTHER_V4: &str = "11.92.0.3";
pub(super) const HOST_V6: &str = "2a00:92::2";

/// Three namespaces, which end with it.
#[derive(Debug)]
pub(super) struct Net {
    pub(super) visitor: Namespace,
    pub(super) router: Namespace,
    pub(super) web: Namespace,
    _threads: [NamespaceThread; 3],
}

impl Net {
    /// Creates the namespaces; `None`, with a message, without the privileges.
    pub(super) fn build() -> Result<Option<Arc<Self>>> {
        let made = || -> Result<_, NamespaceError> {
            Ok((
                Namespace::create("visitor")?,
                Namespace::create("router")?,
                Namespace::create("web")?,
            ))
        };
        let ((visitor, one), (router, two), (web, three)) = match made() {
            Ok(made) => made,
            Err(error @ NamespaceError::Refused(_)) => {
                println!("SKIPPED: {error}");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let net = Self {
            visitor,
            router,
            web,
            _threads: [one, two, three],
        };
        net.connect()?;
        Ok(Some(Arc::new(net)))
    }

    fn connect(&self) -> Result<()> {
        let space = |namespace: &Namespace| -> Result<String> {
            let thread = namespace.run_blocking(|| std::fs::read_link("/proc/thread-self"))?;
            Ok(format!("/proc/{}/ns/net", thread.display()))
        };
        let (visitor, web) = (space(&self.visitor)?, space(&self.web)?);
        self.router.run_blocking(move || -> Result<()> {
            ip("link set lo up")?;
            ip(&format!(
                "link add {INTERFACE} type veth peer name wlan0 netns {visitor}"
            ))?;
            ip(&format!("link add wan0 type veth peer name hosts netns {web}"))?;
            for scope in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{scope}"), "1")?;
            }
            up(INTERFACE, &["10.92.0.1/24", "fd92::1/64"])?;
            up("wan0", &["11.92.0.1/24", "2a00:92::1/64"])
        })?;
        self.visitor.run_blocking(|| -> Result<()> {
            ip("link set lo up")?;
            up("wlan0", &["10.92.0.2/24", "fd92::2/64"])?;
            ip("route add default via 10.92.0.1")?;
            ip("-6 route add default via fd92::1")
        })?;
        self.web.run_blocking(|| -> Result<()> {
            ip("link set lo up")?;
            up("hosts", &["11.92.0.2/24", "11.92.0.3/24", "2a00:92::2/64"])?;
            ip("route add default via 11.92.0.1")?;
            ip("-6 route add default via 2a00:92::1")
        })
    }
}

/// A gateway on the router.
#[derive(Debug)]
pub(super) struct RouterGateway {
    _running: Running,
    pub(super) folder: TempDir,
}

impl RouterGateway {
    /// Starts it with these lines of configuration.
    pub(super) async fn start(net: &Net, lines: &str) -> Result<Self> {
        Self::start_in(net, folder()?, lines).await
    }

    /// The same with a folder in which the operator has prepared its state.
    pub(super) async fn start_in(net: &Net, folder: TempDir, lines: &str) -> Result<Self> {
        let path = folder.path().to_owned();
        std::fs::write(path.join("gateway.toml"), lines)?;
        let running = net
            .router
            .run(move || async move { start_gateway(&path, AGENTS).await });
        Ok(Self {
            _running: running.await?,
            folder,
        })
    }

    /// Applies the rules that the gateway prints.
    pub(super) async fn redirect(&self, net: &Net) -> Result<String> {
        let config = self.folder.path().join("gateway.toml").display().to_string();
        let mut arguments = vec!["clientless", "rules", "--config", &config, "--iface", INTERFACE];
        arguments.extend(VISITORS.iter().flat_map(|network| ["--from", network]));
        let printed = run("longhaul-gateway", &arguments, COMMAND_LIMIT).await?;
        ensure!(printed.code == Some(0), "rules: {}", printed.stderr);
        let rules = printed.stdout.clone();
        // Twice: the rules replace those from before.
        net.router
            .run_blocking(move || nft(&rules).and_then(|()| nft(&rules)))?;
        Ok(printed.stdout)
    }
}

fn up(interface: &str, addresses: &[&str]) -> Result<()> {
    for address in addresses {
        let ip_address: IpAddr = address.split('/').next().unwrap_or_default().parse()?;
        // Otherwise the address may not be used at first, until duplicates are excluded.
        let more = if ip_address.is_ipv6() { " nodad" } else { "" };
        ip(&format!("address add {address} dev {interface}{more}"))?;
    }
    ip(&format!("link set {interface} up"))
}

/// Runs `ip` in the namespace of the calling thread.
pub(super) fn ip(arguments: &str) -> Result<()> {
    let output = Command::new("ip")
        .args(arguments.split(' '))
        .output()
        .context("ip is missing: install iproute2")?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "ip {arguments}: {error}");
    Ok(())
}

/// Applies a text of rules as a whole, in the namespace of the calling thread.
pub(super) fn nft(text: &str) -> Result<()> {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("nft is missing: install nftables")?;
    let mut input = nft.stdin.take().context("nft's input")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    let output = nft.wait_with_output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "nft: {error}\n{text}");
    Ok(())
}

/// Runs a program on the visitor's computer.
pub(super) async fn visit(net: &Net, program: &'static str, arguments: &[&str]) -> Result<Output> {
    let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
    let run = move || async move {
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).kill_on_drop(true);
        command.output().await
    };
    net.visitor
        .run(run)
        .await
        .with_context(|| format!("{program} is missing"))
}

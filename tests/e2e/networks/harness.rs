//! A computer that can be plugged into several networks, each with a router on the way to one gateway.
use std::{net::SocketAddr, process::Command, sync::Arc};

use anyhow::{Context, Result, ensure};
use longhaul_tests::{origin::Origin, process::Running};
use longhaul_world::{Namespace, NamespaceError, NamespaceThread};
use serde_json::Value;
use tempfile::TempDir;

use crate::pair::{agent_arguments, control, folder, invite, start_agent, start_gateway, status_until};

/// Address and port of the gateway, behind every router.
pub(crate) const GATEWAY: &str = "10.91.0.1:4433";
/// Name of the origin at the gateway.
pub(crate) const HOST: &str = "files.test";

/// Where the gateway is, and what the computer knows of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site {
    /// UDP addresses of the gateway, separated by commas.
    pub(crate) listen: &'static str,
    /// Address in the invite.
    pub(crate) address: &'static str,
    /// Further lines of the gateway's configuration.
    pub(crate) lines: &'static str,
    /// Host names of the computer, in place of its own: each is an address and a name.
    pub(crate) hosts: &'static [&'static str],
}

impl Default for Site {
    fn default() -> Self {
        Self {
            listen: GATEWAY,
            address: GATEWAY,
            lines: "",
            hosts: &[],
        }
    }
}

/// Two namespaces: the computer of the agent, and the routers with the gateway behind them. They end with it.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) computer: Namespace,
    pub(crate) far: Namespace,
    _threads: [NamespaceThread; 2],
}

/// A network: a router, with the rate of its link towards the computer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plug {
    /// 1 to 9; the same number is the same router.
    pub(crate) number: u8,
    /// Rate in Mbit/s; 0 for no limit.
    pub(crate) mbps: u32,
}

impl Plug {
    pub(crate) const fn new(number: u8) -> Self {
        Self { number, mbps: 0 }
    }
}

impl Net {
    /// Creates the namespaces; `None`, with a message, without the privileges.
    pub(crate) fn build() -> Result<Option<Arc<Self>>> {
        let made =
            Namespace::create("computer").and_then(|computer| Ok((computer, Namespace::create("far")?)));
        let ((computer, one), (far, other)) = match made {
            Ok(made) => made,
            Err(error @ NamespaceError::Refused(_)) => {
                println!("SKIPPED: {error}");
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let net = Self {
            computer,
            far,
            _threads: [one, other],
        };
        net.computer.run_blocking(|| ip("link set lo up"))?;
        net.far
            .run_blocking(|| ip("link set lo up").and_then(|()| ip("address add 10.91.0.1/32 dev lo")))?;
        Ok(Some(Arc::new(net)))
    }

    /// Plugs the computer into a network.
    pub(crate) fn plug(&self, Plug { number, mbps }: Plug) -> Result<()> {
        let thread = self
            .computer
            .run_blocking(|| std::fs::read_link("/proc/thread-self"))?;
        let space = format!("/proc/{}/ns/net", thread.display());
        self.far.run_blocking(move || -> Result<()> {
            ip(&format!(
                "link add r{number} address 02:00:00:00:00:0{number} type veth peer name c{number} netns {space}"
            ))?;
            ip(&format!("address add 10.91.{number}.1/24 dev r{number}"))?;
            ip(&format!("link set r{number} up"))?;
            if mbps > 0 {
                let shaping = format!(
                    "qdisc add dev r{number} root tbf rate {mbps}mbit burst 16kb latency 200ms"
                );
                run("tc", &shaping)?;
            }
            Ok(())
        })?;
        self.computer.run_blocking(move || {
            ip(&format!("address add 10.91.{number}.2/24 dev c{number}"))?;
            ip(&format!("link set c{number} up"))?;
            ip(&format!("route add default via 10.91.{number}.1"))
        })
    }

    /// Plugs the computer into a network that has only IPv6.
    pub(crate) fn plug_v6(&self, number: u8) -> Result<()> {
        let thread = self
            .computer
            .run_blocking(|| std::fs::read_link("/proc/thread-self"))?;
        let space = format!("/proc/{}/ns/net", thread.display());
        // Without duplicate address detection, addresses can be used at once.
        self.far.run_blocking(move || -> Result<()> {
            ip(&format!(
                "link add r{number} address 02:00:00:00:00:0{number} type veth peer name c{number} netns {space}"
            ))?;
            ip(&format!("address add fd91:{number}::1/64 dev r{number} nodad"))?;
            ip(&format!("link set r{number} up"))
        })?;
        self.computer.run_blocking(move || {
            ip(&format!("address add fd91:{number}::2/64 dev c{number} nodad"))?;
            ip(&format!("link set c{number} up"))?;
            ip(&format!("route add default via fd91:{number}::1 dev c{number}"))
        })
    }

    /// Drops the datagrams of UDP that come from a network, or lets them through again.
    pub(crate) fn block_udp(&self, number: u8, is_blocked: bool) -> Result<()> {
        self.far.run_blocking(move || {
            let rule = format!("pref 50 iif r{number} ipproto udp blackhole");
            if !is_blocked {
                return ip(&format!("rule del {rule}"));
            }
            // The table of local addresses usually comes before all rules.
            ip("rule add pref 100 lookup local")?;
            ip(&format!("rule add {rule}"))?;
            ip("rule del pref 0")
        })
    }

    /// Drops the datagrams of UDP that come from a network to this port.
    pub(crate) fn block_udp_to(&self, number: u8, port: u16) -> Result<()> {
        self.far.run_blocking(move || {
            ip("rule add pref 100 lookup local")?;
            ip(&format!(
                "rule add pref 50 iif r{number} ipproto udp dport {port} blackhole"
            ))?;
            ip("rule del pref 0")
        })
    }

    /// Gives the gateway's host a further address.
    pub(crate) fn add_gateway_address(&self, address: &'static str) -> Result<()> {
        self.far
            .run_blocking(move || ip(&format!("address add {address} dev lo")))
    }

    /// Unplugs the computer from a network: interface, address and routes are gone.
    pub(crate) fn unplug(&self, number: u8) -> Result<()> {
        self.computer
            .run_blocking(move || ip(&format!("link del c{number}")))
    }
}

/// Programs at both ends, and an origin behind the gateway.
#[derive(Debug)]
pub(crate) struct Programs {
    net: Arc<Net>,
    pub(crate) agent: Option<Running>,
    _gateway: Running,
    pub(crate) origin: Arc<Origin>,
    line: String,
    hosts: &'static [&'static str],
    folder: TempDir,
}

impl Programs {
    /// Starts gateway, origin and agent; the computer must be plugged in.
    pub(crate) async fn start<F, O>(net: &Arc<Net>, origin: F) -> Result<Self>
    where
        F: FnOnce() -> O + Send + 'static,
        O: Future<Output = Result<Origin>> + 'static,
    {
        Self::start_at(net, origin, Site::default()).await
    }

    /// [`Self::start`] with further lines of the gateway's configuration.
    pub(crate) async fn start_with<F, O>(net: &Arc<Net>, origin: F, lines: &'static str) -> Result<Self>
    where
        F: FnOnce() -> O + Send + 'static,
        O: Future<Output = Result<Origin>> + 'static,
    {
        let site = Site {
            lines,
            ..Site::default()
        };
        Self::start_at(net, origin, site).await
    }

    /// [`Self::start`] with another place of the gateway.
    pub(crate) async fn start_at<F, O>(net: &Arc<Net>, origin: F, site: Site) -> Result<Self>
    where
        F: FnOnce() -> O + Send + 'static,
        O: Future<Output = Result<Origin>> + 'static,
    {
        let folder = folder()?;
        let path = folder.path().to_owned();
        let (origin, gateway, line) = net
            .far
            .run(move || async move {
                let origin = origin().await?;
                let config = format!(
                    "[fetch.resolve]\n\"{HOST}\" = \"{}\"\n{}",
                    origin.address(),
                    site.lines
                );
                std::fs::write(path.join("gateway.toml"), config)?;
                let line = invite(&path, "test", site.address).await?;
                let gateway = start_gateway(&path, site.listen).await?;
                anyhow::Ok((origin, gateway, line))
            })
            .await?;
        let mut programs = Self {
            net: Arc::clone(net),
            agent: None,
            _gateway: gateway,
            origin: Arc::new(origin),
            line,
            hosts: site.hosts,
            folder,
        };
        programs.start_agent(&[]).await?;
        Ok(programs)
    }

    /// Starts the agent, with the state of an earlier one.
    pub(crate) async fn start_agent(&mut self, more: &[&str]) -> Result<()> {
        let (path, line) = (self.folder.path().to_owned(), self.line.clone());
        let mut arguments = vec!["--fallback-after".to_owned(), "never".to_owned()];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let hosts = path.join("hosts");
        let has_hosts = !self.hosts.is_empty();
        if has_hosts {
            std::fs::write(&hosts, self.hosts.join("\n") + "\n")?;
        }
        let agent = self.net.computer.run(move || async move {
            if has_hosts {
                let arguments = agent_arguments(&path, &line, &arguments);
                Running::start_with_hosts(&hosts, "longhaul-agent", &arguments).await
            } else {
                start_agent(&path, &line, &arguments).await
            }
        });
        self.agent = Some(agent.await?);
        Ok(())
    }

    /// Ends the agent in order.
    pub(crate) async fn end_agent(&mut self) -> Result<()> {
        let agent = self.agent.take().context("a running agent")?;
        let ended = self
            .net
            .computer
            .run(|| agent.end("TERM", crate::pair::LIMIT))
            .await?;
        ensure!(ended.success(), "{ended}");
        Ok(())
    }

    pub(crate) fn agent(&self) -> &Running {
        self.agent.as_ref().expect("a running agent")
    }

    pub(crate) fn proxy(&self) -> SocketAddr {
        self.agent().address()
    }

    /// Folder with the state directories.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// Waits until the agent's status meets a condition.
    pub(crate) async fn status_until(
        &self,
        reached: impl Fn(&Value) -> bool + Send + 'static,
    ) -> Result<Value> {
        let control = control(self.folder.path())?;
        self.net
            .computer
            .run(move || status_until(control, reached))
            .await
    }
}

/// Runs `ip` in the namespace of the calling thread.
fn ip(arguments: &str) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &str) -> Result<()> {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .output()
        .with_context(|| format!("{program} is missing: install iproute2"))?;
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{program} {arguments}: {error}");
    Ok(())
}

//! A gateway and an agent as separate processes, with the agent enrolled at the gateway.
use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use longhaul_hosting::authority::key_pin;
use longhaul_tests::process::{Running, run};
use tempfile::TempDir;
use tokio::net::UdpSocket;

/// Maximum duration of a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// What a gateway reaches besides the origin.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// A file with another authority.
    pub(crate) authority: Option<PathBuf>,
    /// The name server for all names that no table has.
    pub(crate) name_server: Option<SocketAddr>,
    /// Hosts with their addresses.
    pub(crate) hosts: Vec<(String, SocketAddr)>,
}

/// A running pair that accelerates all hosts.
#[derive(Debug)]
pub(crate) struct Pair {
    agent: Running,
    gateway: Running,
    folder: TempDir,
}

impl Pair {
    /// Starts a pair whose gateway reaches all names in `test` at these addresses, and trusts this authority.
    pub(crate) async fn start(plain: SocketAddr, secure: SocketAddr, authority: &str) -> Result<Self> {
        Self::start_with(plain, secure, authority, &Extra::default()).await
    }

    /// The same with more of what a gateway reaches.
    pub(crate) async fn start_with(
        plain: SocketAddr,
        secure: SocketAddr,
        authority: &str,
        extra: &Extra,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("longhaul-differential-")
            .tempdir()?;
        let path = folder.path();
        std::fs::write(path.join("authority.pem"), authority)?;
        let mut authorities = vec![path.join("authority.pem")];
        authorities.extend(extra.authority.clone());
        let servers = extra.name_server.map(|server| server.to_string());
        let mut config = format!(
            "[guard]\nallow = ['127.0.0.0/8', '::1/128']\n[fetch]\nextra-ca = {authorities:?}\n{}[fetch.resolve]\n\"*.test:80\" = \"{plain}\"\n\"*.test:443\" = \"{secure}\"\n\"programs.test\" = \"127.0.0.1\"\n",
            servers
                .map(|server| format!("dns = ['{server}']\n"))
                .unwrap_or_default(),
        );
        for (host, address) in &extra.hosts {
            config.push_str(&format!("\"{host}\" = \"{address}\"\n"));
        }
        std::fs::write(path.join("gateway.toml"), config)?;
        let address = UdpSocket::bind(("127.0.0.1", 0)).await?.local_addr()?.to_string();
        let state = path.join("gateway").into_os_string();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let mut invite = words(&["invite", "--name", "judge", "--address", &address, "--state-dir"]);
        invite.push(state.clone());
        let made = run("longhaul-gateway", &invite, COMMAND_LIMIT).await?;
        ensure!(made.code == Some(0), "invite: {}", made.stderr);
        let mut arguments = words(&["run", "--listen", &address, "--state-dir"]);
        arguments.extend([
            state,
            "--config".into(),
            path.join("gateway.toml").into_os_string(),
        ]);
        let gateway = Running::start("longhaul-gateway", &arguments).await?;
        let mut arguments = words(&["run", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        arguments.extend(words(&["--fallback-after", "never", "--https-accelerate", "all"]));
        arguments.extend(words(&["--invite", made.stdout.trim(), "--state-dir"]));
        arguments.push(path.join("agent").into_os_string());
        let agent = Running::start("longhaul-agent", &arguments).await?;
        Ok(Self {
            agent,
            gateway,
            folder,
        })
    }

    /// The agent's proxy port.
    pub(crate) fn proxy(&self) -> SocketAddr {
        self.agent.address()
    }

    /// Hash of the key of the agent's authority.
    pub(crate) fn pin(&self) -> Result<String> {
        let key = std::fs::read_to_string(self.folder.path().join("agent/ca.key"))
            .context("the agent's authority")?;
        Ok(key_pin(&key)?)
    }

    /// The folder with the state of both programs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The logs of both programs.
    pub(crate) fn logs(&self) -> String {
        format!("{}\n{}", self.agent.log().text(), self.gateway.log().text())
    }
}

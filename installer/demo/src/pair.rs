//! A gateway and an agent that is enrolled with it.
use std::{
    collections::BTreeMap,
    fs, io,
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    path::{Path, PathBuf},
};

use longhaul_netem::HopConfig;
use longhaul_types::Invite;
use serde::Serialize;
use tokio::process::Command;

use super::{
    Override,
    emulation::DatagramRelay,
    program::{ProgramError, Programs},
    service::{self, Service, ServiceError},
};

/// Attempts to get a free port: another program may take it between the check and the gateway's start.
const ATTEMPTS: usize = 3;
/// Size limit of state files, which have a few hundred bytes.
const MAX_STATE_FILE: usize = 64 * 1024;

/// Configuration of the pair.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) resolve: Vec<Override>,
    pub(super) ca_files: Vec<PathBuf>,
    /// The emulated hop between agent and gateway.
    pub(super) hop: Option<HopConfig>,
}

/// A running gateway and agent.
#[derive(Debug)]
pub(super) struct Pair {
    agent: Service,
    gateway: Service,
    _relay: Option<DatagramRelay>,
    proxy: SocketAddr,
    control: SocketAddr,
    /// Token for the dashboard's buttons, part of its URL; empty if the agent wrote none.
    token: String,
    metrics: SocketAddr,
}

/// Errors of starting the pair.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    /// A program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program did not start.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The gateway's ports or configuration cannot be set up.
    #[error("cannot set up the gateway: {0}")]
    Set(#[source] io::Error),
    /// The output of the gateway is not an invite.
    #[error("longhaul-gateway printed no valid invite; is it of another version than this program?")]
    Invite,
    /// A state file has unexpected contents.
    #[error("{program} did not write {key} to {}; is it of another version than this program?", path.display())]
    State {
        /// Name of the program.
        program: &'static str,
        /// The missing key.
        key: &'static str,
        /// Path of the file.
        path: PathBuf,
    },
}

/// A running gateway and what the agent needs to know of it.
struct StartedGateway {
    service: Service,
    relay: Option<DatagramRelay>,
    invite: String,
    metrics: SocketAddr,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct GatewayConfig {
    fetch: FetchConfig,
    metrics: MetricsConfig,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct FetchConfig {
    extra_ca: Vec<PathBuf>,
    resolve: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct MetricsConfig {
    listen: SocketAddr,
}

impl Pair {
    pub(super) async fn start(programs: &Programs, directory: &Path, plan: &Plan) -> Result<Self, PairError> {
        let mut attempt = 1;
        let gateway = loop {
            match start_gateway(programs, plan, &directory.join(format!("gateway-{attempt}"))).await {
                Ok(started) => break started,
                Err(PairError::Service(ServiceError::Ended { log, .. }))
                    if attempt < ATTEMPTS && log.to_ascii_lowercase().contains("in use") =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        };
        let agent_state = directory.join("agent");
        let mut command = Command::new(&programs.agent);
        command.args([
            "run",
            "--listen",
            "127.0.0.1:0",
            "--control",
            "127.0.0.1:0",
            "--fallback-after",
            "never",
        ]);
        command.arg("--state-dir").arg(&agent_state);
        // In the environment, because other users of the machine can see command-line arguments.
        let (agent, proxy) =
            Service::start("longhaul-agent", command, &[("LONGHAUL_INVITE", &gateway.invite)]).await?;
        let control = state_address("longhaul-agent", &agent_state.join("agent.json"), "control")?;
        let token = fs::read_to_string(agent_state.join("control-token")).unwrap_or_default();
        Ok(Self {
            agent,
            gateway: gateway.service,
            _relay: gateway.relay,
            proxy,
            control,
            token: token.trim().to_owned(),
            metrics: gateway.metrics,
        })
    }

    /// Address of the agent's proxy.
    pub(super) fn proxy(&self) -> SocketAddr {
        self.proxy
    }

    /// Address of the agent's dashboard.
    pub(super) fn control(&self) -> SocketAddr {
        self.control
    }

    /// Token for changes through the control port.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// URL with which the dashboard's buttons work, once; scripts use the URL without token.
    pub(super) fn buttons(&self) -> Option<String> {
        (!self.token.is_empty()).then(|| format!("http://{}/?token={}", self.control, self.token))
    }

    /// Address of the gateway's metrics.
    pub(super) fn metrics(&self) -> SocketAddr {
        self.metrics
    }

    /// Waits until gateway or agent ends.
    pub(super) async fn ended(&mut self) -> ServiceError {
        tokio::select! {
            error = self.agent.watch() => error,
            error = self.gateway.watch() => error,
        }
    }
}

async fn start_gateway(programs: &Programs, plan: &Plan, state: &Path) -> Result<StartedGateway, PairError> {
    // The invite contains the port, and the gateway must know the device before the agent's first datagram.
    let listen = free_udp_port().map_err(PairError::Set)?;
    let relay = match &plan.hop {
        Some(hop) => Some(DatagramRelay::start(hop.clone(), listen).map_err(PairError::Set)?),
        None => None,
    };
    let address = relay.as_ref().map_or(listen, DatagramRelay::address);
    let metrics = free_tcp_port().map_err(PairError::Set)?;
    // Not accessible to others, because the directory will contain keys.
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(state).map_err(PairError::Set)?;
    let config = state.join("gateway.toml");
    fs::write(&config, gateway_config(plan, metrics)?).map_err(PairError::Set)?;
    let command = |verb: &str| {
        let mut command = Command::new(&programs.gateway);
        command
            .arg(verb)
            .arg("--config")
            .arg(&config)
            .arg("--state-dir")
            .arg(state);
        command
    };
    let mut invite = command("invite");
    invite.args(["--name", "demo", "--address", &address.to_string()]);
    let printed = service::output("longhaul-gateway invite", invite).await?;
    let line = printed.lines().find(|line| line.trim().parse::<Invite>().is_ok());
    let line = line.ok_or(PairError::Invite)?.trim().to_owned();
    let mut run = command("run");
    run.args(["--listen", &listen.to_string()]);
    let (service, _) = Service::start("longhaul-gateway", run, &[]).await?;
    Ok(StartedGateway {
        service,
        relay,
        invite: line,
        metrics,
    })
}

fn free_udp_port() -> io::Result<SocketAddr> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn free_tcp_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn gateway_config(plan: &Plan, metrics: SocketAddr) -> Result<String, PairError> {
    let resolve = plan
        .resolve
        .iter()
        .map(|entry| (entry.name.clone(), entry.address.clone()));
    let config = GatewayConfig {
        fetch: FetchConfig {
            extra_ca: plan.ca_files.clone(),
            resolve: resolve.collect(),
        },
        metrics: MetricsConfig { listen: metrics },
    };
    toml::to_string(&config).map_err(|error| PairError::Set(io::Error::other(error)))
}

/// Reads an address from a program's state file.
fn state_address(program: &'static str, path: &Path, key: &'static str) -> Result<SocketAddr, PairError> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let parsed =
        (text.len() <= MAX_STATE_FILE).then(|| serde_json::from_str::<serde_json::Value>(&text).ok());
    let address = parsed
        .flatten()
        .and_then(|state| state.get(key)?.as_str()?.parse().ok());
    address.ok_or_else(|| PairError::State {
        program,
        key,
        path: path.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configuration_is_what_the_gateway_reads() {
        let entry = |name: &str, address: &str| Override {
            name: name.to_owned(),
            address: address.to_owned(),
        };
        let plan = Plan {
            resolve: vec![
                entry("*:80", "127.0.0.1:1"),
                entry("a.test", "10.0.0.1"),
                entry("*:80", "127.0.0.1:2"),
            ],
            ca_files: vec!["/tmp/a \"quoted\".pem".into()],
            hop: None,
        };
        let table: toml::Table = gateway_config(&plan, "127.0.0.1:9".parse().unwrap())
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(
            table["fetch"]["extra-ca"][0].as_str(),
            Some("/tmp/a \"quoted\".pem")
        );
        assert_eq!(
            table["fetch"]["resolve"]["*:80"].as_str(),
            Some("127.0.0.1:2"),
            "the last one wins"
        );
        assert_eq!(table["fetch"]["resolve"]["a.test"].as_str(), Some("10.0.0.1"));
        assert_eq!(table["metrics"]["listen"].as_str(), Some("127.0.0.1:9"));
    }

    #[test]
    fn state_files_of_other_versions_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("agent.json");
        for text in ["", "[]", "{\"control\": 7}", "{\"control\": \"x\"}"] {
            fs::write(&path, text).unwrap();
            assert!(
                matches!(state_address("p", &path, "control"), Err(PairError::State { .. })),
                "{text}"
            );
        }
        fs::write(&path, "{\"control\": \"127.0.0.1:9\"}").unwrap();
        assert_eq!(state_address("p", &path, "control").unwrap().port(), 9);
    }
}

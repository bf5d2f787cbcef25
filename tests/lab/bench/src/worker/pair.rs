//! Longhaul's agent and gateway, started as by users.
mod plan;
mod questions;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    vec,
};

use longhaul_types::Techniques;
use longhaul_world::Namespace;
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use tokio::process::Command;

pub(super) use plan::{AgentAuthority, Carrier, Coding, Https, PairPlan, Push};
use questions::OPEN;
pub(super) use questions::{journal, link_is_remembered, refused_lessons, session_open, status};

use super::{
    nftables::NftablesError,
    programs::{self, ProgramError},
    service::{Service, ServiceError},
};
use crate::{cli::Beside, job::HoldOut};

/// Address of the agent, in the client's namespace.
pub(super) const PROXY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));
const CONTROL: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3129));
/// Address of the gateway, on its side of the hop.
pub(super) const GATEWAY: &str = "10.78.0.1:4433";
/// Address of its carriers `tls` and `quic`, at the port that agents expect.
const CARRIERS: &str = "10.78.0.1:443";
/// Network of the pages' hosts, which are private addresses.
pub(super) const ORIGINS: &str = "10.79.0.0/16";
/// Longest time without the gateway after which an agent that may go direct does: no visit takes as long.
const DIRECT_AFTER: &str = "120s";
/// Address of the gateway's page of metrics, in its own namespace.
const METRICS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9464));
/// Folders of the devices that visit the page one after the other.
const DEVICES: [&str; 3] = ["agent", "second-agent", "third-agent"];
const OTHER_DEVICE: &str = "other-agent";

/// A running pair.
#[derive(Debug)]
pub(super) struct Pair {
    /// The agent, in the client's namespace.
    pub(super) agent: Service,
    /// The gateway, in its own namespace.
    pub(super) gateway: Service,
    plan: PairPlan,
    /// The agent's folder in the plan's temporary folder.
    folder: &'static str,
    /// Its invite.
    invite: String,
    /// Folders and invites of the devices that follow.
    next: vec::IntoIter<Device>,
    /// Invite of another, concurrent device.
    other_invite: Option<String>,
    /// The agent of that device, in the gateway's namespace.
    other: Option<Service>,
}

/// Errors of starting agent and gateway.
#[derive(Debug, thiserror::Error)]
pub(super) enum PairError {
    /// A program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program does not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A folder or file could not be written.
    #[error("cannot set up Longhaul: {0}")]
    Set(#[from] io::Error),
    /// The browser's connections could not be redirected.
    #[error(transparent)]
    Rules(#[from] NftablesError),
    /// There is no invite.
    #[error("longhaul-gateway created no invite: {0}")]
    Invite(String),
    /// The agent's certificate authority cannot be read.
    #[error("the agent's certificate authority cannot be read: {0}")]
    Authority(String),
    /// The agent does not know the network.
    #[error("the agent does not remember its link: {0}")]
    NotRemembered(String),
    /// The session does not open.
    #[error("the agent has no session after {seconds} s; its status: {0}", seconds = OPEN.as_secs())]
    NoSession(String),
}

impl Pair {
    /// Starts the gateway, then the agent.
    ///
    /// # Errors
    /// A program is missing or does not start.
    pub(super) async fn start(
        gateway: &Namespace,
        client: &Namespace,
        plan: PairPlan,
    ) -> Result<Self, PairError> {
        let in_gateway = plan.clone();
        let (gateway, invites) = gateway
            .run(move || async move { start_gateway(&in_gateway).await })
            .await?;
        let mut next = invites.devices.into_iter();
        let (folder, invite) = next.next().ok_or_else(no_invite)?;
        let (in_client, of_agent) = (plan.clone(), invite.clone());
        let agent = client
            .run(move || async move { start_agent(&in_client, folder, &of_agent).await })
            .await?;
        Ok(Self {
            agent,
            gateway,
            plan,
            folder,
            invite,
            next,
            other_invite: invites.other,
            other: None,
        })
    }

    /// Starts the agent of another device, in the gateway's namespace, and waits for its session. It listens
    /// at [`PROXY`] there.
    ///
    /// # Errors
    /// The pair was not configured for it, or it does not start.
    pub(super) async fn start_other(&mut self, gateway: &Namespace) -> Result<(), PairError> {
        let invite = self.other_invite.take().ok_or_else(no_invite)?;
        let plan = PairPlan {
            link: None,
            ..self.plan.clone()
        };
        let other = gateway
            .run(move || async move {
                let agent = start_agent(&plan, OTHER_DEVICE, &invite).await?;
                session_open().await?;
                Ok::<_, PairError>(agent)
            })
            .await?;
        self.other = Some(other);
        Ok(())
    }

    /// Ends the agent.
    ///
    /// # Errors
    /// The agent does not end.
    pub(super) async fn end_agent(&mut self) -> Result<(), PairError> {
        Ok(self.agent.end().await?)
    }

    /// Starts an agent that has ended again with its state folder, but without its cache.
    ///
    /// # Errors
    /// The agent does not start, or its cache cannot be removed.
    pub(super) async fn restart_agent(&mut self, client: &Namespace) -> Result<(), PairError> {
        let cache = self.plan.temporary.join(self.folder).join("cache");
        if cache.exists() {
            std::fs::remove_dir_all(cache)?;
        }
        let (plan, folder, invite) = (self.plan.clone(), self.folder, self.invite.clone());
        self.agent = client
            .run(move || async move { start_agent(&plan, folder, &invite).await })
            .await?;
        Ok(())
    }

    /// Ends the agent and starts that of the next device instead.
    ///
    /// # Errors
    /// The pair was not configured for another device, or its agent does not start.
    pub(super) async fn change_device(&mut self, client: &Namespace) -> Result<(), PairError> {
        self.agent.end().await?;
        (self.folder, self.invite) = self.next.next().ok_or_else(no_invite)?;
        self.restart_agent(client).await
    }

    /// Returns the token of the agent's control port.
    pub(super) fn control_token(&self) -> Option<String> {
        let file = self.plan.temporary.join(self.folder).join("control-token");
        std::fs::read_to_string(file).ok()
    }

    /// Returns the authority with which the running agent signs, if https is accelerated.
    ///
    /// # Errors
    /// The agent created none.
    pub(super) fn authority(&self) -> Result<Option<AgentAuthority>, PairError> {
        if self.plan.https == Https::Tunnelled {
            return Ok(None);
        }
        let folder = self.plan.temporary.join(self.folder);
        let certificate = CertificateDer::from_pem_file(folder.join("ca.pem"))
            .map_err(|error| PairError::Authority(error.to_string()))?;
        let key = std::fs::read_to_string(folder.join("ca.key"))?;
        let pin = longhaul_hosting::key_pin(&key).map_err(|error| PairError::Authority(error.to_string()))?;
        Ok(Some(AgentAuthority { certificate, pin }))
    }
}

/// Folder and invite of a device.
type Device = (&'static str, String);

/// Invites of the devices.
struct Invites {
    /// Those that visit the page one after the other.
    devices: Vec<Device>,
    other: Option<String>,
}

fn no_invite() -> PairError {
    PairError::Invite("there is none for a further device".to_owned())
}

async fn start_gateway(plan: &PairPlan) -> Result<(Service, Invites), PairError> {
    let program = programs::ours(&plan.bin_dir, "longhaul-gateway")?;
    let state = private_folder(&plan.temporary, "gateway")?;
    let command = |verb: &str| {
        let mut command = clean(&program);
        command.arg(verb).arg("--state-dir").arg(&state);
        command
    };
    let mut invites = Invites {
        devices: Vec::new(),
        other: None,
    };
    for device in DEVICES.iter().take(1 + plan.state.earlier_devices()) {
        invites
            .devices
            .push((device, invite(command("invite"), device).await?));
    }
    if plan.beside == Beside::Requests {
        invites.other = Some(invite(command("invite"), "other").await?);
    }
    let mut run = command("run");
    run.args(["--listen", GATEWAY, "--allow", ORIGINS])
        .arg("--extra-ca")
        .arg(&plan.ca)
        .args(["--metrics", &METRICS.to_string()]);
    if plan.coding == Coding::Fixed {
        run.args(["--coding-effort", "fixed"]);
    }
    match plan.carrier {
        Carrier::Udp => {}
        Carrier::Tls => drop(run.args(["--carrier-tls", CARRIERS])),
        Carrier::Quic => drop(run.args(["--carrier-quic", CARRIERS])),
    }
    switch_off(&mut run, plan.without);
    let (gateway, _) =
        Service::start_ready("longhaul-gateway", run, plan.temporary.join("gateway.log")).await?;
    Ok((gateway, invites))
}

/// Returns the invite for a device; `command` is `longhaul-gateway invite` with its state.
async fn invite(mut command: Command, name: &str) -> Result<String, PairError> {
    let printed = command
        .args(["--name", name, "--address", GATEWAY])
        .output()
        .await?;
    if !printed.status.success() {
        let error_output = String::from_utf8_lossy(&printed.stderr).trim().to_owned();
        return Err(PairError::Invite(error_output));
    }
    let printed = String::from_utf8_lossy(&printed.stdout);
    let line = printed
        .lines()
        .find(|line| line.trim().parse::<longhaul_types::Invite>().is_ok());
    line.map(|line| line.trim().to_owned())
        .ok_or_else(|| PairError::Invite("its output contains none".to_owned()))
}

async fn start_agent(plan: &PairPlan, folder: &str, invite: &str) -> Result<Service, PairError> {
    let program = programs::ours(&plan.bin_dir, "longhaul-agent")?;
    let state = match private_folder(&plan.temporary, folder) {
        // The folder of an earlier start of this device.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => plan.temporary.join(folder),
        created => created?,
    };
    let mut run = clean(&program);
    run.arg("run").arg("--listen").arg(PROXY.to_string());
    run.arg("--control").arg(CONTROL.to_string());
    match plan.hold_out {
        HoldOut::Never => drop(run.args(["--fallback-after", "never"])),
        HoldOut::OneIn50 => drop(run.args(["--fallback-after", DIRECT_AFTER, "--direct-allow", ORIGINS])),
    }
    run.arg("--state-dir").arg(state);
    if let Some(link) = &plan.link {
        run.args(["--link", link]);
    }
    run.args(["--image-level", plan.image_level.name()]);
    if plan.https == Https::Accelerated {
        run.args(["--https-accelerate", "all"]);
    }
    if plan.push == Push::Off {
        run.arg("--no-push");
    }
    match plan.carrier {
        Carrier::Udp => {}
        Carrier::Tls => drop(run.args(["--carrier", "tls"])),
        Carrier::Quic => drop(run.args(["--carrier", "quic"])),
    }
    run.env("LONGHAUL_INVITE", invite);
    switch_off(&mut run, plan.without);
    let log = plan.temporary.join(format!("{folder}.log"));
    let (agent, _) = Service::start_ready("longhaul-agent", run, log).await?;
    Ok(agent)
}

/// Passes the hidden setting `without` to a program.
fn switch_off(run: &mut Command, without: Techniques) {
    if !without.is_empty() {
        run.env("LONGHAUL_WITHOUT", without.to_string());
    }
}

/// Returns a command that neither settings in this process' environment nor configuration files of this machine reach.
pub(super) fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    let ours = std::env::vars_os().map(|(name, _)| name);
    for name in ours.filter(|name| name.to_string_lossy().starts_with("LONGHAUL_")) {
        command.env_remove(name);
    }
    command.env("LONGHAUL_CONFIG", "/dev/null");
    command
}

pub(super) fn private_folder(parent: &Path, name: &str) -> io::Result<PathBuf> {
    let path = parent.join(name);
    std::fs::DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

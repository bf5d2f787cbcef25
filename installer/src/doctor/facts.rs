//! The facts that the checks judge.
use std::{net::SocketAddr, path::PathBuf, time::Duration};

use serde_json::Value;

use crate::agent_state::AgentState;

/// Facts about this device, gathered by `gather.rs`; tests write them by hand.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Enrolment and agent.
    pub state: AgentState,
    /// The command line options that name the state directory; empty for the default one.
    pub state_flag: String,
    /// The command that starts the agent.
    pub start_command: String,
    /// The command that restarts the agent.
    pub restart_command: String,
    /// Ports of the agent that other programs hold; looked for only if no agent runs.
    pub taken_ports: Vec<TakenPort>,
    /// The hop.
    pub hop: Hop,
    /// The look for a captive portal; made only if the hop does not work.
    pub portal: Portal,
    /// Result of writing to the state directory.
    pub storage: Storage,
    /// Time by which the clock is behind the newest session of this device.
    pub clock_behind: Option<Duration>,
    /// Trust in the certificate authority; looked for only if https is accelerated.
    pub trust: Vec<BrowserTrust>,
    /// Bypassed hosts.
    pub bypassed: Vec<BypassedHost>,
    /// Version of this program.
    pub version: String,
}

/// A port that another program holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenPort {
    /// `proxy` or `control`.
    pub name: &'static str,
    /// The setting of the agent that changes it.
    pub setting: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// The program, if it can be found.
    pub holder: Option<PortHolder>,
}

/// A program that holds a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortHolder {
    /// The process id.
    pub pid: u32,
    /// Name of the program.
    pub name: String,
}

/// The hop as the running agent reports it, or as `longhaul-agent check-gateway` found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hop {
    /// The gateway answers.
    Works,
    /// Something is wrong.
    Trouble {
        /// The kind, as in `status.json`.
        kind: String,
        /// Description.
        detail: String,
        /// Port of TLS or QUIC, as `tcp port N`, if the gateway was tried over one of them alone.
        port: Option<String>,
        /// The network's login page, if the agent has recognised one.
        login_page: Option<String>,
    },
    /// It was not possible to find out; contains the reason.
    Unknown(String),
}

/// The port of the only carrier that was tried, if it is not that of UDP.
fn port_alone(trouble: &Value) -> Option<String> {
    let (protocol, member) = match trouble["over"].as_str()? {
        "tls" => ("tcp", "tls_port"),
        "quic" => ("udp", "quic_port"),
        _ => return None,
    };
    Some(format!("{protocol} port {}", trouble[member].as_u64()?))
}

impl Hop {
    /// Reads the member `trouble` of `status.json` or of `check-gateway --json`.
    pub(super) fn of_trouble(trouble: &Value) -> Self {
        match (trouble["kind"].as_str(), trouble["detail"].as_str()) {
            (Some(kind), Some(detail)) => Self::Trouble {
                kind: kind.to_owned(),
                detail: detail.to_owned(),
                port: port_alone(trouble),
                login_page: trouble["login_page"].as_str().map(str::to_owned),
            },
            _ => Self::Works,
        }
    }
}

/// Result of the look for a captive portal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Portal {
    /// There was no reason to look, or it was switched off.
    NotLookedFor,
    /// Nothing answered in the name of the host, or the host answered itself.
    NotFound {
        /// The URL that was requested.
        asked: String,
    },
    /// The network answers in the place of the host.
    Found {
        /// The URL that was requested.
        asked: String,
        /// Address of the login page, if the network named it.
        page: Option<String>,
    },
}

/// Result of writing a file to the state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// The directory does not exist yet.
    Absent,
    /// Writing works.
    Writable,
    /// The file system is full.
    Full(PathBuf),
    /// The file system is mounted read-only.
    ReadOnly(PathBuf),
    /// Writing fails otherwise; contains the system's error.
    Unwritable(PathBuf, String),
}

/// Trust of a browser in the certificate authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserTrust {
    /// Name of the browser.
    pub browser: String,
    /// Directory of its database.
    pub database: PathBuf,
    /// True if it trusts the authority; an error if it cannot be found out.
    pub is_trusting: Result<bool, String>,
}

/// A bypassed host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BypassedHost {
    /// Host name.
    pub host: String,
    /// Reason, for people.
    pub why: String,
}

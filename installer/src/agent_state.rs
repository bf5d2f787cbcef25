//! What this device has: its enrolment, its running agent, and the agent's status.
use std::{fs, io, net::SocketAddr, path::Path, time::Duration};

use longhaul_types::{Invite, PublicKey};
use serde_json::Value;

use crate::{
    http_get,
    running_agent::{self, Lock, PublishedAgent, read_small},
};

/// Time in which an agent on this machine answers.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// State of this device.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentState {
    /// The enrolment.
    pub enrolment: Enrolment,
    /// The agent.
    pub agent: AgentProcess,
}

/// Enrolment of this device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enrolment {
    /// There is no invite.
    Absent,
    /// The file of the invite cannot be used; contains the reason.
    Damaged(String),
    /// There is an invite.
    Present {
        /// The gateway, `HOST:PORT`.
        gateway: String,
        /// The gateway's key.
        key: PublicKey,
    },
}

/// The agent of a state directory.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentProcess {
    /// No agent runs.
    Absent,
    /// An agent runs and does not answer, or not yet; contains its process id, if known, and the reason.
    Silent(Option<u32>, String),
    /// The agent answers.
    Running(Box<RunningAgent>),
}

/// A running agent.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningAgent {
    /// The process id.
    pub pid: u32,
    /// Address of the proxy.
    pub proxy: SocketAddr,
    /// Address of the control port.
    pub control: SocketAddr,
    /// The agent's version.
    pub version: String,
    /// The token of the control port, if this user may read it.
    pub token: Option<String>,
    /// The agent's `status.json`.
    pub status: Value,
}

impl AgentState {
    /// Looks into a state directory and asks its agent.
    pub fn of(state_dir: &Path) -> Self {
        Self {
            enrolment: enrolment(state_dir),
            agent: AgentProcess::of(state_dir),
        }
    }

    /// The running agent.
    pub fn running(&self) -> Option<&RunningAgent> {
        match &self.agent {
            AgentProcess::Running(agent) => Some(agent),
            AgentProcess::Absent | AgentProcess::Silent(..) => None,
        }
    }
}

impl RunningAgent {
    /// A number of the status; 0 if it is missing.
    pub fn number(&self, key: &str) -> u64 {
        self.status[key].as_u64().unwrap_or_default()
    }

    /// A text of the status; empty if it is missing.
    pub fn text(&self, key: &str) -> &str {
        self.status[key].as_str().unwrap_or_default()
    }

    /// Kind and detail of what is wrong with the hop.
    pub fn trouble(&self) -> Option<(&str, &str)> {
        let trouble = &self.status["trouble"];
        Some((trouble["kind"].as_str()?, trouble["detail"].as_str()?))
    }

    /// True if the hop works, or may still begin to work.
    pub fn is_hop_working(&self) -> bool {
        self.text("state") == "open" || self.trouble().is_none()
    }

    /// Address of the proxy script.
    pub fn proxy_script(&self) -> String {
        format!("http://{}/proxy.pac", self.control)
    }

    /// Address of the dashboard; its buttons work only with the token.
    pub fn status_page(&self) -> String {
        match &self.token {
            Some(token) => format!("http://{}/?token={token}", self.control),
            None => format!("http://{}/", self.control),
        }
    }
}

fn enrolment(state_dir: &Path) -> Enrolment {
    let path = state_dir.join("invite");
    let line = match read_small(&path) {
        Ok(line) => line,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Enrolment::Absent,
        Err(error) => return Enrolment::Damaged(format!("{} cannot be read: {error}", path.display())),
    };
    match line.parse::<Invite>() {
        Ok(invite) => Enrolment::Present {
            gateway: invite.address().to_owned(),
            key: invite.gateway(),
        },
        Err(error) => Enrolment::Damaged(format!("{}: {error}", path.display())),
    }
}

impl AgentProcess {
    /// Looks for the agent of a state directory, by the rules of `longhaul-agent status`: the lock decides, and
    /// where there is none, the agent's answer.
    pub fn of(state_dir: &Path) -> Self {
        let lock = Lock::of(state_dir);
        let Some(mut agent) = published(state_dir).filter(|_| lock != Lock::Free) else {
            return match lock {
                Lock::Held(pid) => Self::Silent(pid, "it is starting".to_owned()),
                Lock::Free | Lock::Unknown => Self::Absent,
            };
        };
        match status(agent.control, agent.token.as_deref()) {
            Ok(status) => {
                agent.status = status;
                Self::Running(Box::new(agent))
            }
            // Without a lock, the file of an agent that was killed looks like that of a running one.
            Err(_) if lock == Lock::Unknown && !is_agent(agent.pid) => Self::Absent,
            Err(error) => Self::Silent(Some(agent.pid), error.to_string()),
        }
    }
}

/// The process of an agent, for messages.
pub(crate) fn process(pid: Option<u32>) -> String {
    pid.map_or_else(|| "process unknown".to_owned(), |pid| format!("process {pid}"))
}

/// Returns what the agent that runs with a state directory has published, whether or not it answers.
pub fn find(state_dir: &Path) -> Option<PublishedAgent> {
    match AgentProcess::of(state_dir) {
        AgentProcess::Absent => None,
        AgentProcess::Silent(..) | AgentProcess::Running(_) => running_agent::published(state_dir),
    }
}

/// True if the process is an agent. Known on Linux only; elsewhere a silent agent counts as ended.
fn is_agent(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim() == "longhaul-agent"
}

/// The data that an agent published when it started.
fn published(state_dir: &Path) -> Option<RunningAgent> {
    let about = running_agent::published(state_dir)?;
    let token = read_small(&state_dir.join("control-token")).ok();
    let is_token = |token: &String| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(RunningAgent {
        pid: about.pid,
        proxy: about.proxy,
        control: about.control,
        version: about.version,
        token: token.map(|token| token.trim().to_owned()).filter(is_token),
        status: Value::Null,
    })
}

fn status(control: SocketAddr, token: Option<&str>) -> io::Result<Value> {
    let host = control.to_string();
    let response = http_get::get(control, &host, "/status.json", token, ANSWER_TIME)?;
    if response.status != 200 {
        let words = format!("it answers with status {}", response.status);
        return Err(io::Error::other(words));
    }
    let status: Value = serde_json::from_str(&response.body)?;
    if status["state"].is_string() {
        Ok(status)
    } else {
        Err(io::Error::other("another program answers there"))
    }
}

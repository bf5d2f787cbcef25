//! The checks: each judges the facts by itself, and each finding names one command that mends it. Pure.
use std::path::Path;

use longhaul_trust::quoted;

use super::{
    facts::{Facts, Hop, Portal, Storage},
    hop,
};
use crate::agent_state::{self, AgentProcess, Enrolment};

/// A check.
#[derive(Clone, Copy, Debug)]
pub struct Check {
    /// Name for tools. Names are only added, never removed.
    pub id: &'static str,
    /// What a healthy device does.
    pub healthy: &'static str,
    /// Judges the facts.
    pub judge: fn(&Facts) -> Verdict,
}

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong.
    Healthy,
    /// The check says nothing about this device now; contains the reason.
    Skipped(String),
    /// Something is wrong.
    Findings(Vec<Finding>),
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind, for tools: docs/INSTALL.md section 4 lists all.
    pub kind: String,
    /// What is wrong, for people.
    pub what: String,
    /// The command that mends it.
    pub mend: String,
    /// Where the command has to be run.
    pub place: Place,
}

/// Where a command has to be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On this computer.
    Here,
    /// On the gateway, by its operator.
    Gateway,
}

impl Finding {
    /// A finding with a command for this computer.
    pub(super) fn here(kind: &str, what: String, mend: String) -> Self {
        Self {
            kind: kind.to_owned(),
            what,
            mend,
            place: Place::Here,
        }
    }

    /// A finding with a command for the gateway.
    pub(super) fn at_gateway(kind: &str, what: String, mend: String) -> Self {
        Self {
            place: Place::Gateway,
            ..Self::here(kind, what, mend)
        }
    }
}

impl From<Vec<Finding>> for Verdict {
    fn from(findings: Vec<Finding>) -> Self {
        if findings.is_empty() {
            Self::Healthy
        } else {
            Self::Findings(findings)
        }
    }
}

/// All checks, in the order in which their findings should be mended.
pub const CHECKS: &[Check] = &[
    Check {
        id: "storage",
        healthy: "the state directory can be written",
        judge: storage,
    },
    Check {
        id: "enrolment",
        healthy: "this device is enrolled",
        judge: enrolment,
    },
    Check {
        id: "ports",
        healthy: "the agent's ports are free or its own",
        judge: ports,
    },
    Check {
        id: "agent",
        healthy: "the agent runs",
        judge: agent,
    },
    Check {
        id: "portal",
        healthy: "no login page stands before the network",
        judge: portal,
    },
    Check {
        id: "hop",
        healthy: "the gateway answers",
        judge: hop::judge,
    },
    Check {
        id: "clock",
        healthy: "the clock is not behind the last session",
        judge: clock,
    },
    Check {
        id: "versions",
        healthy: "the running agent is the installed one",
        judge: versions,
    },
    Check {
        id: "browsers",
        healthy: "a browser has used the agent",
        judge: browsers,
    },
    Check {
        id: "trust",
        healthy: "the browsers trust this device's certificate authority",
        judge: trust,
    },
    Check {
        id: "bypassed",
        healthy: "no host is bypassed",
        judge: bypassed,
    },
];

fn storage(facts: &Facts) -> Verdict {
    let shown = |path: &Path| quoted(&path.display().to_string());
    match &facts.storage {
        Storage::Absent => Verdict::Skipped("there is no state directory yet".to_owned()),
        Storage::Writable => Verdict::Healthy,
        Storage::Full(path) => vec![Finding::here(
            "disk_full",
            format!(
                "the file system of {} is full, or your quota there is used up: delete what you do not need; the command shows \
                 the room that is left and the largest folders of the agent",
                path.display()
            ),
            format!("df -h {0} && du -xh {0} | sort -h | tail", shown(path)),
        )]
        .into(),
        Storage::ReadOnly(path) => vec![Finding::here(
            "not_writable",
            format!(
                "{} cannot be written: its file system is mounted read-only, often because its disk has an error \
                 (`sudo dmesg` shows it)",
                path.display()
            ),
            format!("sudo mount -o remount,rw \"$(findmnt -no TARGET -T {})\"", shown(path)),
        )]
        .into(),
        Storage::Unwritable(path, error) => vec![Finding::here(
            "not_writable",
            format!(
                "{} cannot be written ({error}): it belongs to another user, or its mode does not let you write",
                path.display()
            ),
            format!("sudo chown -R \"$USER\" {0} && chmod -R u+rwX {0}", shown(path)),
        )]
        .into(),
    }
}

fn enrolment(facts: &Facts) -> Verdict {
    let flag = &facts.state_flag;
    match &facts.state.enrolment {
        Enrolment::Present { .. } => Verdict::Healthy,
        // An agent may have its invite from its settings.
        Enrolment::Absent if facts.state.running().is_some() => Verdict::Healthy,
        Enrolment::Absent => vec![Finding::here(
            "not_enrolled",
            "this device is not enrolled with a gateway: ask the gateway's operator for an invite".to_owned(),
            format!("longhaul up{flag} LINE"),
        )]
        .into(),
        Enrolment::Damaged(why) => vec![Finding::here(
            "not_enrolled",
            format!("this device's invite cannot be used: {why}"),
            format!("longhaul enroll{flag} --replace LINE"),
        )]
        .into(),
    }
}

fn ports(facts: &Facts) -> Verdict {
    if facts.state.running().is_some() {
        return Verdict::Healthy;
    }
    let findings = facts.taken_ports.iter().map(|port| {
        let (holder, mend) = match &port.holder {
            Some(holder) => (
                format!("{} (process {})", holder.name, holder.pid),
                format!("kill {}", holder.pid),
            ),
            None => (
                "a program of another user".to_owned(),
                format!("sudo ss -ltnp 'sport = :{}'", port.address.port()),
            ),
        };
        let what = format!(
            "the agent's {} port {} is taken by {holder}; stop that program, or choose another port with the setting \
             `{}`",
            port.name, port.address, port.setting
        );
        Finding::here("port_taken", what, mend)
    });
    findings.collect::<Vec<_>>().into()
}

fn agent(facts: &Facts) -> Verdict {
    match &facts.state.agent {
        AgentProcess::Running(_) => Verdict::Healthy,
        AgentProcess::Absent if matches!(facts.state.enrolment, Enrolment::Absent) => {
            Verdict::Skipped("this device is not enrolled".to_owned())
        }
        AgentProcess::Absent => vec![Finding::here(
            "agent_not_running",
            "the agent does not run: browsers load pages directly, or not at all".to_owned(),
            facts.start_command.clone(),
        )]
        .into(),
        AgentProcess::Silent(pid, error) => vec![Finding::here(
            "agent_not_running",
            format!(
                "the agent ({}) does not answer ({error}): it hangs, or it has just been started",
                agent_state::process(*pid)
            ),
            facts.restart_command.clone(),
        )]
        .into(),
    }
}

fn portal(facts: &Facts) -> Verdict {
    match &facts.portal {
        Portal::NotLookedFor => {
            Verdict::Skipped("looked for only while the gateway does not answer".to_owned())
        }
        Portal::NotFound { .. } => Verdict::Healthy,
        Portal::Found { asked, page } => {
            let page = page.as_ref().unwrap_or(asked);
            vec![Finding::here(
                "captive_portal",
                format!("this network wants a login first: it answers in the place of {asked}"),
                format!("xdg-open '{}'", page.replace('\'', "%27")),
            )]
            .into()
        }
    }
}

fn clock(facts: &Facts) -> Verdict {
    // The agent compares clocks with the gateway; this is what can be said without it.
    let Some(behind) = facts.clock_behind else {
        return Verdict::Healthy;
    };
    if matches!(&facts.hop, Hop::Trouble { kind, .. } if kind == "clock_off") {
        return Verdict::Skipped("the gateway's time says more: see the hop".to_owned());
    }
    let minutes = behind.as_secs() / 60;
    let what = format!("this computer's clock is {minutes} min before the last session of this device");
    vec![Finding::here("clock_off", what, hop::SET_CLOCK.to_owned())].into()
}

fn versions(facts: &Facts) -> Verdict {
    let Some(agent) = facts.state.running() else {
        return Verdict::Skipped("the agent does not run".to_owned());
    };
    if agent.version == facts.version {
        return Verdict::Healthy;
    }
    let what = format!(
        "the agent that runs has version {}, this program has version {}: the agent was not restarted after an update",
        agent.version, facts.version
    );
    vec![Finding::here(
        "version_mismatch",
        what,
        facts.restart_command.clone(),
    )]
    .into()
}

fn browsers(facts: &Facts) -> Verdict {
    let Some(agent) = facts.state.running() else {
        return Verdict::Skipped("the agent does not run".to_owned());
    };
    if agent.number("requests") > 0 {
        return Verdict::Healthy;
    }
    let what = format!(
        "no browser has come since the agent started: its proxy is {}, its proxy script is {}",
        agent.proxy,
        agent.proxy_script()
    );
    vec![Finding::here(
        "no_browser",
        what,
        format!("longhaul up{}", facts.state_flag),
    )]
    .into()
}

fn trust(facts: &Facts) -> Verdict {
    if facts.trust.is_empty() {
        return Verdict::Skipped("https is not accelerated, or no browser is set up".to_owned());
    }
    let mut findings = Vec::new();
    for place in &facts.trust {
        let (browser, database) = (&place.browser, place.database.display());
        match &place.is_trusting {
            Ok(true) => {}
            Ok(false) => findings.push(Finding::here(
                "ca_missing",
                format!(
                    "{browser} does not trust this device's certificate authority (database {database}), so accelerated \
                     sites show a warning or are bypassed"
                ),
                format!("longhaul up{}", facts.state_flag),
            )),
            Err(error) => findings.push(Finding::here(
                "ca_unknown",
                format!("it is unknown whether {browser} trusts this device's certificate authority: {error}"),
                "sudo apt install libnss3-tools".to_owned(),
            )),
        }
    }
    findings.into()
}

fn bypassed(facts: &Facts) -> Verdict {
    let findings = facts.bypassed.iter().map(|bypassed| {
        Finding::here(
            "host_bypassed",
            format!(
                "{} is not accelerated for a time: {}",
                bypassed.host, bypassed.why
            ),
            format!(
                "longhaul-agent https forget{} {}",
                facts.state_flag, bypassed.host
            ),
        )
    });
    findings.collect::<Vec<_>>().into()
}

//! Gathering of the facts. Nothing on this device is changed.
use std::{
    fs,
    io::{self, BufRead as _, Write as _},
    path::Path,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use longhaul_trust::{
    Accelerate, Browsers, Change, Machine, Survey, SystemCommands, Wishes, plan_linux, quoted,
};
use serde_json::Value;
use url::Url;

use super::{
    facts::{BrowserTrust, BypassedHost, Facts, Hop, Portal, Storage, TakenPort},
    port_holder, portal,
};
use crate::{
    agent_state::{AgentProcess, AgentState, Enrolment, RunningAgent},
    running_agent::read_small,
    switch::{Target, agent},
};

/// Time in which an agent that has just started connects, or knows why it does not: it reports silence after
/// 3 s.
const CONNECT_TIME: Duration = Duration::from_secs(4);
/// Time in which a running gateway notices a device that was just admitted.
const ADMISSION_TIME: Duration = Duration::from_secs(3);
/// Interval between two looks at the agent's status meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Time for `longhaul-agent check-gateway`: a name lookup of 3 s, then 6 s over UDP beside 11.5 s over TLS and QUIC, with a
/// second key of the device once more if the first is refused, and the answer of an HTTP proxy.
const CHECK_TIME: Duration = Duration::from_secs(27);
/// Difference between the clock and the newest session's stamp that is tolerated.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);
/// Size of the file that is written to find out whether the state directory takes data: the agent's files have
/// a few KiB, without the cache.
const TEST_FILE: usize = 64 * 1024;

/// Gathers the facts, usually in less than a second. Without an agent, the check of the gateway takes `CHECK_TIME` at most,
/// and twice that if the gateway does not know the device; the look for a login page takes 3 s more.
pub(super) fn gather(target: &Target, portal_url: Option<&Url>) -> Facts {
    let state = settled_state(&target.state_dir);
    let hop = hop(target, &state);
    let commands = commands(target, &state);
    Facts {
        state_flag: match target.has_own_state_dir {
            true => format!(" --state-dir {}", quoted(&target.state_dir.display().to_string())),
            false => String::new(),
        },
        start_command: commands.0,
        restart_command: commands.1,
        taken_ports: match state.agent {
            // A silent agent holds its ports itself.
            AgentProcess::Running(_) | AgentProcess::Silent(..) => Vec::new(),
            AgentProcess::Absent => taken_ports(target),
        },
        portal: look_for_portal(&hop, &state.enrolment, portal_url),
        storage: storage(&target.state_dir),
        clock_behind: clock_behind(&target.state_dir, now()),
        trust: trust(target, &state),
        bypassed: bypassed(target, &state),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        hop,
        state,
    }
}

/// The state of the device, after an agent that connects had time to do so.
fn settled_state(state_dir: &Path) -> AgentState {
    let deadline = Instant::now() + CONNECT_TIME;
    loop {
        let state = AgentState::of(state_dir);
        if state.running().is_none_or(is_settled) || Instant::now() >= deadline {
            return state;
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// True if the agent is connected, or knows why it is not.
fn is_settled(agent: &RunningAgent) -> bool {
    match agent.trouble() {
        _ if agent.text("state") == "open" => true,
        Some(("not_enrolled", _)) => {
            let since = agent.status["trouble"]["since_s"].as_f64();
            since.is_none_or(|since| since >= ADMISSION_TIME.as_secs_f64())
        }
        Some(_) => true,
        None => false,
    }
}

fn hop(target: &Target, state: &AgentState) -> Hop {
    let unknown = |why: &str| Hop::Unknown(why.to_owned());
    match (&state.agent, &state.enrolment) {
        (AgentProcess::Running(agent), _) => match Hop::of_trouble(&agent.status["trouble"]) {
            Hop::Works if agent.text("state") != "open" => unknown("the agent is still connecting"),
            hop @ (Hop::Works | Hop::Trouble { .. } | Hop::Unknown(_)) => hop,
        },
        (_, Enrolment::Absent | Enrolment::Damaged(_)) => unknown("this device is not enrolled"),
        // A check ends no session that a silent agent may still have.
        (_, Enrolment::Present { .. }) => match check_gateway(&target.state_dir) {
            Hop::Trouble { kind, .. } if kind == "not_enrolled" => {
                thread::sleep(ADMISSION_TIME / 2);
                check_gateway(&target.state_dir)
            }
            hop @ (Hop::Works | Hop::Trouble { .. } | Hop::Unknown(_)) => hop,
        },
    }
}

/// Lets the agent's program ask the gateway.
fn check_gateway(state_dir: &Path) -> Hop {
    let program = match agent::program() {
        Ok(program) => program,
        Err(error) => return Hop::Unknown(error.to_string()),
    };
    let mut command = Command::new(program);
    command
        .args(["check-gateway", "--json", "--state-dir"])
        .arg(state_dir);
    match first_line(&mut command, CHECK_TIME).map(|line| serde_json::from_str::<Value>(&line)) {
        Ok(Ok(checked)) => Hop::of_trouble(&checked["trouble"]),
        Ok(Err(_)) => Hop::Unknown("longhaul-agent check-gateway prints no JSON".to_owned()),
        Err(error) => Hop::Unknown(format!("longhaul-agent check-gateway: {error}")),
    }
}

/// The first line of a command's output; the command is ended after it, or after `limit`.
fn first_line(command: &mut Command, limit: Duration) -> io::Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = child.stdout.take();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut line = String::new();
        let read = output.map(|output| io::BufReader::new(output).read_line(&mut line));
        drop(sender.send(read.unwrap_or(Ok(0)).map(|_| line)));
    });
    let line = receiver.recv_timeout(limit);
    // A name lookup of the system cannot be cancelled and could keep the program alive.
    drop(child.kill());
    drop(child.wait());
    line.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The commands that start and restart the agent.
fn commands(target: &Target, state: &AgentState) -> (String, String) {
    let unit = target
        .places
        .config
        .join("systemd/user")
        .join(plan_linux::SERVICE);
    if unit.exists() {
        let name = plan_linux::SERVICE.trim_end_matches(".service");
        return (
            format!("systemctl --user start {name}"),
            format!("systemctl --user restart {name}"),
        );
    }
    let words = agent::command(target, Path::new("longhaul-agent"), target.config().exists());
    let start = agent::typed(&words);
    let pid = match &state.agent {
        AgentProcess::Running(agent) => Some(agent.pid),
        AgentProcess::Silent(pid, _) => *pid,
        AgentProcess::Absent => None,
    };
    let restart = pid.map_or_else(|| start.clone(), |pid| format!("kill {pid}; {start}"));
    (start, restart)
}

fn taken_ports(target: &Target) -> Vec<TakenPort> {
    let [proxy, control] = agent::addresses(target);
    let ports = [("proxy", "listen", proxy), ("control", "control", control)];
    let taken = ports.into_iter().filter_map(|(name, setting, address)| {
        let address = address.parse().ok()?;
        port_holder::is_taken(address).then(|| TakenPort {
            name,
            setting,
            address,
            holder: port_holder::holder(Path::new("/proc"), address.port()),
        })
    });
    taken.collect()
}

pub(super) fn look_for_portal(hop: &Hop, enrolment: &Enrolment, url: Option<&Url>) -> Portal {
    let Hop::Trouble { kind, login_page, .. } = hop else {
        return Portal::NotLookedFor;
    };
    if kind == "captive_portal" {
        return Portal::Found {
            asked: "other hosts".to_owned(),
            page: login_page.clone(),
        };
    }
    // These troubles are what a network with a login page looks like.
    if !["silent", "port_closed", "name_lookup_failed", "name_not_found"].contains(&kind.as_str()) {
        return Portal::NotLookedFor;
    }
    match (url, enrolment) {
        (Some(url), _) => portal::look(url, portal::Expected::NoContent),
        (None, Enrolment::Present { gateway, .. }) => portal::of_gateway(gateway),
        (None, Enrolment::Absent | Enrolment::Damaged(_)) => Portal::NotLookedFor,
    }
}

/// Writes a file to the state directory and removes it.
pub(super) fn storage(state_dir: &Path) -> Storage {
    if !state_dir.is_dir() {
        return Storage::Absent;
    }
    let written = tempfile::NamedTempFile::new_in(state_dir).and_then(|mut file| {
        file.write_all(&vec![0; TEST_FILE])?;
        file.as_file().sync_all()
    });
    match written {
        Ok(()) => Storage::Writable,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) =>
        {
            Storage::Full(state_dir.to_owned())
        }
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            Storage::ReadOnly(state_dir.to_owned())
        }
        Err(error) => Storage::Unwritable(state_dir.to_owned(), error.to_string()),
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Time by which the clock is before the newest session attempt, whose time the agent stores.
pub(super) fn clock_behind(state_dir: &Path, now: Duration) -> Option<Duration> {
    let stamp: u64 = read_small(&state_dir.join("stamp")).ok()?.trim().parse().ok()?;
    let behind = Duration::from_secs(stamp).saturating_sub(now);
    (behind > CLOCK_TOLERANCE).then_some(behind)
}

/// True if https is accelerated, by the running agent or by its settings.
fn is_accelerated(target: &Target, state: &AgentState) -> bool {
    match state.running() {
        Some(agent) => !matches!(agent.status["https"]["accelerate"].as_str(), None | Some("off")),
        None => !matches!(agent::accelerated(target), None | Some(Accelerate::Off)),
    }
}

/// Asks the databases of this user's browsers whether they trust the certificate authority.
fn trust(target: &Target, state: &AgentState) -> Vec<BrowserTrust> {
    let Some(authority) = agent::authority(target).filter(|_| is_accelerated(target, state)) else {
        return Vec::new();
    };
    let survey = Survey::of(&target.places, false, &SystemCommands);
    let wishes = Wishes {
        script: String::new(),
        proxy: String::new(),
        authority: Some(authority),
        accelerate: None,
        config: target.config(),
        browsers: Browsers::Own,
        system_store: false,
        shells: false,
        service: None,
    };
    let Ok(machine) = Machine::open(&target.state_dir, &SystemCommands) else {
        return Vec::new();
    };
    let steps = plan_linux::steps(&target.places, &survey, &wishes);
    let asked = steps.iter().filter_map(|step| {
        let Change::NssCertificate { directory, .. } = &step.change else {
            return None;
        };
        let browser = step.held_by?.to_string();
        // A browser that never ran has no database. Policies of all users replace the databases.
        let is_used = directory.join("cert9.db").exists() && !has_policy(target, &browser);
        is_used.then(|| BrowserTrust {
            browser,
            database: directory.clone(),
            is_trusting: machine.is_in_effect(step).map_err(|error| error.to_string()),
        })
    });
    asked.collect()
}

/// True if `longhaul up --all-users` gave the browser the authority by a policy.
fn has_policy(target: &Target, browser: &str) -> bool {
    let file = match browser {
        "Firefox" => "/etc/firefox/policies/longhaul.pem",
        _ => "/etc/chromium/policies/managed/longhaul.json",
    };
    target.places.system(file).exists()
}

/// The bypassed hosts: those of the running agent, else those of its file.
fn bypassed(target: &Target, state: &AgentState) -> Vec<BypassedHost> {
    let listed = match state.running() {
        Some(agent) => agent.status["https"]["bypassed"].clone(),
        None => fs::read_to_string(target.state_dir.join("unaccelerated.json"))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default(),
    };
    let now = now().as_secs();
    let entries = listed.as_array().map(Vec::as_slice).unwrap_or_default();
    let hosts = entries
        .iter()
        .filter(|entry| entry["until"].as_u64().is_some_and(|until| until > now));
    let hosts = hosts.filter_map(|entry| {
        Some(BypassedHost {
            host: entry["host"].as_str()?.to_owned(),
            why: entry["why"].as_str()?.replace('-', " "),
        })
    });
    hosts.collect()
}

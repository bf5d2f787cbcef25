//! The agent as `up` needs it: its program, addresses, service and certificate authority.
use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use longhaul_demo::ProgramError;
use longhaul_trust::{Accelerate, Authority, configured_value, quoted};
use serde_json::Value;

use super::{SwitchError, Target};

/// The unit of the user service; `@COMMAND@` stands for the command line.
const UNIT: &str = include_str!("../../assets/longhaul-agent.service");
const DEFAULT_PROXY: &str = "127.0.0.1:3128";
const DEFAULT_CONTROL: &str = "127.0.0.1:3129";
/// A local program answers at once, or does not run.
const CONNECT_TIME: Duration = Duration::from_secs(1);

/// Returns the agent's program: beside this program, else on the search path.
pub(super) fn program() -> Result<PathBuf, ProgramError> {
    longhaul_demo::find_agent().or_else(|error| {
        let path = env::var_os("PATH").unwrap_or_default();
        let name = format!("longhaul-agent{}", env::consts::EXE_SUFFIX);
        let mut found = env::split_paths(&path).map(|folder| folder.join(&name));
        found.find(|program| program.is_file()).ok_or(error)
    })
}

/// The command line of the agent.
pub(super) fn command(target: &Target, program: &Path, has_config: bool) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "run".to_owned()];
    if has_config {
        words.extend(["--config".to_owned(), target.config().display().to_string()]);
    }
    if target.has_own_state_dir {
        words.extend(["--state-dir".to_owned(), target.state_dir.display().to_string()]);
    }
    words
}

/// The command line as one types it.
pub(super) fn typed(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// The unit of the service.
pub(super) fn unit(words: &[String]) -> String {
    let escaped = |word: &String| {
        let word = word
            .replace('\\', r"\\")
            .replace('"', "\\\"")
            .replace('%', "%%")
            .replace('$', "$$");
        format!("\"{word}\"")
    };
    let words: Vec<String> = words.iter().map(escaped).collect();
    UNIT.replace("@COMMAND@", &words.join(" "))
}

/// Addresses of proxy and control port: of the running agent, else as configured.
pub(super) fn addresses(target: &Target) -> [String; 2] {
    if let Some(agent) = published(target) {
        return [agent.proxy, agent.control].map(|address| address.to_string());
    }
    let text = fs::read_to_string(target.config()).unwrap_or_default();
    let setting =
        |section, key| configured_value(&text, section, key).map(|value| value.trim_matches('"').to_owned());
    let proxy = setting("", "listen").or_else(|| setting("listen", "address"));
    [
        proxy.unwrap_or_else(|| DEFAULT_PROXY.to_owned()),
        setting("", "control").unwrap_or_else(|| DEFAULT_CONTROL.to_owned()),
    ]
}

/// The value of `https.accelerate` in the configuration file.
pub(super) fn accelerated(target: &Target) -> Option<Accelerate> {
    let text = fs::read_to_string(target.config()).ok()?;
    let value = configured_value(&text, "https", "accelerate")?;
    let names = value
        .trim_matches(['[', ']', ' '])
        .split(',')
        .map(|name| name.trim().trim_matches('"'));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(match names.as_slice() {
        [one] if one == "off" => Accelerate::Off,
        [one] if one == "all" => Accelerate::All,
        _ => Accelerate::Hosts(names),
    })
}

/// The certificate authority, if the agent has made it.
pub(super) fn authority(target: &Target) -> Option<Authority> {
    let file = target.state_dir.join("ca.pem");
    let certificate = fs::read_to_string(&file).ok()?;
    Some(Authority { certificate, file })
}

/// Lets the agent make its certificate authority.
pub(super) fn make_authority(target: &Target, program: &Path) -> Result<Authority, SwitchError> {
    let mut command = Command::new(program);
    command
        .args(["ca", "export", "--state-dir"])
        .arg(&target.state_dir);
    let fail = |reason: String| SwitchError::Authority {
        command: format!("{} ca export", program.display()),
        reason,
    };
    let output = command.output().map_err(|error| fail(error.to_string()))?;
    let certificate = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() || !certificate.contains("BEGIN CERTIFICATE") {
        return Err(fail(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    let file = target.state_dir.join("ca.pem");
    Ok(Authority { certificate, file })
}

/// The data that a running agent publishes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedAgent {
    pub(super) proxy: SocketAddr,
    pub(super) control: SocketAddr,
    pub(super) pid: u32,
}

/// The running agent of this state directory.
pub(super) fn published(target: &Target) -> Option<PublishedAgent> {
    let text = fs::read_to_string(target.state_dir.join("agent.json")).ok()?;
    let agent: Value = serde_json::from_str(&text).ok()?;
    let address = |name: &str| agent[name].as_str()?.parse::<SocketAddr>().ok();
    let published = PublishedAgent {
        proxy: address("proxy")?,
        control: address("control")?,
        pid: u32::try_from(agent["pid"].as_u64()?).ok()?,
    };
    // The file of an agent that was killed stays.
    let answers = TcpStream::connect_timeout(&published.control, CONNECT_TIME).is_ok();
    answers.then_some(published)
}

//! The agent as `up` needs it: its program, addresses, service and certificate authority.
use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use longhaul_trust::{Accelerate, Authority, configured_value, quoted};

use super::{SwitchError, Target};
pub(crate) use crate::running_agent::program;
use crate::{agent_state, running_agent::PublishedAgent};

/// The unit of the user service; `@COMMAND@` stands for the command line.
const UNIT: &str = include_str!("../../assets/longhaul-agent.service");
const DEFAULT_PROXY: &str = "127.0.0.1:3128";
const DEFAULT_CONTROL: &str = "127.0.0.1:3129";

/// The command line of the agent.
pub(crate) fn command(target: &Target, program: &Path, has_config: bool) -> Vec<String> {
    let mut words = vec![program.display().to_string(), "run".to_owned()];
    // A service does not get XDG_CONFIG_HOME of the user's shell, and finds only the default file.
    let home = env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let is_default = target.config() == home.join(".config/longhaul/agent.toml");
    if has_config && !is_default {
        words.extend(["--config".to_owned(), target.config().display().to_string()]);
    }
    if target.has_own_state_dir {
        words.extend(["--state-dir".to_owned(), target.state_dir.display().to_string()]);
    }
    words
}

/// The command line as one types it.
pub(crate) fn typed(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// The unit of the service.
pub(super) fn unit(words: &[String]) -> String {
    let is_plain = |word: &str| {
        word.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || "/._-".contains(letter))
    };
    let escaped = |word: &String| {
        if is_plain(word) {
            return word.clone();
        }
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
pub(crate) fn addresses(target: &Target) -> [String; 2] {
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
pub(crate) fn accelerated(target: &Target) -> Option<Accelerate> {
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
pub(crate) fn authority(target: &Target) -> Option<Authority> {
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

/// The running agent of this state directory.
pub(super) fn published(target: &Target) -> Option<PublishedAgent> {
    agent_state::find(&target.state_dir)
}

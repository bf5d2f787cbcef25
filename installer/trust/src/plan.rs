//! Wishes of the user, and the parts of plans that all systems share. Pure.
use std::path::{Path, PathBuf};

use crate::step::{Browser, Change, CommandLine, KeyForm, Step};

/// The wishes of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Address of the agent's proxy script.
    pub script: String,
    /// Address of the agent's proxy, as `127.0.0.1:3128`.
    pub proxy: String,
    /// The certificate authority of the device, if https is accelerated.
    pub authority: Option<Authority>,
    /// The agent's setting `https.accelerate`, if it must change.
    pub accelerate: Option<Accelerate>,
    /// The agent's configuration file.
    pub config: PathBuf,
    /// Whose browsers are set up.
    pub browsers: Browsers,
    /// The system's trust store, which curl, git and package managers use, gets the authority as well.
    pub system_store: bool,
    /// Programs in shells get the proxy from the environment.
    pub shells: bool,
    /// The service's definition, if the system runs services of users.
    pub service: Option<String>,
}

/// The certificate authority of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Its certificate in PEM.
    pub certificate: String,
    /// File of the certificate.
    pub file: PathBuf,
}

/// Name of the authority in trust stores.
pub const NICKNAME: &str = "Longhaul on this device";

/// Sites whose https is accelerated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accelerate {
    /// None.
    Off,
    /// All except the built-in exclusions.
    All,
    /// These hosts and their subdomains.
    Hosts(Vec<String>),
}

impl Accelerate {
    /// The value in the agent's configuration file.
    pub fn to_toml(&self) -> String {
        match self {
            Self::Off => "\"off\"".to_owned(),
            Self::All => "\"all\"".to_owned(),
            Self::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
                format!("[{}]", hosts.join(", "))
            }
        }
    }
}

/// Whose browsers are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browsers {
    /// Nobody's.
    Nobody,
    /// Those of the user.
    Own,
    /// Those of all users of the machine, by policies.
    AllUsers,
}

/// The setting of the agent.
pub(crate) fn agent_setting(wishes: &Wishes, refresh: Option<CommandLine>) -> Option<Step> {
    let value = wishes.accelerate.as_ref()?.to_toml();
    Some(Step {
        what: format!("The agent's setting https.accelerate is {value}"),
        place: wishes.config.display().to_string(),
        undo: "remove the line `accelerate` of the section [https], or give it its earlier value".to_owned(),
        proof: format!("longhaul-agent check-config --config {}", wishes.config.display()),
        held_by: None,
        change: Change::Keys {
            path: wishes.config.clone(),
            section: "https".to_owned(),
            form: KeyForm::Toml,
            keys: vec![("accelerate".to_owned(), value)],
            refresh,
        },
    })
}

/// The proxy script in a profile of Firefox.
pub(crate) fn firefox_proxy(profile: &Path, wishes: &Wishes, more: &[(&str, &str)]) -> Step {
    let mut preferences = vec![
        ("network.proxy.type".to_owned(), "2".to_owned()),
        (
            "network.proxy.autoconfig_url".to_owned(),
            format!("\"{}\"", wishes.script),
        ),
    ];
    preferences.extend(
        more.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    );
    Step {
        what: "Firefox uses the agent's proxy script".to_owned(),
        place: profile.join("user.js").display().to_string(),
        undo: "remove the lines between the marks `longhaul up` from user.js; in Firefox: Settings, Network Settings"
            .to_owned(),
        proof: format!("grep network.proxy {}", profile.join("user.js").display()),
        held_by: Some(Browser::Firefox),
        change: Change::FirefoxPreferences {
            profile: profile.to_owned(),
            preferences,
        },
    }
}

/// A file that belongs to Longhaul.
pub(crate) fn own_file(what: &str, path: PathBuf, content: String, refresh: Option<CommandLine>) -> Step {
    let place = path.display().to_string();
    let then = refresh
        .as_ref()
        .map_or_else(String::new, |refresh| format!(" && {refresh}"));
    Step {
        what: what.to_owned(),
        undo: format!("rm {place}{then}"),
        proof: format!("cat {place}"),
        place,
        held_by: None,
        change: Change::File {
            path,
            content,
            refresh,
        },
    }
}

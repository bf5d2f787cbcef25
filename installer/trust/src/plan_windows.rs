//! The steps on Windows. Pure; no program of this repository runs them yet.
use std::path::PathBuf;

use crate::{
    plan::{Authority, Browsers, Wishes, agent_setting, firefox_proxy},
    step::{Change, CommandLine, Step},
};

/// The user's Internet settings, which Chromium and Edge use.
const INTERNET: &str = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Internet Settings";
/// Programs that start after a login.
const RUN: &str = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Run";
/// Name of the machine-wide service.
const SERVICE: &str = "LonghaulAgent";

/// The facts on which the plan depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowsSurvey {
    /// Value of `AutoConfigURL`, if it is set.
    pub script: Option<String>,
    /// Profiles of Firefox.
    pub firefox_profiles: Vec<PathBuf>,
    /// Serial number of the authority's certificate, by which `certutil` removes it.
    pub serial: String,
}

/// Returns the steps in the order of their application; `Wishes::service` is the command that starts the
/// agent. Services of the machine need an administrator, so only `Browsers::AllUsers` makes one.
pub fn steps(survey: &WindowsSurvey, wishes: &Wishes) -> Vec<Step> {
    let mut steps: Vec<Step> = agent_setting(wishes, None).into_iter().collect();
    if let Some(start) = &wishes.service {
        steps.extend(match wishes.browsers {
            Browsers::AllUsers => service(start),
            Browsers::Own | Browsers::Nobody => vec![autostart(start)],
        });
    }
    if wishes.browsers == Browsers::Nobody {
        return steps;
    }
    steps.extend(
        wishes
            .authority
            .as_ref()
            .map(|authority| trust(survey, authority)),
    );
    // Firefox trusts the authorities of Windows if this preference is set.
    let more: &[(&str, &str)] = match wishes.authority {
        Some(_) => &[("security.enterprise_roots.enabled", "true")],
        None => &[],
    };
    steps.extend(
        survey
            .firefox_profiles
            .iter()
            .map(|profile| firefox_proxy(profile, wishes, more)),
    );
    steps.push(value(
        "Browsers use the agent's proxy script",
        INTERNET,
        "AutoConfigURL",
        &wishes.script,
        survey.script.as_deref(),
    ));
    steps
}

fn trust(survey: &WindowsSurvey, authority: &Authority) -> Step {
    let file = authority.file.display().to_string();
    Step::by_command(
        "Browsers trust this device's certificate authority",
        "certificate store Root of this user",
        [
            CommandLine::new("certutil", ["-user", "-addstore", "Root", &file]),
            CommandLine::new("certutil", ["-user", "-delstore", "Root", &survey.serial]),
            CommandLine::new("certutil", ["-user", "-verifystore", "Root", &survey.serial]),
        ],
    )
}

fn autostart(start: &str) -> Step {
    value("The agent starts after each login", RUN, SERVICE, start, None)
}

fn service(start: &str) -> Vec<Step> {
    vec![
        Step::by_command(
            "The agent is a service of this machine",
            SERVICE,
            [
                CommandLine::new("sc", ["create", SERVICE, "binPath=", start, "start=", "auto"]),
                CommandLine::new("sc", ["delete", SERVICE]),
                CommandLine::new("sc", ["qc", SERVICE]),
            ],
        ),
        Step::by_command(
            "The agent runs",
            SERVICE,
            [
                CommandLine::new("sc", ["start", SERVICE]),
                CommandLine::new("sc", ["stop", SERVICE]),
                CommandLine::new("sc", ["query", SERVICE]),
            ],
        ),
    ]
}

/// A value of the registry.
fn value(what: &str, key: &str, name: &str, data: &str, earlier: Option<&str>) -> Step {
    let add =
        |data: &str| CommandLine::new("reg", ["add", key, "/v", name, "/t", "REG_SZ", "/d", data, "/f"]);
    let undo = match earlier {
        Some(earlier) => add(earlier),
        None => CommandLine::new("reg", ["delete", key, "/v", name, "/f"]),
    };
    let proof = CommandLine::new("reg", ["query", key, "/v", name]);
    let mut step = Step::by_command(what, &format!(r"{key}\{name}"), [add(data), undo, proof]);
    // The command succeeds with any value, so it is for people only.
    if let Change::Command { proof, .. } = &mut step.change {
        *proof = None;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_windows() {
        let survey = WindowsSurvey {
            script: Some("http://proxy.test/x.pac".to_owned()),
            firefox_profiles: vec![r"C:\profile".into()],
            serial: "01ab".to_owned(),
        };
        let wishes = Wishes {
            script: "http://127.0.0.1:3129/proxy.pac".to_owned(),
            proxy: "127.0.0.1:3128".to_owned(),
            authority: Some(Authority {
                certificate: String::new(),
                file: r"C:\ca.pem".into(),
            }),
            accelerate: None,
            config: r"C:\agent.toml".into(),
            browsers: Browsers::Own,
            system_store: false,
            shells: false,
            service: Some(r"C:\longhaul-agent.exe run".to_owned()),
        };
        let undone = |wishes: &Wishes| {
            steps(&survey, wishes)
                .into_iter()
                .map(|step| step.undo)
                .collect::<Vec<_>>()
        };
        let own = undone(&wishes);
        assert!(
            own[0].starts_with("reg delete ") && own[0].contains("LonghaulAgent"),
            "{own:?}"
        );
        assert_eq!(own[1], "certutil -user -delstore Root 01ab");
        assert!(
            own[3].contains("http://proxy.test/x.pac"),
            "the earlier script comes back: {own:?}"
        );
        let all = undone(&Wishes {
            browsers: Browsers::AllUsers,
            ..wishes.clone()
        });
        assert_eq!(
            &all[..2],
            ["sc delete LonghaulAgent", "sc stop LonghaulAgent"],
            "stop is undone first"
        );
        let none = Wishes {
            browsers: Browsers::Nobody,
            service: None,
            ..wishes
        };
        assert!(undone(&none).is_empty());
    }
}

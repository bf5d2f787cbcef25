//! The steps on macOS. Pure; no program of this repository runs them yet.
use std::path::{Path, PathBuf};

use crate::{
    plan::{Authority, Browsers, Wishes, agent_setting, firefox_proxy, own_file},
    step::{Change, CommandLine, Step},
};

/// Label of the agent's launchd job.
const LABEL: &str = "org.longhaul.agent";

/// The facts on which the plan depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MacSurvey {
    /// The user's home.
    pub home: PathBuf,
    /// Number of the user.
    pub user: u32,
    /// Network services with the address of their proxy script, if one is set (`networksetup
    /// -getautoproxyurl`).
    pub services: Vec<(String, Option<String>)>,
    /// Profiles of Firefox.
    pub firefox_profiles: Vec<PathBuf>,
}

/// Returns the steps in the order of their application; `Wishes::service` is the text of the launchd job.
pub fn steps(survey: &MacSurvey, wishes: &Wishes) -> Vec<Step> {
    let mut steps: Vec<Step> = agent_setting(wishes, None).into_iter().collect();
    if let Some(job) = &wishes.service {
        steps.extend(service(survey, job));
    }
    if wishes.browsers == Browsers::Nobody {
        return steps;
    }
    steps.extend(
        wishes
            .authority
            .as_ref()
            .map(|authority| trust(&survey.home, authority)),
    );
    // Firefox trusts the keychain's authorities if this preference is set.
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
    steps.extend(
        survey
            .services
            .iter()
            .map(|(service, earlier)| proxy(service, earlier.as_deref(), wishes)),
    );
    steps
}

/// Text of the launchd job that runs a command.
pub fn launchd_job(command: &[&str]) -> String {
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;");
    let arguments: String = command
        .iter()
        .map(|word| format!("    <string>{}</string>\n", escaped(word)))
        .collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  \
         <string>{LABEL}</string>\n  <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    \
         <false/>\n  </dict>\n</dict>\n</plist>\n"
    )
}

fn service(survey: &MacSurvey, job: &str) -> [Step; 2] {
    let path = survey
        .home
        .join("Library/LaunchAgents")
        .join(format!("{LABEL}.plist"));
    let file = path.display().to_string();
    let domain = format!("gui/{}", survey.user);
    let target = format!("{domain}/{LABEL}");
    let apply = CommandLine::new("launchctl", ["bootstrap", &domain, &file]);
    let undo = CommandLine::new("launchctl", ["bootout", &target]);
    let proof = CommandLine::new("launchctl", ["print", &target]);
    [
        own_file("The agent is a job of this user", path, job.to_owned(), None),
        Step::by_command(
            "The agent runs now and after each login",
            &target,
            [apply, undo, proof],
        ),
    ]
}

fn trust(home: &Path, authority: &Authority) -> Step {
    let keychain = home
        .join("Library/Keychains/login.keychain-db")
        .display()
        .to_string();
    let file = authority.file.display().to_string();
    let apply = CommandLine::new(
        "security",
        [
            "add-trusted-cert",
            "-r",
            "trustRoot",
            "-p",
            "ssl",
            "-k",
            &keychain,
            &file,
        ],
    );
    let undo = CommandLine::new("security", ["remove-trusted-cert", &file]);
    let proof = CommandLine::new("security", ["verify-cert", "-p", "ssl", "-c", &file]);
    Step::by_command(
        "Browsers trust this device's certificate authority",
        &keychain,
        [apply, undo, proof],
    )
}

fn proxy(service: &str, earlier: Option<&str>, wishes: &Wishes) -> Step {
    let apply = CommandLine::new("networksetup", ["-setautoproxyurl", service, &wishes.script]);
    let undo = match earlier {
        Some(script) => CommandLine::new("networksetup", ["-setautoproxyurl", service, script]),
        None => CommandLine::new("networksetup", ["-setautoproxystate", service, "off"]),
    };
    let proof = CommandLine::new("networksetup", ["-getautoproxyurl", service]);
    let mut step = Step::by_command(
        "Browsers use the agent's proxy script",
        service,
        [apply, undo, proof],
    );
    // The command prints the address and succeeds in any case, so it is for people only.
    if let Change::Command { proof, .. } = &mut step.change {
        *proof = None;
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_a_mac() {
        let survey = MacSurvey {
            home: "/Users/ann".into(),
            user: 501,
            services: vec![
                ("Wi-Fi".to_owned(), None),
                ("USB LAN".to_owned(), Some("http://proxy.test/x.pac".to_owned())),
            ],
            firefox_profiles: vec!["/Users/ann/Library/Application Support/Firefox/Profiles/x".into()],
        };
        let wishes = Wishes {
            script: "http://127.0.0.1:3129/proxy.pac".to_owned(),
            proxy: "127.0.0.1:3128".to_owned(),
            authority: Some(Authority {
                certificate: String::new(),
                file: "/Users/ann/ca.pem".into(),
            }),
            accelerate: None,
            config: "/Users/ann/agent.toml".into(),
            browsers: Browsers::Own,
            system_store: false,
            shells: false,
            service: Some(launchd_job(&["/opt/a & b/longhaul-agent", "run"])),
        };
        let planned = steps(&survey, &wishes);
        let undone: Vec<&str> = planned.iter().map(|step| step.undo.as_str()).collect();
        assert_eq!(
            undone[0],
            "rm /Users/ann/Library/LaunchAgents/org.longhaul.agent.plist"
        );
        assert_eq!(undone[1], "launchctl bootout gui/501/org.longhaul.agent");
        assert_eq!(undone[2], "security remove-trusted-cert /Users/ann/ca.pem");
        assert_eq!(undone[4], "networksetup -setautoproxystate Wi-Fi off");
        assert_eq!(
            undone[5],
            "networksetup -setautoproxyurl 'USB LAN' http://proxy.test/x.pac"
        );
        let Change::FirefoxPreferences { preferences, .. } = &planned[3].change else {
            panic!()
        };
        assert!(
            preferences
                .iter()
                .any(|(name, _)| name == "security.enterprise_roots.enabled")
        );
        let Change::File { content, .. } = &planned[0].change else {
            panic!()
        };
        assert!(
            content.contains("<string>/opt/a &amp; b/longhaul-agent</string>"),
            "{content}"
        );
        let plain = Wishes {
            browsers: Browsers::Nobody,
            service: None,
            ..wishes
        };
        assert!(steps(&survey, &plain).is_empty());
    }
}

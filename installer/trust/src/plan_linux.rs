//! The steps on Linux. Pure.
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    nss,
    plan::{Authority, Browsers, NICKNAME, Wishes, agent_setting, firefox_proxy, own_file},
    step::{Browser, Change, CommandLine, FirefoxPolicies, KeyForm, PolicyAuthority, Step},
    survey::{Places, Survey},
};

/// Name of the agent's user service.
pub const SERVICE: &str = "longhaul-agent.service";

/// Returns the steps in the order of their application: the agent first, then trust, then proxies, so that no
/// browser uses a proxy that does not run or a certificate that it does not know.
pub fn steps(places: &Places, survey: &Survey, wishes: &Wishes) -> Vec<Step> {
    let restart = CommandLine::new("systemctl", ["--user", "try-restart", SERVICE]);
    let mut steps: Vec<Step> = agent_setting(wishes, wishes.service.as_ref().map(|_| restart))
        .into_iter()
        .collect();
    if let Some(unit) = &wishes.service {
        steps.extend(service(places, survey, unit));
    }
    if let Some(authority) = &wishes.authority {
        if wishes.system_store {
            steps.push(system_store(places, authority));
        }
        if wishes.browsers == Browsers::Own {
            steps.extend(trust(survey, authority));
        }
    }
    match wishes.browsers {
        Browsers::Nobody => {}
        Browsers::Own => {
            let firefox = survey
                .firefox_profiles
                .iter()
                .map(|profile| firefox_proxy(profile, wishes, &[]));
            steps.extend(firefox);
            steps.extend(desktop(places, survey, wishes));
        }
        Browsers::AllUsers => {
            steps.extend(
                survey
                    .chromium_policies
                    .iter()
                    .map(|folder| chromium_policy(folder, wishes)),
            );
            steps.extend(firefox_policies(places, survey, wishes));
        }
    }
    if wishes.shells {
        steps.push(shells(places, wishes));
    }
    steps
}

/// The service of the agent. If a package has installed the same unit for all users, only its start is a change
/// of this user.
fn service(places: &Places, survey: &Survey, unit: &str) -> Vec<Step> {
    let folder = places.config.join("systemd/user");
    let reload = CommandLine::new("systemctl", ["--user", "daemon-reload"]);
    let undo = CommandLine::new("systemctl", ["--user", "disable", "--now", SERVICE]);
    let proof = CommandLine::new("systemctl", ["--user", "is-active", "--quiet", SERVICE]);
    let is_packaged = survey.packaged_unit.as_deref() == Some(unit);
    let own_unit = own_file(
        "The agent is a service of this user",
        folder.join(SERVICE),
        unit.to_owned(),
        Some(reload),
    );
    let wants = folder.join("default.target.wants");
    let start = Step {
        what: "The agent runs now and after each login".to_owned(),
        place: format!("systemd user service {SERVICE}"),
        undo: undo.to_string(),
        proof: proof.to_string(),
        held_by: None,
        change: Change::Command {
            apply: CommandLine::new("systemctl", ["--user", "enable", "--now", SERVICE]),
            undo,
            proof: Some(proof),
            // The link of an enabled service leads to its unit: with the other unit, it is enabled again.
            subject: if is_packaged {
                format!("packaged\n{unit}")
            } else {
                unit.to_owned()
            },
            directories: if is_packaged {
                vec![places.config.join("systemd"), folder, wants]
            } else {
                vec![wants]
            },
        },
    };
    let own_unit = (!is_packaged).then_some(own_unit);
    own_unit.into_iter().chain([start]).collect()
}

fn system_store(places: &Places, authority: &Authority) -> Step {
    let path = places.system("/usr/local/share/ca-certificates/longhaul.crt");
    let refresh = places
        .is_this_machine()
        .then(|| CommandLine::new("update-ca-certificates", ["--fresh"]));
    own_file(
        "All programs of this machine trust this device's certificate authority",
        path,
        authority.certificate.clone(),
        refresh,
    )
}

/// The authority in the databases of the user's browsers.
fn trust(survey: &Survey, authority: &Authority) -> Vec<Step> {
    let chromium = survey
        .chromium_databases
        .iter()
        .map(|database| (Browser::Chromium, database));
    let firefox = survey
        .firefox_profiles
        .iter()
        .map(|profile| (Browser::Firefox, profile));
    let steps = chromium.chain(firefox).map(|(browser, directory)| Step {
        what: format!("{browser} trusts this device's certificate authority"),
        place: directory.display().to_string(),
        undo: nss::remove_command(directory, NICKNAME).to_string(),
        proof: nss::show_command(directory, NICKNAME).to_string(),
        held_by: Some(browser),
        change: Change::NssCertificate {
            directory: directory.clone(),
            nickname: NICKNAME.to_owned(),
            certificate: authority.certificate.clone(),
        },
    });
    steps.collect()
}

/// The proxy settings of the desktop, which Chromium uses.
fn desktop(places: &Places, survey: &Survey, wishes: &Wishes) -> Vec<Step> {
    let mut steps = Vec::new();
    if survey.has_gnome {
        // The address first: `auto` without an address asks the network for a script.
        for (key, value) in [("autoconfig-url", wishes.script.as_str()), ("mode", "auto")] {
            steps.push(gnome(key, value));
        }
    }
    if survey.has_kde {
        let path = places.config.join("kioslaverc");
        steps.push(Step {
            what: "KDE and Chromium use the agent's proxy script".to_owned(),
            place: path.display().to_string(),
            undo: "System Settings, Proxy; or remove `ProxyType` and `Proxy Config Script` of the section [Proxy Settings]"
                .to_owned(),
            proof: format!("grep Proxy {}", path.display()),
            held_by: None,
            change: Change::Keys {
                path,
                section: "Proxy Settings".to_owned(),
                form: KeyForm::Ini,
                keys: vec![
                    ("Proxy Config Script".to_owned(), wishes.script.clone()),
                    ("ProxyType".to_owned(), "2".to_owned()),
                ],
                refresh: None,
            },
        });
    }
    steps
}

fn gnome(key: &str, value: &str) -> Step {
    let schema = "org.gnome.system.proxy";
    Step {
        what: "GNOME and Chromium use the agent's proxy script".to_owned(),
        place: format!("{schema} {key}"),
        undo: format!("gsettings reset {schema} {key}"),
        proof: format!("gsettings get {schema} {key}"),
        held_by: None,
        change: Change::GnomeSetting {
            schema: schema.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
        },
    }
}

fn chromium_policy(folder: &Path, wishes: &Wishes) -> Step {
    let mut policy = json!({ "ProxySettings": { "ProxyMode": "pac_script", "ProxyPacUrl": wishes.script } });
    if let Some(authority) = &wishes.authority {
        policy["CACertificates"] = json!([base64_of(&authority.certificate)]);
    }
    own_file(
        "Chromium of all users uses the agent's proxy script and trusts its certificate authority",
        folder.join("longhaul.json"),
        format!("{policy:#}\n"),
        None,
    )
}

/// The base64 text inside of a PEM certificate, which is the certificate's DER form.
fn base64_of(pem: &str) -> String {
    pem.lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("-----"))
        .collect()
}

fn firefox_policies(places: &Places, survey: &Survey, wishes: &Wishes) -> Vec<Step> {
    let file = "/etc/firefox/policies/longhaul.pem";
    let authority = wishes.authority.as_ref();
    let certificate = authority.map(|authority| {
        own_file(
            "The certificate authority is where Firefox of all users finds it",
            places.system(file),
            authority.certificate.clone(),
            None,
        )
    });
    let path = places.system("/etc/firefox/policies/policies.json");
    let policy = Step {
        what: "Firefox of all users uses the agent's proxy script and trusts its certificate authority"
            .to_owned(),
        place: path.display().to_string(),
        undo: format!(
            "remove `Proxy` and the name {file} from it, and the certificate `{NICKNAME}` from each profile: \
             Settings, Certificates"
        ),
        proof: "about:policies in Firefox".to_owned(),
        held_by: Some(Browser::Firefox),
        change: Change::FirefoxPolicies {
            path,
            policies: FirefoxPolicies {
                script: wishes.script.clone(),
                authority: authority.map(|authority| PolicyAuthority {
                    file: file.to_owned(),
                    certificate: authority.certificate.clone(),
                }),
            },
            homes: survey.homes.clone(),
        },
    };
    certificate.into_iter().chain([policy]).collect()
}

/// What programs in shells reach without the agent. Some programs know no ranges, and some no suffixes; for these the agent
/// has a direct way.
const NO_PROXY: &str = "localhost,127.0.0.1,::1,127.0.0.0/8,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,169.254.0.0/16,\
                        fc00::/7,fe80::/10,.local,.localhost,.home.arpa,.internal,.lan,.home";

fn shells(places: &Places, wishes: &Wishes) -> Step {
    let proxy = &wishes.proxy;
    let content = format!(
        "# Written by `longhaul up --shells`, removed by `longhaul down`.\nhttp_proxy=http://{proxy}\n\
         https_proxy=http://{proxy}\nno_proxy={NO_PROXY}\n"
    );
    let path: PathBuf = places.config.join("environment.d/50-longhaul.conf");
    own_file(
        "Programs in shells use the agent, after the next login",
        path,
        content,
        None,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Accelerate;

    pub(crate) fn wishes() -> Wishes {
        Wishes {
            script: "http://127.0.0.1:3129/proxy.pac".to_owned(),
            proxy: "127.0.0.1:3128".to_owned(),
            authority: Some(Authority {
                certificate: "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n"
                    .to_owned(),
                file: "/home/ann/.local/state/longhaul-agent/ca.pem".into(),
            }),
            accelerate: Some(Accelerate::Hosts(vec!["a.test".to_owned()])),
            config: "/home/ann/.config/longhaul/agent.toml".into(),
            browsers: Browsers::Own,
            system_store: false,
            shells: false,
            service: Some("[Unit]\n".to_owned()),
        }
    }

    fn survey() -> Survey {
        Survey {
            chromium_databases: vec!["/home/ann/.pki/nssdb".into()],
            firefox_profiles: vec!["/home/ann/.mozilla/firefox/x".into()],
            has_gnome: true,
            has_kde: true,
            chromium_policies: vec!["/etc/chromium/policies/managed".into()],
            ..Survey::default()
        }
    }

    fn places_of(wishes: &Wishes) -> Vec<String> {
        let planned = steps(&Places::of_home(Path::new("/home/ann")), &survey(), wishes);
        assert!(
            planned
                .iter()
                .all(|step| !step.undo.is_empty() && !step.proof.is_empty())
        );
        planned.into_iter().map(|step| step.place).collect()
    }

    #[test]
    fn the_agent_comes_first_and_proxies_last() {
        let expected = [
            "/home/ann/.config/longhaul/agent.toml",
            "/home/ann/.config/systemd/user/longhaul-agent.service",
            "systemd user service longhaul-agent.service",
            "/home/ann/.pki/nssdb",
            "/home/ann/.mozilla/firefox/x",
            "/home/ann/.mozilla/firefox/x/user.js",
            "org.gnome.system.proxy autoconfig-url",
            "org.gnome.system.proxy mode",
            "/home/ann/.config/kioslaverc",
        ];
        assert_eq!(places_of(&wishes()), expected);
    }

    #[test]
    fn trust_stores_are_touched_only_for_accelerated_https() {
        let plain = Wishes {
            authority: None,
            accelerate: None,
            service: None,
            system_store: true,
            ..wishes()
        };
        let places = places_of(&plain);
        assert_eq!(places.len(), 4, "{places:?}");
        let nobody = Wishes {
            browsers: Browsers::Nobody,
            ..plain
        };
        assert!(places_of(&nobody).is_empty());
        let shells = Wishes {
            shells: true,
            ..nobody
        };
        assert_eq!(
            places_of(&shells),
            ["/home/ann/.config/environment.d/50-longhaul.conf"]
        );
        let system = Wishes {
            system_store: true,
            browsers: Browsers::Nobody,
            ..wishes()
        };
        assert!(places_of(&system).contains(&"/usr/local/share/ca-certificates/longhaul.crt".to_owned()));
    }

    #[test]
    fn another_unit_restarts_the_agent() {
        let changes = |unit: &str, survey: &Survey| -> Vec<Change> {
            let steps = service(&Places::of_home(Path::new("/home/ann")), survey, unit);
            steps.into_iter().map(|step| step.change).collect()
        };
        let none = Survey::default();
        let (old, new) = (changes("old", &none), changes("new", &none));
        assert!(
            old[0] != new[0] && old[1] != new[1],
            "both are undone and applied again"
        );
        let packaged = Survey {
            packaged_unit: Some("new".to_owned()),
            ..Survey::default()
        };
        assert_eq!(changes("old", &packaged), old, "the package has another unit");
        let of_package = changes("new", &packaged);
        assert_eq!(of_package.len(), 1, "{of_package:?}");
        assert!(!new.contains(&of_package[0]), "it is undone and applied again");
    }

    #[test]
    fn policies_serve_all_users() {
        let all = Wishes {
            browsers: Browsers::AllUsers,
            service: None,
            accelerate: None,
            ..wishes()
        };
        let expected = [
            "/etc/chromium/policies/managed/longhaul.json",
            "/etc/firefox/policies/longhaul.pem",
            "/etc/firefox/policies/policies.json",
        ];
        assert_eq!(places_of(&all), expected);
        let step = chromium_policy(Path::new("/etc"), &all);
        let Change::File { content, .. } = step.change else {
            panic!("{step:?}")
        };
        let policy: serde_json::Value = serde_json::from_str(&content).unwrap();
        assert_eq!(policy["CACertificates"], json!(["AAAABBBB"]));
        assert_eq!(policy["ProxySettings"]["ProxyPacUrl"], json!(all.script));
    }
}

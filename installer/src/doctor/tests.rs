use std::{path::PathBuf, time::Duration};

use serde_json::{Value, json};

use super::{checks::Place, gather, *};
use crate::agent_state::{AgentProcess, AgentState, Enrolment, RunningAgent};

fn healthy() -> Facts {
    Facts {
        state: AgentState {
            enrolment: Enrolment::Present {
                gateway: "gw.test:4433".to_owned(),
                key: longhaul_types::SecretKey::from_bytes([1; 32]).public(),
            },
            agent: AgentProcess::Running(Box::new(RunningAgent {
                pid: 7,
                proxy: "127.0.0.1:3128".parse().unwrap(),
                control: "127.0.0.1:3129".parse().unwrap(),
                version: "1.0.0".to_owned(),
                token: None,
                status: json!({ "state": "open", "requests": 5 }),
            })),
        },
        state_flag: String::new(),
        start_command: "systemctl --user start longhaul-agent".to_owned(),
        restart_command: "systemctl --user restart longhaul-agent".to_owned(),
        taken_ports: Vec::new(),
        hop: Hop::Works,
        portal: Portal::NotLookedFor,
        storage: Storage::Writable,
        clock_behind: None,
        trust: Vec::new(),
        bypassed: Vec::new(),
        version: "1.0.0".to_owned(),
    }
}

/// Kinds and commands of the findings.
fn found(facts: &Facts) -> Vec<(String, String)> {
    let report = Report::of(facts);
    let found = report
        .findings()
        .map(|(_, finding)| (finding.kind.clone(), finding.mend.clone()));
    found.collect()
}

/// The only finding after a change of the healthy facts.
fn only(change: impl FnOnce(&mut Facts)) -> (String, String) {
    let mut facts = healthy();
    change(&mut facts);
    let found = found(&facts);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

fn is(finding: &(String, String), kind: &str, mend: &str) {
    assert_eq!((finding.0.as_str(), finding.1.as_str()), (kind, mend));
}

#[test]
fn a_healthy_device_has_no_finding() {
    let report = Report::of(&healthy());
    assert!(report.is_healthy(), "{}", report.to_text());
    assert!(report.to_text().ends_with("\nNothing is wrong.\n"));
    let json: Value = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!((&json["healthy"], &json["findings"]), (&json!(true), &json!([])));
    assert_eq!(json["checks"].as_array().unwrap().len(), CHECKS.len());
}

#[test]
fn names_of_checks_are_distinct() {
    let mut names: Vec<&str> = CHECKS.iter().map(|check| check.id).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

#[test]
fn enrolment() {
    let mut facts = healthy();
    facts.state = AgentState {
        enrolment: Enrolment::Absent,
        agent: AgentProcess::Absent,
    };
    facts.hop = Hop::Unknown("this device is not enrolled".to_owned());
    facts.state_flag = " --state-dir /x".to_owned();
    // The missing agent follows from the missing enrolment and is not a finding of its own.
    assert_eq!(
        found(&facts),
        [(
            "not_enrolled".to_owned(),
            "longhaul up --state-dir /x LINE".to_owned()
        )]
    );
    facts.state.enrolment = Enrolment::Damaged("cut".to_owned());
    assert_eq!(
        found(&facts)[0].1,
        "longhaul enroll --state-dir /x --replace LINE"
    );
}

#[test]
fn agent_and_ports() {
    let gone = only(|facts| facts.state.agent = AgentProcess::Absent);
    is(
        &gone,
        "agent_not_running",
        "systemctl --user start longhaul-agent",
    );
    let hung = only(|facts| facts.state.agent = AgentProcess::Silent(Some(7), "timed out".to_owned()));
    is(
        &hung,
        "agent_not_running",
        "systemctl --user restart longhaul-agent",
    );
    let mut facts = healthy();
    facts.state.agent = AgentProcess::Absent;
    let port = |holder| TakenPort {
        name: "proxy",
        setting: "listen",
        address: "127.0.0.1:3128".parse().unwrap(),
        holder,
    };
    let squid = PortHolder {
        pid: 99,
        name: "squid".to_owned(),
    };
    facts.taken_ports = vec![port(Some(squid)), port(None)];
    let report = Report::of(&facts).to_text();
    assert!(
        report.contains("squid (process 99)") && report.contains("`listen`"),
        "{report}"
    );
    let commands: Vec<String> = found(&facts).into_iter().map(|(_, mend)| mend).collect();
    assert_eq!(
        commands,
        [
            "kill 99",
            "sudo ss -ltnp 'sport = :3128'",
            "systemctl --user start longhaul-agent"
        ]
    );
}

#[test]
fn each_trouble_of_the_hop_has_its_command() {
    for (kind, place, mend) in [
        ("offline", Place::Here, "nmcli networking on"),
        ("name_not_found", Place::Here, "longhaul enroll --replace LINE"),
        (
            "name_lookup_failed",
            Place::Here,
            "nmcli networking off && nmcli networking on",
        ),
        (
            "port_closed",
            Place::Gateway,
            "sudo systemctl start longhaul-gateway",
        ),
        ("silent", Place::Gateway, "sudo tcpdump -ni any udp port 4433"),
        ("revoked", Place::Here, "longhaul enroll --replace LINE"),
        ("invite_expired", Place::Here, "longhaul enroll --replace LINE"),
        ("not_enrolled", Place::Here, "longhaul enroll --replace LINE"),
        ("clock_off", Place::Here, "sudo timedatectl set-ntp true"),
        (
            "intercepted",
            Place::Here,
            "longhaul-agent check-config | grep carrier.pin",
        ),
        (
            "version_mismatch",
            Place::Here,
            "longhaul --version; longhaul-gateway --version",
        ),
        (
            "taken_over",
            Place::Gateway,
            "longhaul-gateway invite --name NAME --address gw.test:4433",
        ),
        (
            "of_a_newer_agent",
            Place::Here,
            "systemctl --user restart longhaul-agent",
        ),
    ] {
        let mut facts = healthy();
        facts.hop = Hop::of_trouble(&json!({ "kind": kind, "detail": "words" }));
        let report = Report::of(&facts);
        let findings: Vec<_> = report.findings().collect();
        let [(check, finding)] = findings[..] else {
            panic!("{kind}: {findings:?}");
        };
        assert_eq!(
            (check.id, finding.kind.as_str(), finding.place),
            ("hop", kind, place)
        );
        assert_eq!(
            (finding.mend.as_str(), finding.what.as_str()),
            (mend, "words"),
            "{kind}"
        );
        let json: Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(
            (&json["healthy"], &json["findings"][0]["kind"]),
            (&json!(false), &json!(kind))
        );
    }
    assert_eq!(Hop::of_trouble(&Value::Null), Hop::Works);
}

#[test]
fn storage_clock_and_versions() {
    let state = || PathBuf::from("/state");
    let full = only(|facts| facts.storage = Storage::Full(state()));
    is(
        &full,
        "disk_full",
        "df -h /state && du -xh /state | sort -h | tail",
    );
    let spaced = || PathBuf::from("/my state");
    let denied = only(|facts| facts.storage = Storage::Unwritable(spaced(), "denied".to_owned()));
    is(
        &denied,
        "not_writable",
        "sudo chown -R \"$USER\" '/my state' && chmod -R u+rwX '/my state'",
    );
    let read_only = only(|facts| facts.storage = Storage::ReadOnly(state()));
    is(
        &read_only,
        "not_writable",
        "sudo mount -o remount,rw \"$(findmnt -no TARGET -T /state)\"",
    );
    let clock = only(|facts| facts.clock_behind = Some(Duration::from_secs(7200)));
    is(&clock, "clock_off", "sudo timedatectl set-ntp true");
    let old = only(|facts| facts.version = "1.1.0".to_owned());
    is(
        &old,
        "version_mismatch",
        "systemctl --user restart longhaul-agent",
    );
}

#[test]
fn browsers_trust_and_bypassed_hosts() {
    let nobody = only(|facts| {
        if let AgentProcess::Running(agent) = &mut facts.state.agent {
            agent.status["requests"] = json!(0);
        }
    });
    is(&nobody, "no_browser", "longhaul up");
    let place = |is_trusting| BrowserTrust {
        browser: "Chromium".to_owned(),
        database: "/home/a/.local/share/pki/nssdb".into(),
        is_trusting,
    };
    let missing = only(|facts| facts.trust = vec![place(Ok(true)), place(Ok(false))]);
    is(&missing, "ca_missing", "longhaul up");
    let unknown = only(|facts| facts.trust = vec![place(Err("certutil is missing".to_owned()))]);
    is(&unknown, "ca_unknown", "sudo apt install libnss3-tools");
    let bypassed = only(|facts| {
        facts.bypassed = vec![BypassedHost {
            host: "bank.test".to_owned(),
            why: "a program does not accept this device's certificates".to_owned(),
        }];
    });
    is(
        &bypassed,
        "host_bypassed",
        "longhaul-agent https forget bank.test",
    );
}

#[test]
fn a_portal_is_named_before_the_silence_that_it_causes() {
    let mut facts = healthy();
    facts.hop = Hop::of_trouble(&json!({ "kind": "silent", "detail": "words" }));
    facts.portal = Portal::Found {
        asked: "http://gw.test/".to_owned(),
        page: Some("http://login.test/?a='b".to_owned()),
    };
    let found = found(&facts);
    is(
        &found[0],
        "captive_portal",
        "xdg-open 'http://login.test/?a=%27b'",
    );
    assert_eq!(found[1].0, "silent");
}

#[test]
fn a_portal_that_the_agent_has_recognised_is_the_only_finding() {
    let page = "http://login.test/";
    let login = only(|facts| {
        let trouble = json!({ "kind": "captive_portal", "detail": "words", "login_page": page });
        facts.hop = Hop::of_trouble(&trouble);
        facts.portal = gather::look_for_portal(&facts.hop, &facts.state.enrolment, None);
    });
    is(&login, "captive_portal", "xdg-open 'http://login.test/'");
}

#[test]
fn an_interception_is_a_finding_although_the_session_works() {
    for (session, address) in [
        (
            json!({ "carrier": "tls", "tls_port": 8443, "intercepted": true }),
            "gw.test:8443",
        ),
        (json!({ "carrier": "quic", "intercepted": true }), "gw.test:443"),
    ] {
        let found = only(|facts| {
            if let AgentProcess::Running(agent) = &mut facts.state.agent {
                agent.status["session"] = session;
            }
        });
        assert_eq!(found.0, "intercepted");
        let start = format!("openssl s_client -connect {address} -servername gw.test ");
        assert!(found.1.starts_with(&start), "{}", found.1);
    }
}

#[test]
fn facts_of_files_are_read() {
    let state = tempfile::tempdir().unwrap();
    assert_eq!(gather::storage(&state.path().join("none")), Storage::Absent);
    assert_eq!(gather::storage(state.path()), Storage::Writable);
    assert_eq!(
        std::fs::read_dir(state.path()).unwrap().count(),
        0,
        "nothing stays"
    );
    let now = Duration::from_secs(1_800_000_000);
    assert_eq!(gather::clock_behind(state.path(), now), None);
    std::fs::write(state.path().join("stamp"), "1800000030\n").unwrap();
    assert_eq!(
        gather::clock_behind(state.path(), now),
        None,
        "within the tolerance"
    );
    std::fs::write(state.path().join("stamp"), "1800003600\n").unwrap();
    assert_eq!(
        gather::clock_behind(state.path(), now),
        Some(Duration::from_secs(3600))
    );
}

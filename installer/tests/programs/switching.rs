//! `longhaul up`, `down` and `uninstall` leave a home as they found it.
#![cfg(unix)]
mod machine;

use std::{
    fs,
    io::{self, Write as _},
    process::Command,
};

use longhaul_types::{Invite, SecretKey};
use serde_json::Value;

use machine::{Machine, make_database, write};

fn has_certutil() -> bool {
    has("certutil", "package libnss3-tools")
}

fn has(program: &str, origin: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        // Not `eprintln`, which the test harness captures.
        let mut stderr = io::stderr();
        writeln!(stderr, "SKIPPED: this test needs {program} ({origin})").unwrap();
    }
    found
}

fn invite() -> String {
    let gateway = SecretKey::from_bytes([1; 32]).public();
    let device = SecretKey::from_bytes([7; 32]);
    Invite::new("gw.test:4433".to_owned(), gateway, device, [3; 32])
        .unwrap()
        .to_line()
}

fn states(report: &Value) -> Vec<&str> {
    let steps = report["steps"].as_array().unwrap();
    steps.iter().map(|step| step["state"].as_str().unwrap()).collect()
}

#[test]
fn up_and_down_leave_nothing_behind() {
    if !has_certutil() {
        return;
    }
    for has_old_layout in [false, true] {
        let machine = Machine::new();
        let chromium = if has_old_layout {
            let database = machine.path("home/.pki/nssdb");
            fs::create_dir_all(&database).unwrap();
            make_database(&database);
            "home/.pki/nssdb"
        } else {
            "home/.local/share/pki/nssdb"
        };
        let before = machine.look();
        let invite = invite();
        let plan = machine.json(&["up", &invite, "--dry-run", "--https", "all"]);
        assert!(states(&plan).iter().all(|state| *state == "planned"), "{plan}");
        machine.assert_unchanged(&before);

        let done = machine.json(&["up", &invite, "--yes", "--https", "list", "--site", "a.test"]);
        assert!(states(&done).iter().all(|state| *state == "applied"), "{done}");
        assert!(
            done["notes"].to_string().contains("longhaul-agent run --config"),
            "{done}"
        );
        for database in [
            chromium,
            "home/.mozilla/firefox/one.default",
            "home/.mozilla/firefox/two",
        ] {
            assert!(machine.trusts(database), "{database}");
        }
        assert_eq!(machine.path("home/.pki").exists(), has_old_layout);
        let setting = fs::read_to_string(machine.path("home/.config/longhaul/agent.toml")).unwrap();
        assert_eq!(setting, "[https]\naccelerate = [\"a.test\"]\n");

        let applied = machine.look();
        let again = machine.json(&["up", "--yes"]);
        assert!(
            states(&again).iter().all(|state| *state == "in-effect"),
            "{again}"
        );
        machine.assert_unchanged(&applied);

        // Without https, the changes for it go and the others stay.
        let off = machine.json(&["up", "--yes", "--https", "off"]);
        assert!(
            states(&off).contains(&"undone") && !machine.trusts(chromium),
            "{off}"
        );
        machine.json(&["up", "--yes", "--https", "all"]);

        let down = machine.json(&["down", "--yes"]);
        assert!(states(&down).iter().all(|state| *state == "undone"), "{down}");
        assert!(machine.path("home/.local/state/longhaul-agent/ca.key").exists());
        assert!(states(&machine.json(&["down"])).is_empty());
        machine.json(&["uninstall", "--yes"]);
        machine.assert_unchanged(&before);
        machine.json(&["uninstall", "--yes"]);
        machine.assert_unchanged(&before);
    }
}

#[test]
fn policies_for_all_users_keep_those_of_others() {
    if !has_certutil() {
        return;
    }
    let machine = Machine::new();
    let before = machine.look();
    let up = [
        "up",
        &invite(),
        "--yes",
        "--https",
        "all",
        "--all-users",
        "--system-store",
    ];
    machine.json(&up);
    let text = fs::read_to_string(machine.path("root/etc/firefox/policies/policies.json")).unwrap();
    let policies: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(policies["policies"]["DisableTelemetry"], true);
    assert_eq!(policies["policies"]["Proxy"]["Mode"], "autoConfig");
    assert!(
        machine
            .path("root/etc/chromium/policies/managed/longhaul.json")
            .exists()
    );
    assert!(
        !machine.trusts("home/.mozilla/firefox/two"),
        "the profiles are Firefox's"
    );
    machine.json(&["uninstall", "--yes"]);
    machine.assert_unchanged(&before);
}

#[test]
fn mistakes_change_nothing() {
    if !has_certutil() {
        return;
    }
    let machine = Machine::new();
    let before = machine.look();
    let line = invite();
    for (arguments, code, words) in [
        (vec!["up", "--yes"], 1, "longhaul up LINE"),
        (vec!["up", &line], 2, "--yes"),
        (vec!["up", "longhaul1:damaged", "--yes"], 2, ""),
        (vec!["up", &line, "--yes", "--https", "list"], 2, "--site"),
        (vec!["up", &line, "--yes", "--site", "a.test"], 2, "--https list"),
        (vec!["uninstall"], 2, "--yes"),
    ] {
        let run = machine.run(&arguments);
        let stderr = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {stderr}");
        assert!(
            stderr.contains(words) && run.stdout.is_empty(),
            "{arguments:?}: {stderr}"
        );
        machine.assert_unchanged(&before);
    }
}

#[test]
fn running_browsers_are_left_out() {
    if !has_certutil() {
        return;
    }
    let machine = Machine::new();
    write(&machine.path("root/proc/77/comm"), "firefox-esr\n");
    let before = machine.look();
    let done = machine.json(&["up", &invite(), "--yes"]);
    assert!(states(&done).contains(&"skipped"), "{done}");
    assert!(!machine.path("home/.mozilla/firefox/one.default/user.js").exists());
    fs::remove_file(machine.path("root/proc/77/comm")).unwrap();
    machine.json(&["up", "--yes"]);
    write(&machine.path("root/proc/77/comm"), "firefox-esr\n");
    let down = machine.run(&["down", "--yes"]);
    assert_eq!(down.status.code(), Some(1));
    let said = String::from_utf8_lossy(&down.stdout);
    assert!(said.contains("firefox-esr (process 77) runs"), "{said}");
    fs::remove_file(machine.path("root/proc/77/comm")).unwrap();
    machine.json(&["uninstall", "--yes"]);
    write(&machine.path("root/proc/77/comm"), "firefox-esr\n");
    machine.assert_unchanged(&before);
}

/// A shell may have variables that services do not get: the command of the agent names the directories.
#[test]
fn a_state_directory_of_the_shell_is_named_in_the_command_of_the_agent() {
    if !has_certutil() {
        return;
    }
    let machine = Machine::new();
    let (home, root, state) = (machine.path("home"), machine.path("root"), machine.path("state"));
    let up = Command::new(env!("CARGO_BIN_EXE_longhaul"))
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", &home)
        .env("XDG_STATE_HOME", &state)
        .env("LONGHAUL_BIN_DIR", machine.path("bin"))
        .args([
            "up",
            &invite(),
            "--yes",
            "--json",
            "--root",
            root.to_str().unwrap(),
        ])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&up.stdout);
    assert!(
        up.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&up.stderr)
    );
    let done: Value = serde_json::from_str(&said).unwrap();
    let command = format!(
        "longhaul-agent run --state-dir {}",
        state.join("longhaul-agent").display()
    );
    assert!(done["notes"].to_string().contains(&command), "{command}: {done}");
    assert!(state.join("longhaul-agent/invite").exists());
    assert!(!home.join(".local/state").exists());
}

/// The process itself dies, as by `kill -9`, before its changes of files and before it starts programs.
#[test]
fn a_killed_command_is_undone() {
    /// The commands are killed at every so many calls of a kind: at all of them, the test would take an hour.
    const STEP: usize = 13;
    if !has_certutil() || !has("strace", "package strace") {
        return;
    }
    let machine = Machine::new();
    let before = machine.look();
    let line = invite();
    let up = ["up", line.as_str(), "--yes", "--https", "all"];
    let mut deaths = 0;
    for command in ["up", "down", "uninstall"] {
        for call in [
            "rename",
            "unlink",
            "mkdir",
            "rmdir",
            "fsync",
            "clone,clone3,vfork",
        ] {
            for number in (1..).step_by(STEP) {
                let is_killed = if command == "up" {
                    machine.is_killed((call, number), &up)
                } else {
                    machine.json(&up);
                    machine.is_killed((call, number), &[command, "--yes"])
                };
                // Every second time, `up` goes on where it was killed.
                if command == "up" && is_killed && deaths % 2 == 0 {
                    let done = machine.json(&up);
                    assert!(!done.to_string().contains("failed"), "{call} {number}: {done}");
                    assert!(machine.trusts("home/.mozilla/firefox/two"), "{call} {number}");
                }
                deaths += usize::from(is_killed);
                machine.json(&["uninstall", "--yes"]);
                machine.assert_unchanged(&before);
                if !is_killed {
                    break;
                }
            }
        }
    }
    assert!(deaths > 18, "{deaths}");
}

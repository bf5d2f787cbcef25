//! The operator's commands beside a running gateway and without one, as root and as other users.
#![cfg(unix)]
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that cannot go on fails, and says why it was skipped"
)]

mod home;
mod moves;
mod port;
mod socket;
mod users;

use std::{
    collections::BTreeSet,
    fs,
    process::{Child, Output, Stdio},
};

use longhaul_types::Invite;

use self::home::{Home, Running};

const INVITE: [&str; 4] = ["invite", "laptop", "--address", "gw.test:4433"];

fn failure(output: &Output) -> String {
    assert!(!output.status.success(), "{output:?}");
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn a_hundred_invites_at_once_all_count() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    let commands: Vec<Child> = (0..100)
        .map(|number| {
            let name = format!("device {number}");
            home.command(None, &["invite", &name, "--address", "gw.test:4433"])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let lines: BTreeSet<Vec<u8>> = commands
        .into_iter()
        .map(|command| {
            let output = command.wait_with_output().unwrap();
            assert!(output.status.success());
            output.stdout
        })
        .collect();
    assert_eq!(lines.len(), 100, "each invite is its own");
    assert_eq!(home.list()["devices"].as_array().unwrap().len(), 100);
    drop(running);
    assert_eq!(
        home.list()["devices"].as_array().unwrap().len(),
        100,
        "all are on disk"
    );
}

#[test]
fn commands_that_are_killed_leave_a_readable_list() {
    let home = Home::of(None);
    let mut interrupted = 0_u32;
    for round in 0..30_u32 {
        let name = format!("device {round}");
        let mut command = home
            .command(None, &["invite", &name, "--address", "gw.test:4433"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed while it writes: its temporary file is there. A command that is faster ends by itself.
        while command.try_wait().unwrap().is_none() && temporaries(&home).is_empty() {
            std::thread::yield_now();
        }
        command.kill().unwrap();
        interrupted += u32::from(!temporaries(&home).is_empty());
        command.wait().unwrap();
        let list = home.list();
        assert!(list["devices"].is_array(), "after {round} killed commands");
    }
    println!("{interrupted} commands left a temporary file");
    home.text(&INVITE);
    let running = Running::start(&home, None);
    let left = temporaries(&home);
    assert!(
        left.is_empty(),
        "the gateway removes what killed commands left: {left:?}"
    );
    assert_eq!(home.list()["running"], true);
    drop(running);
}

/// Temporary files of the list of devices.
fn temporaries(home: &Home) -> Vec<String> {
    fs::read_dir(&home.state)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".devices.toml."))
        .collect()
}

#[test]
fn commands_work_after_a_gateway_was_killed() {
    let home = Home::of(None);
    let mut running = Running::start(&home, None);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    assert!(home.socket().exists(), "a killed gateway leaves its socket");
    home.text(&INVITE);
    assert_eq!(home.list()["running"], false);
    let next = Running::start(&home, None);
    assert_eq!(home.list()["running"], true);
    drop(next);
}

#[test]
fn a_second_gateway_on_the_same_directory_is_refused() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    let refused = failure(&home.run(&["run", "--listen", "127.0.0.1:0"]));
    assert!(
        refused.contains("another gateway uses the state directory"),
        "{refused}"
    );
    assert_eq!(home.list()["running"], true, "the first one is not disturbed");
    drop(running);
}

#[test]
fn an_invite_has_an_address_an_end_and_a_form() {
    let home = Home::of(None);
    let nowhere = failure(&home.run(&["invite", "a"]));
    assert!(
        nowhere.contains("public-address") && nowhere.contains("--address"),
        "{nowhere}"
    );
    let long = failure(&home.run(&["invite", "a", "--address", "gw.test:1", "--expires", "366d"]));
    assert!(long.contains("at most 365d"), "{long}");
    assert!(
        !home.run(&["invite", "--address", "gw.test:1"]).status.success(),
        "a name is needed"
    );
    assert_eq!(
        home.list()["devices"],
        serde_json::json!([]),
        "a mistake admits nobody"
    );
    let words = [
        "invite",
        "a",
        "--public-address",
        "gw.test:4433",
        "--once",
        "--expires",
        "2h",
        "--json",
    ];
    let json: serde_json::Value = serde_json::from_str(&home.text(&words)).unwrap();
    assert_eq!(
        (&json["name"], &json["address"], &json["one_time"]),
        (&"a".into(), &"gw.test:4433".into(), &true.into())
    );
    let invite: Invite = json["invite"].as_str().unwrap().parse().unwrap();
    assert_eq!(json["key"], invite.device().public().to_string());
    let listed = &home.list()["devices"][0];
    assert_eq!(
        (&listed["invite_expires"], &listed["one_time"]),
        (&json["expires"], &true.into())
    );
    let replaced = home.run(&["invite", "a", "--address", "gw.test:1", "--replace", "--qr"]);
    let text = String::from_utf8(replaced.stdout).unwrap();
    assert!(
        text.lines().count() > 20 && text.contains('▀'),
        "a code for the camera: {text}"
    );
    let note = String::from_utf8(replaced.stderr).unwrap();
    assert!(
        note.contains(json["id"].as_str().unwrap()) && note.contains("valid until"),
        "{note}"
    );
    let states: Vec<_> = home.list()["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| device["status"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(states, ["revoked", "invited"]);
}

/// Lists of earlier versions have neither `invite-expires` nor `one-time`.
#[test]
fn devices_of_an_earlier_list_do_not_expire() {
    let home = Home::of(None);
    let invite: Invite = home.text(&INVITE).parse().unwrap();
    let old = format!(
        "[[device]]\nname = \"old\"\nkey = \"{}\"\nadded = \"Fri, 02 Jan 1970 00:00:00 GMT\"\n",
        invite.device().public()
    );
    fs::write(home.state.join("devices.toml"), old).unwrap();
    let listed = &home.list()["devices"][0];
    assert_eq!(
        (&listed["status"], &listed["added"]),
        (&"admitted".into(), &"1970-01-02T00:00:00Z".into())
    );
}

//! Commands of root, of the gateway's user and of other users.
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
};

use longhaul_types::Invite;

use super::{
    INVITE, failure,
    home::{Home, Running},
};

/// Users without an entry in the machine's list of users: the gateway's, and a stranger.
const SERVICE: u32 = 54_321;
const STRANGER: u32 = 54_322;

/// True if this test can start the program as other users.
fn can_change_user() -> bool {
    let home = Home::of(None);
    let started = home.command(Some(SERVICE), &["--version"]).output();
    let can = started.is_ok_and(|output| output.status.success());
    if !can {
        println!("SKIPPED: needs root, and a build that other users can execute");
    }
    can
}

#[test]
fn root_changes_the_devices_of_a_running_gateway_of_another_user() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    let running = Running::start(&home, Some(SERVICE));
    let line = home.text(&INVITE);
    assert_eq!(line.lines().count(), 1);
    assert!(line.parse::<Invite>().is_ok(), "{line}");
    let list = home.list();
    assert_eq!(list["running"], true, "{list:#}");
    let device = &list["devices"][0];
    assert_eq!(
        (&device["name"], &device["status"]),
        (&"laptop".into(), &"invited".into())
    );
    assert_eq!(
        (&device["bytes_up"], &device["last_seen"]),
        (&0.into(), &serde_json::Value::Null)
    );
    assert!(
        home.text(&["device", "rename", "laptop", "phone"])
            .starts_with("renamed laptop to phone (")
    );
    assert!(home.text(&["device", "list"]).contains("phone"));
    assert!(
        home.text(&["device", "remove", "phone"])
            .starts_with("removed phone (")
    );
    let again = failure(&home.run(&["device", "revoke", "phone"]));
    assert!(
        again.contains("no admitted device has the name, id or key `phone`"),
        "{again}"
    );
    let owners = home.owners();
    assert!(owners.iter().all(|(_, owner, _)| *owner == SERVICE), "{owners:?}");
    assert!(
        owners.contains(&("admin.sock".to_owned(), SERVICE, 0o600)),
        "{owners:?}"
    );
    let log = running.end();
    assert!(log.contains("the operator changed the list of devices"), "{log}");
    assert!(!home.socket().exists(), "the socket is removed at the end");
}

#[test]
fn files_that_root_changes_keep_their_owner() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    home.text(&INVITE);
    home.text(&["device", "list"]);
    let owners = home.owners();
    assert!(
        owners
            .iter()
            .all(|(_, owner, mode)| (*owner, *mode) == (SERVICE, 0o600)),
        "{owners:?}"
    );
    // The operator gave the list to a group, and root broke its owner earlier.
    let list = home.state.join("devices.toml");
    fs::set_permissions(&list, fs::Permissions::from_mode(0o640)).unwrap();
    home.text(&["device", "rename", "laptop", "phone"]);
    assert_eq!(fs::metadata(&list).unwrap().mode() & 0o777, 0o640);
    chown(&list, Some(0), Some(0)).unwrap();
    home.text(&["device", "rename", "phone", "tablet"]);
    assert_eq!(
        fs::metadata(&list).unwrap().uid(),
        SERVICE,
        "a file of root is repaired"
    );
    let running = Running::start(&home, Some(SERVICE));
    assert_eq!(home.list()["devices"][0]["name"], "tablet");
    let log = running.end();
    assert!(!log.contains("ERROR") && !log.contains("cannot be"), "{log}");
}

#[test]
fn other_users_are_refused() {
    if !can_change_user() {
        return;
    }
    let home = Home::of(Some(SERVICE));
    let running = Running::start(&home, Some(SERVICE));
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(
        denied.contains("gateway.lock") && denied.contains("use `sudo`"),
        "{denied}"
    );
    // Even if the files admit the stranger, the check of the peer does not.
    fs::set_permissions(&home.state, fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(home.state.join("gateway.lock"), fs::Permissions::from_mode(0o644)).unwrap();
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(
        denied.contains("only from root and from the user who runs it"),
        "{denied}"
    );
    fs::set_permissions(home.socket(), fs::Permissions::from_mode(0o666)).unwrap();
    let denied = failure(&home.command(Some(STRANGER), &INVITE).output().unwrap());
    assert!(denied.contains("does not take orders from this user"), "{denied}");
    let own = home
        .command(Some(SERVICE), &["device", "list", "--json"])
        .output()
        .unwrap();
    let own: serde_json::Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(
        own["devices"],
        serde_json::json!([]),
        "no stranger has added a device"
    );
    let log = running.end();
    assert!(
        log.contains("another user tried to use the admin socket"),
        "{log}"
    );
}

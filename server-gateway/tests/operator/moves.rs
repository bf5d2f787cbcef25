//! Quotas and restored devices without a running gateway, and backups: what is refused, and why.
use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{
    INVITE, failure,
    home::{Home, Running},
};

#[test]
fn quotas_and_restored_devices_need_no_running_gateway() {
    let home = Home::of(None);
    home.text(&INVITE);
    let set = home.text(&["device", "quota", "laptop", "--rate", "2Mbit/s", "--month", "5GB"]);
    assert!(set.contains("rate 2Mbit/s, month 5GB"), "{set}");
    home.text(&["device", "quota", "laptop", "--month", "default"]);
    let device = &home.list()["devices"][0];
    assert_eq!(
        (
            &device["quota_rate_bps"],
            &device["quota_month_bytes"],
            &device["quota_month"]
        ),
        (&2_000_000.into(), &serde_json::Value::Null, &"default".into())
    );
    let wrong = home.run(&["device", "quota", "laptop", "--rate", "fast"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("2Mbit/s"));
    assert!(failure(&home.run(&["device", "restore", "laptop"])).contains("is not removed"));
    home.text(&["device", "remove", "laptop"]);
    assert!(
        failure(&home.run(&["device", "quota", "laptop", "--rate", "none"])).contains("no admitted device")
    );
    assert!(
        home.text(&["device", "restore", "laptop"])
            .starts_with("restored laptop (")
    );
    home.text(&["device", "remove", "laptop"]);
    home.text(&INVITE);
    assert!(
        failure(&home.run(&["device", "restore", "laptop"])).contains("is admitted already"),
        "two devices of one name"
    );
    home.text(&["device", "remove", "laptop"]);
    let two = failure(&home.run(&["device", "restore", "laptop"]));
    assert!(two.contains("by its id: "), "{two}");
    let id = two.rsplit(' ').next().unwrap().trim().to_owned();
    home.text(&["device", "restore", &id]);
    let list = home.list();
    let states: Vec<_> = list["devices"]
        .as_array()
        .unwrap()
        .iter()
        .map(|device| &device["status"])
        .collect();
    assert_eq!(states, ["revoked", "admitted"]);
}

#[test]
fn a_backup_beside_a_running_gateway_is_restored_only_where_there_is_none() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    home.text(&INVITE);
    home.text(&["device", "quota", "laptop", "--month", "5GB"]);
    let file = home.folder.path().join("backup");
    let name = file.to_str().unwrap();
    let told = home.text(&["backup", name]);
    assert!(told.contains("it contains secret keys"), "{told}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(failure(&home.run(&["backup", name])).contains("exists already"));
    assert!(failure(&home.run(&["restore", name])).contains("exists already"));
    running.end();

    let other = Home::of(None);
    assert!(failure(&other.run(&["backup", "x"])).contains("has no gateway"));
    let damaged = other.folder.path().join("damaged");
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 10);
    fs::write(&damaged, bytes).unwrap();
    assert!(failure(&other.run(&["restore", damaged.to_str().unwrap()])).contains("damaged"));
    assert!(failure(&other.run(&["restore", "missing"])).contains("cannot be read"));
    let told = other.text(&["restore", name]);
    assert!(told.contains("gateway.toml"), "{told}");
    let (before, after) = (&home.list()["devices"][0], &other.list()["devices"][0]);
    for field in ["name", "id", "key", "quota_month_bytes"] {
        assert_eq!(before[field], after[field]);
    }
    let running = Running::start(&other, None);
    assert_eq!(other.list()["running"], true);
    running.end();
    let left = other.owners();
    assert!(
        left.iter()
            .all(|(name, _, mode)| name == "cache" || *mode == 0o600),
        "{left:?}"
    );
}

/// A restore onto a full disk changes nothing. Needs root, to mount a small file system.
#[test]
fn a_backup_that_does_not_fit_changes_nothing() {
    let home = Home::of(None);
    let running = Running::start(&home, None);
    for number in 0..200 {
        let name = format!("{number} {}", "x".repeat(50));
        home.text(&["device", "add", "--name", &name, &key(number)]);
    }
    let file = home.folder.path().join("backup");
    home.text(&["backup", file.to_str().unwrap()]);
    running.end();
    let small = Home::of(None);
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=16k,mode=0700", "tmpfs"])
        .arg(&small.state)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("SKIPPED: needs root");
        return;
    }
    let full = small.run(&["restore", file.to_str().unwrap()]);
    let left: Vec<_> = small.owners().into_iter().map(|(name, ..)| name).collect();
    let unmounted = std::process::Command::new("umount")
        .arg(&small.state)
        .status()
        .unwrap();
    assert!(unmounted.success());
    let words = failure(&full);
    assert!(words.contains("there is no space"), "{words}");
    assert!(left.iter().all(|name| name == "gateway.lock"), "{left:?}");
}

/// A key of its own for each number.
fn key(number: u32) -> String {
    let mut bytes = [7; 32];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    longhaul_types::SecretKey::from_bytes(bytes).public().to_string()
}

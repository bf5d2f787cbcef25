use std::{
    fs,
    time::{Duration, SystemTime},
};

use longhaul_protocol::endpoint::DeviceStatus;
use longhaul_types::{ByteCount, DeviceId, PublicKey, SecretKey};

use super::{file::FILE, *};
use crate::{admission::state::StateDir, quota_limits::Limit};

const NOW: SystemTime = SystemTime::UNIX_EPOCH;

fn key(seed: u8) -> PublicKey {
    SecretKey::from_bytes([seed; 32]).public()
}

#[test]
fn add_revoke_and_read_back() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    assert_eq!(Devices::load(&state).unwrap(), Devices::default());
    Devices::update(&state, |devices| devices.add("laptop \"one\"", key(1), NOW)).unwrap();
    Devices::update(&state, |devices| devices.add("phone", key(2), NOW)).unwrap();
    let later = NOW + Duration::from_secs(86_400);
    Devices::update(&state, |devices| devices.revoke("phone", later)).unwrap();
    let devices = Devices::load(&state).unwrap();
    assert_eq!(
        devices.statuses(NOW),
        [(key(1), DeviceStatus::Admitted), (key(2), DeviceStatus::Revoked)].into()
    );
    assert_eq!(devices.iter().next().unwrap().name, "laptop \"one\"");
    assert_eq!(
        devices.iter().nth(1).unwrap().revoked.as_deref(),
        Some("Fri, 02 Jan 1970 00:00:00 GMT")
    );
}

#[test]
fn names_and_keys_are_unique_among_the_admitted() {
    let mut devices = Devices::default();
    devices.add("a", key(1), NOW).unwrap();
    assert!(matches!(
        devices.add("a", key(2), NOW),
        Err(DevicesError::NameTaken(_))
    ));
    assert!(matches!(
        devices.add("b", key(1), NOW),
        Err(DevicesError::KeyTaken { state: "", .. })
    ));
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(matches!(
            devices.add(name, key(3), NOW),
            Err(DevicesError::BadName(_))
        ));
    }
    devices.revoke(&DeviceId::of(&key(1)).to_string(), NOW).unwrap();
    assert!(matches!(devices.revoke("a", NOW), Err(DevicesError::NotFound(_))));
    devices.add("a", key(2), NOW).unwrap();
    devices.revoke(&key(2).to_string(), NOW).unwrap();
    assert!(matches!(
        devices.add("c", key(2), NOW),
        Err(DevicesError::KeyTaken { .. })
    ));
}

#[test]
fn a_damaged_list_is_reported_and_never_overwritten() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    for text in [
        "[[device]]\nname = 'x'\nkey = 'short'\nadded = ''\n",
        "[[device]\n",
        "[[gadget]]\n",
    ] {
        fs::write(state.file(FILE), text).unwrap();
        let error = Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap_err();
        assert!(matches!(error, DevicesError::Damaged { .. }), "{error}");
        assert_eq!(fs::read_to_string(state.file(FILE)).unwrap(), text);
    }
}

#[test]
fn a_list_that_cannot_be_read_is_not_an_empty_one() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    assert_eq!(Devices::load(&state).unwrap().iter().count(), 0);
    fs::create_dir(state.file(FILE)).unwrap();
    let error = Devices::load(&state).unwrap_err();
    assert!(matches!(error, DevicesError::Read { .. }), "{error}");
}

#[test]
fn names_have_a_maximum_length() {
    let mut devices = Devices::default();
    devices.add(&"n".repeat(MAX_NAME), key(1), NOW).unwrap();
    let long = devices.add(&"m".repeat(MAX_NAME + 1), key(2), NOW);
    assert!(matches!(long, Err(DevicesError::BadName(_))));
}

#[test]
fn temporary_files_of_killed_processes_are_removed() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap();
    let left = state.file(&format!(".{FILE}.0123456789abcdef"));
    let other = state.file(".another.0123456789abcdef");
    fs::write(&left, "").unwrap();
    fs::write(&other, "").unwrap();
    Devices::remove_temporaries(&state).unwrap();
    assert!(!left.exists() && other.exists() && state.file(FILE).exists());
}

#[test]
fn concurrent_changes_all_count() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    std::thread::scope(|scope| {
        for seed in 1..=8 {
            let state = &state;
            scope.spawn(move || {
                Devices::update(state, |devices| devices.add(&seed.to_string(), key(seed), NOW)).unwrap();
            });
        }
    });
    assert_eq!(Devices::load(&state).unwrap().iter().count(), 8);
}

#[test]
fn the_watch_sees_each_change_once() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let mut watch = DevicesWatch::new(state.clone());
    assert!(watch.look().is_none(), "no file, no change");
    Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap();
    assert_eq!(watch.look().unwrap().unwrap().iter().count(), 1);
    assert!(watch.look().is_none());
    Devices::update(&state, |devices| devices.revoke("a", NOW)).unwrap();
    assert_eq!(
        watch.look().unwrap().unwrap().statuses(NOW)[&key(1)],
        DeviceStatus::Revoked
    );
}

fn after(seconds: u64) -> SystemTime {
    NOW + Duration::from_secs(seconds)
}

fn pending(seconds: u64, is_one_time: bool) -> PendingInvite {
    PendingInvite::new(NOW, Duration::from_secs(seconds), is_one_time)
}

#[test]
fn an_unused_invite_expires_and_a_used_one_does_not() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    Devices::update(&state, |devices| {
        devices.invite("used", key(1), pending(60, false), NOW)?;
        devices.invite("unused", key(2), pending(60, false), NOW)?;
        devices.invite("one-time", key(3), pending(60, true), NOW)?;
        devices.note_use(&key(1));
        devices.note_use(&key(3));
        Ok::<_, DevicesError>(())
    })
    .unwrap();
    let devices = Devices::load(&state).unwrap();
    let states = |now| devices.iter().map(|device| device.state(now)).collect::<Vec<_>>();
    use DeviceState::{Admitted, Expired, Invited};
    assert_eq!(states(after(59)), [Admitted, Invited, Invited]);
    assert_eq!(states(after(60)), [Admitted, Expired, Expired]);
    assert_eq!(devices.statuses(after(60))[&key(2)], DeviceStatus::Expired);
    assert_eq!(devices.pending_invites(after(59)).len(), 2);
    assert!(devices.pending_invites(after(60)).is_empty());
}

#[test]
fn the_end_of_an_invite_is_rounded_up_to_the_second_that_the_file_has() {
    let now = NOW + Duration::from_millis(1500);
    let invite = PendingInvite::new(now, Duration::from_secs(1), false);
    assert_eq!(invite.expires, after(3));
}

#[test]
fn the_key_of_a_one_time_invite_is_replaced_once() {
    let mut devices = Devices::default();
    devices.invite("phone", key(1), pending(60, true), NOW).unwrap();
    devices.add("laptop", key(2), NOW).unwrap();
    for (old, new, now) in [
        (key(2), key(9), NOW),
        (key(7), key(9), NOW),
        (key(1), key(9), after(60)),
    ] {
        let refused = devices.replace_key(&old, new, now);
        assert!(matches!(refused, Err(DevicesError::NotFound(_))), "{refused:?}");
    }
    let taken = devices.replace_key(&key(1), key(2), NOW);
    assert!(matches!(taken, Err(DevicesError::KeyTaken { .. })));
    assert_eq!(
        devices.statuses(NOW)[&key(1)],
        DeviceStatus::Admitted,
        "unchanged"
    );
    devices.replace_key(&key(1), key(3), NOW).unwrap();
    let expected = [
        (key(1), DeviceStatus::Revoked),
        (key(2), DeviceStatus::Admitted),
        (key(3), DeviceStatus::Admitted),
    ];
    assert_eq!(devices.statuses(after(60)), expected.into());
    assert_eq!(devices.revoke("phone", NOW).unwrap().key, key(3));
    assert!(
        devices.replace_key(&key(1), key(4), NOW).is_err(),
        "a second agent"
    );
}

#[test]
fn a_device_is_renamed_by_name_id_or_key() {
    let mut devices = Devices::default();
    devices.add("a", key(1), NOW).unwrap();
    devices.add("b", key(2), NOW).unwrap();
    assert!(matches!(
        devices.rename("a", "b"),
        Err(DevicesError::NameTaken(_))
    ));
    assert!(matches!(
        devices.rename("a", "x\n"),
        Err(DevicesError::BadName(_))
    ));
    assert!(matches!(devices.rename("c", "d"), Err(DevicesError::NotFound(_))));
    devices.rename("a", "a").unwrap();
    devices.rename(&DeviceId::of(&key(1)).to_string(), "c").unwrap();
    devices.rename(&key(2).to_string(), "a").unwrap();
    let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["c", "a"]);
}

#[test]
fn a_one_time_device_without_an_end_is_damaged() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    for more in ["one-time = true", "invite-expires = \"tomorrow\""] {
        let text = format!("[[device]]\nname = 'x'\nkey = '{}'\nadded = ''\n{more}\n", key(1));
        fs::write(state.file(FILE), text).unwrap();
        let error = Devices::load(&state).unwrap_err().to_string();
        assert!(
            error.contains("invite-expires") && error.contains("device `x`"),
            "{error}"
        );
    }
}

/// Root changes the list of a gateway of another user; other users cannot test this.
#[cfg(unix)]
#[test]
fn files_keep_their_owner() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    const OWNER: u32 = 54_321;
    const ANOTHER: u32 = 54_322;
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(&home.path().join("state")).unwrap();
    if chown(state.path(), Some(OWNER), Some(OWNER)).is_err() {
        return;
    }
    Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap();
    let owner = |name| fs::metadata(state.file(name)).unwrap().uid();
    assert_eq!(
        (owner(FILE), owner("devices.lock")),
        (OWNER, OWNER),
        "that of the directory"
    );
    // A file keeps its own owner and mode, and a file that root left there gets the owner of the directory.
    for (before, after) in [(ANOTHER, ANOTHER), (0, OWNER)] {
        chown(state.file(FILE), Some(before), Some(before)).unwrap();
        fs::set_permissions(state.file(FILE), fs::Permissions::from_mode(0o640)).unwrap();
        Devices::update(&state, |devices| {
            devices.add(&before.to_string(), key(before.to_be_bytes()[3]), NOW)
        })
        .unwrap();
        let mode = fs::metadata(state.file(FILE)).unwrap().mode() & 0o7777;
        assert_eq!((owner(FILE), mode), (after, 0o640));
    }
    // A symbolic link is replaced: root must not give its target away.
    let target = home.path().join("of root");
    fs::write(&target, "").unwrap();
    fs::remove_file(state.file(FILE)).unwrap();
    std::os::unix::fs::symlink(&target, state.file(FILE)).unwrap();
    Devices::update(&state, |devices| devices.add("a", key(1), NOW)).unwrap();
    assert_eq!((owner(FILE), fs::metadata(&target).unwrap().uid()), (OWNER, 0));
    assert!(fs::symlink_metadata(state.file(FILE)).unwrap().is_file());
}

#[test]
fn a_removed_device_is_restored_with_its_key_and_quota() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let month = Limit::Of(ByteCount::kb(5_000_000));
    Devices::update(&state, |devices| {
        devices.add("laptop", key(1), NOW)?;
        devices.set_quota("laptop", |quota| quota.month = month)?;
        devices.revoke("laptop", NOW)
    })
    .unwrap();
    Devices::update(&state, |devices| devices.restore("laptop")).unwrap();
    let mut devices = Devices::load(&state).unwrap();
    assert_eq!(devices.statuses(NOW)[&key(1)], DeviceStatus::Admitted);
    assert_eq!(devices.iter().next().unwrap().quota.month, month);
    assert!(matches!(
        devices.restore("laptop"),
        Err(DevicesError::NotRemoved(_))
    ));
    assert!(matches!(devices.restore("x"), Err(DevicesError::Unknown(_))));
    devices.revoke("laptop", NOW).unwrap();
    devices.add("laptop", key(2), NOW).unwrap();
    assert!(matches!(
        devices.restore("laptop"),
        Err(DevicesError::NameTaken(_))
    ));
    devices.revoke("laptop", NOW).unwrap();
    let ids = match devices.restore("laptop") {
        Err(DevicesError::Ambiguous { ids, .. }) => ids,
        other => panic!("{other:?}"),
    };
    assert!(ids.contains(&DeviceId::of(&key(2)).to_string()), "{ids}");
    devices.restore(&DeviceId::of(&key(2)).to_string()).unwrap();
    assert_eq!(devices.statuses(NOW)[&key(1)], DeviceStatus::Revoked);
}

use super::*;

#[test]
fn keys_are_created_once_and_reused() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(&home.path().join("a/b")).unwrap();
    let first = state.keys().unwrap();
    let again = StateDir::open(&home.path().join("a/b")).unwrap().keys().unwrap();
    assert_eq!(first.secret.as_bytes(), again.secret.as_bytes());
    assert_eq!(first.epoch.key, again.epoch.key);
    assert_eq!(first.reset.as_bytes(), again.reset.as_bytes());
    assert_ne!(first.secret.as_bytes(), first.reset.as_bytes());
    let names: Vec<_> = fs::read_dir(home.path().join("a/b"))
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "no temporary file is left: {names:?}");
}

#[test]
fn a_lost_reset_key_is_derived_again() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let before = state.keys().unwrap();
    fs::remove_file(state.file(RESET_KEY)).unwrap();
    assert_eq!(state.keys().unwrap().reset.as_bytes(), before.reset.as_bytes());
    let other = StateDir::open(&home.path().join("other")).unwrap();
    assert_ne!(other.keys().unwrap().reset.as_bytes(), before.reset.as_bytes());
}

#[test]
fn a_start_begins_a_new_epoch_under_the_same_key() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let before = state.keys().unwrap();
    let started = before.next_epoch().unwrap();
    assert_ne!(started.epoch, before.epoch.epoch);
    assert_eq!(started.key, before.epoch.key);
    state.keep_epoch(&started).unwrap();
    assert_eq!(state.keys().unwrap().epoch.epoch, started.epoch);
}

/// The state directory was restored from a snapshot: a start repeats no epoch that began after the snapshot.
#[test]
fn a_restored_directory_begins_another_epoch() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    let snapshot = state.keys().unwrap();
    let since: Vec<u32> = (0..3)
        .map(|_| {
            let started = state.keys().unwrap().next_epoch().unwrap();
            state.keep_epoch(&started).unwrap();
            started.epoch
        })
        .collect();
    state.keep_epoch(&snapshot.epoch).unwrap();
    assert!(!since.contains(&state.keys().unwrap().next_epoch().unwrap().epoch));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_the_state() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(&home.path().join("s")).unwrap();
    state.keys().unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&home.path().join("s")), 0o700);
    for name in [GATEWAY_KEY, EPOCH_KEY, RESET_KEY] {
        assert_eq!(mode(&state.file(name)), 0o600, "{name}");
    }
}

#[test]
fn a_damaged_key_is_reported_and_never_replaced() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    fs::write(state.file(GATEWAY_KEY), b"\xff nonsense").unwrap();
    let error = state.keys().unwrap_err();
    assert!(matches!(&error, StateError::BadKey { path, .. } if path.ends_with(GATEWAY_KEY)));
    assert!(error.to_string().contains("new invite"), "{error}");
    assert_eq!(fs::read(state.file(GATEWAY_KEY)).unwrap(), b"\xff nonsense");
}

#[test]
fn a_file_in_place_of_the_directory_is_reported() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(
        StateDir::open(&file.join("state")),
        Err(StateError::Write { .. })
    ));
}

#[cfg(unix)]
#[test]
fn a_key_that_others_can_read_is_noticed() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("key");
    fs::write(&path, "").unwrap();
    for (mode, is_open) in [(0o600, false), (0o700, false), (0o640, true), (0o604, true)] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(is_open_to_others(&path), is_open, "{mode:o}");
    }
    assert!(!is_open_to_others(&home.path().join("missing")));
}

#[test]
fn a_key_that_cannot_be_read_is_not_replaced() {
    let home = tempfile::tempdir().unwrap();
    let state = StateDir::open(home.path()).unwrap();
    fs::create_dir(state.file(GATEWAY_KEY)).unwrap();
    let error = state.keys().unwrap_err();
    assert!(matches!(error, StateError::Read { .. }), "{error}");
}

#[test]
fn each_error_of_the_disk_says_what_to_do() {
    for (kind, advice) in [
        (io::ErrorKind::StorageFull, "free some space"),
        (io::ErrorKind::QuotaExceeded, "disk quota is used up"),
        (io::ErrorKind::ReadOnlyFilesystem, "mounted read-only"),
        (io::ErrorKind::PermissionDenied, "use `sudo`"),
    ] {
        let text = writable(&kind.into());
        assert!(text.contains(advice), "{kind}: {text}");
    }
    assert!(readable(&io::ErrorKind::PermissionDenied.into()).contains("use `sudo`"));
    assert!(readable(&io::ErrorKind::InvalidData.into()).starts_with("restore it"));
}

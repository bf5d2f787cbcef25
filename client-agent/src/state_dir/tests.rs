use super::*;

fn invite(device: u8) -> Invite {
    let gateway = SecretKey::from_bytes([1; 32]).public();
    Invite::new(
        "gw.test:4433".to_owned(),
        gateway,
        SecretKey::from_bytes([device; 32]),
        [3; 32],
    )
    .unwrap()
}

fn state() -> (tempfile::TempDir, StateDir) {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::new(dir.path().join("deep/state"));
    state.create().unwrap();
    (dir, state)
}

#[test]
fn a_stored_token_is_used_only_by_its_device() {
    let (_dir, state) = state();
    assert_eq!(state.token(&invite(2)), [3; 32]);
    state.keep_token(&invite(2), &[0xab; 32]).unwrap();
    state.keep_token(&invite(2), &[0xcd; 32]).unwrap();
    assert_eq!(state.token(&invite(2)), [0xcd; 32]);
    assert_eq!(state.token(&invite(4)), [3; 32], "a token of another device");
    fs::write(state.path().join("token"), "zz").unwrap();
    assert_eq!(state.token(&invite(2)), [3; 32], "a damaged file");
}

#[test]
fn an_own_key_belongs_to_its_invite() {
    let (_dir, state) = state();
    assert!(state.own_key(&invite(2)).is_none());
    let key = SecretKey::from_bytes([7; 32]);
    state.keep_own_key(&invite(2), &key).unwrap();
    let read = state.own_key(&invite(2)).unwrap();
    assert_eq!(read.public(), key.public());
    assert!(state.own_key(&invite(4)).is_none(), "another invite");
}

#[cfg(unix)]
#[test]
fn other_users_can_read_nothing() {
    use std::os::unix::fs::PermissionsExt;
    let (_dir, state) = state();
    state.keep_token(&invite(2), &[1; 32]).unwrap();
    state.keep_control_token(&"0a".repeat(32)).unwrap();
    assert_eq!(state.control_token(), Some("0a".repeat(32)));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(state.path()), 0o700);
    assert_eq!(mode(&state.path().join("token")), 0o600);
    assert_eq!(mode(&state.path().join(CONTROL_TOKEN)), 0o600);
}

#[test]
fn a_damaged_invite_is_distinguished_from_a_missing_one() {
    let (_dir, state) = state();
    assert!(matches!(state.invite(), Err(InviteError::Missing { .. })));
    let line = invite(2).to_line();
    fs::write(state.path().join("invite"), &line[..line.len() - 5]).unwrap();
    assert!(matches!(state.invite(), Err(InviteError::Damaged { .. })));
    fs::write(state.path().join("invite"), format!("{line}\n")).unwrap();
    assert_eq!(state.invite().unwrap().to_line(), line);
}

#[test]
fn the_control_address_is_published_and_withdrawn() {
    let (_dir, state) = state();
    assert_eq!(state.published(), None);
    let mut agent = AgentFile {
        proxy: "127.0.0.1:3128".parse().unwrap(),
        control: "127.0.0.1:3129".parse().unwrap(),
        pid: std::process::id() + 1,
        version: "1".to_owned(),
    };
    state.publish(&agent).unwrap();
    state.withdraw();
    assert_eq!(
        state.published().as_ref(),
        Some(&agent),
        "it belongs to another process"
    );
    agent.pid = std::process::id();
    state.publish(&agent).unwrap();
    state.withdraw();
    assert_eq!((state.published(), state.control_token()), (None, None));
}

//! Settings of who is served.
use super::*;

#[test]
fn access_settings_are_read_from_all_layers() {
    let none = Environment::default();
    let load = resolve_with;
    let own = crate::listener::UserId::own();
    let plain = load(&flags(), &none, "listen = '127.0.0.1:1'").unwrap();
    assert_eq!(plain.access.users().collect::<Vec<_>>(), [own]);
    assert!(!plain.access.has_passwords() && plain.direct_allow.is_empty());
    let table = "[listen]\naddress = '127.0.0.1:1'\nusers = ['4000001', '4000002']\nallow = ['10.0.0.0/8']\n\
                 [direct]\nallow = '127.0.0.1, ::1'";
    let config = load(&flags(), &none, table).unwrap();
    assert_eq!(config.listen.port(), 1);
    assert_eq!(config.access.users().count(), 3);
    assert_eq!(config.access.ranges().len(), 1);
    assert_eq!(config.direct_allow.len(), 2);
    let environment = Environment::from([
        ("LONGHAUL_LISTEN", "127.0.0.1:2"),
        ("LONGHAUL_LISTEN_USERS", "4000003"),
    ]);
    let given = flags().with(&settings::DIRECT_ALLOW, "10.0.0.1");
    let config = load(&given, &environment, table).unwrap();
    assert_eq!((config.listen.port(), config.access.users().count()), (2, 2));
    assert_eq!(config.direct_allow.len(), 1);
    for (wrong, key) in [
        ("[listen]\nusers = ['no-such-user-anywhere']", "listen.users"),
        ("[listen]\nallow = ['10.0.0.1/8']", "listen.allow"),
        (
            "[listen]\npassword-file = '/nowhere/at/all'",
            "listen.password-file",
        ),
        ("[direct]\nallow = ['localhost']", "direct.allow"),
        ("[listen]\naddress = 3128", "listen"),
    ] {
        let mistakes = load(&flags(), &none, wrong).unwrap_err();
        assert_eq!(
            places(&mistakes),
            [format!("line 2: {key}")],
            "{wrong}: {mistakes}"
        );
    }
    assert!(load(&flags(), &none, "[listen]\nuser = 'x'").is_err());
}

#[test]
fn a_port_for_other_machines_needs_ranges_and_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("passwords");
    std::fs::write(&path, "me:a long password\n").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for address in [
        "0.0.0.0:1",
        "[::]:1",
        "[::ffff:0.0.0.0]:1",
        "192.0.2.1:1",
        "[2001:db8::1]:1",
    ] {
        let given = |allow: Option<&str>, has_passwords: bool| {
            let mut flags = flags().with(&settings::LISTEN, address);
            if let Some(allow) = allow {
                flags.set(&settings::LISTEN_ALLOW, allow);
            }
            if has_passwords {
                flags.set(&settings::LISTEN_PASSWORD_FILE, path.to_str().unwrap());
            }
            flags
        };
        let load = |flags| resolve(&flags, &Environment::default()).map(|(config, _)| config);
        for incomplete in [
            given(None, false),
            given(Some("10.0.0.0/8"), false),
            given(None, true),
            given(Some(" "), true),
        ] {
            let mistakes = load(incomplete).unwrap_err();
            assert_eq!(places(&mistakes), ["flag --listen: listen"]);
            assert!(
                mistakes.to_string().contains("listen.password-file"),
                "{mistakes}"
            );
        }
        let config = load(given(Some("10.0.0.0/8"), true)).unwrap();
        assert!(config.to_string().contains("with a password"), "{config}");
    }
    for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let flags = flags().with(&settings::LISTEN, address);
        assert!(resolve(&flags, &Environment::default()).is_ok());
    }
}

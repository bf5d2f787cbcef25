use longhaul_types::SecretKey;

use super::*;

fn line() -> String {
    let gateway = SecretKey::from_bytes([1; 32]).public();
    Invite::new(
        "gw.test:4433".to_owned(),
        gateway,
        SecretKey::from_bytes([2; 32]),
        [3; 32],
    )
    .unwrap()
    .to_line()
}

fn flags() -> ConfigFlags {
    ConfigFlags {
        state_dir: Some("/nowhere".into()),
        invite: Some(line()),
        ..ConfigFlags::default()
    }
}

fn file(text: &str) -> ConfigFile {
    toml::from_str(text).unwrap()
}

#[test]
fn defaults_hold_where_nothing_is_said() {
    let config = resolve(
        &flags(),
        &Environment::default(),
        &ConfigFile::default(),
        Vec::new(),
    )
    .unwrap();
    assert_eq!(config.listen, DEFAULT_LISTEN.parse().unwrap());
    assert_eq!(config.control, DEFAULT_CONTROL.parse().unwrap());
    assert_eq!(config.fallback, Fallback::After(DEFAULT_FALLBACK));
    assert_eq!(config.link, None);
    assert_eq!(config.images, ImageLevel::Medium);
    assert_eq!(config.invite.address(), "gw.test:4433");
}

#[test]
fn flags_beat_environment_beats_file() {
    let file =
        file("listen = '127.0.0.1:1'\ncontrol = '127.0.0.1:1'\nlink = 'lte'\n[fallback]\nafter = '1min'");
    let environment = Environment::from([
        ("LONGHAUL_LISTEN", "127.0.0.1:2"),
        ("LONGHAUL_CONTROL", "127.0.0.1:2"),
    ]);
    let flags = ConfigFlags {
        listen: Some("127.0.0.1:3".to_owned()),
        ..flags()
    };
    let config = resolve(&flags, &environment, &file, Vec::new()).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.control.port(), 2);
    assert_eq!(config.link, Some("lte".parse().unwrap()));
    assert_eq!(config.fallback, Fallback::After(Duration::from_secs(60)));
    let environment = Environment::from([
        ("LONGHAUL_FALLBACK_AFTER", "never"),
        ("LONGHAUL_IMAGE_LEVEL", "low"),
    ]);
    let config = resolve(&flags, &environment, &file, Vec::new()).unwrap();
    assert_eq!(
        (config.fallback, config.images),
        (Fallback::Never, ImageLevel::Low)
    );
}

#[test]
fn all_problems_are_told_at_once() {
    let file = file("listen = 3128\nlink = 'fast'\nimage-level = 'tiny'\n[fallback]\nafter = '10'");
    let environment = Environment::from([("LONGHAUL_CONTROL", "0.0.0.0:3129")]);
    let flags = ConfigFlags {
        invite: Some("longhaul1:abc".to_owned()),
        ..flags()
    };
    let ConfigError(problems) = resolve(&flags, &environment, &file, Vec::new()).unwrap_err();
    let mut places: Vec<&str> = problems.iter().map(|problem| problem.place.as_str()).collect();
    places.sort_unstable();
    assert_eq!(
        places,
        [
            "--invite",
            "LONGHAUL_CONTROL",
            "`fallback.after` in the file",
            "`image-level` in the file",
            "`link` in the file",
            "`listen` in the file"
        ]
    );
}

#[test]
fn bare_integers_and_unknown_keys_are_refused() {
    let bare = file("[fallback]\nafter = 10");
    let ConfigError(problems) = resolve(&flags(), &Environment::default(), &bare, Vec::new()).unwrap_err();
    assert!(problems[0].what.contains("unit"), "{problems:?}");
    assert!(toml::from_str::<ConfigFile>("lissten = '127.0.0.1:1'").is_err());
    assert!(toml::from_str::<ConfigFile>("[fallback]\nafter = '1s'\nbefore = '1s'").is_err());
}

#[test]
fn the_missing_invite_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ConfigFlags {
        state_dir: Some(dir.path().into()),
        ..ConfigFlags::default()
    };
    let error = resolve(
        &flags,
        &Environment::default(),
        &ConfigFile::default(),
        Vec::new(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("longhaul enroll"), "{error}");
    std::fs::write(dir.path().join("invite"), format!("{}\n", line())).unwrap();
    assert!(
        resolve(
            &flags,
            &Environment::default(),
            &ConfigFile::default(),
            Vec::new()
        )
        .is_ok()
    );
}

#[test]
fn the_state_directory_follows_xdg() {
    let home = Environment::from([("HOME", "/home/u")]);
    assert_eq!(
        default_state_dir(&home),
        Some("/home/u/.local/state/longhaul-agent".into())
    );
    let xdg = Environment::from([("HOME", "/home/u"), ("XDG_STATE_HOME", "/var/state")]);
    assert_eq!(default_state_dir(&xdg), Some("/var/state/longhaul-agent".into()));
    let relative = Environment::from([("HOME", "/home/u"), ("XDG_STATE_HOME", "state")]);
    assert_eq!(
        default_state_dir(&relative),
        Some("/home/u/.local/state/longhaul-agent".into())
    );
    assert_eq!(default_state_dir(&Environment::default()), None);
}

#[test]
fn cache_and_push_are_set_in_all_layers() {
    let none = Environment::default();
    let config = resolve(&flags(), &none, &ConfigFile::default(), Vec::new()).unwrap();
    assert_eq!(config.cache.size, DEFAULT_CACHE_SIZE);
    assert_eq!(config.cache.dir, PathBuf::from("/nowhere/cache"));
    assert_eq!(config.push, PushSettings::default());
    let written =
        file("[cache]\nsize = '64 MiB'\ndir = '/elsewhere'\n[push]\nenabled = false\npatience = '8s'");
    let config = resolve(&flags(), &none, &written, Vec::new()).unwrap();
    assert_eq!(
        (config.cache.size, config.cache.dir),
        (ByteCount::mib(64), "/elsewhere".into())
    );
    assert_eq!(
        (config.push.enabled, config.push.patience),
        (false, Duration::from_secs(8))
    );
    let environment = Environment::from([("LONGHAUL_CACHE_SIZE", "0"), ("LONGHAUL_PUSH_ENABLED", "yes")]);
    let config = resolve(&flags(), &environment, &written, Vec::new()).unwrap();
    assert_eq!((config.cache.size, config.push.enabled), (ByteCount::ZERO, true));
    let given = ConfigFlags {
        cache_size: Some("2 MiB".to_owned()),
        no_push: true,
        ..flags()
    };
    let config = resolve(&given, &environment, &written, Vec::new()).unwrap();
    assert_eq!(
        (config.cache.size, config.push.enabled),
        (ByteCount::mib(2), false)
    );
    assert!(config.to_string().contains("push      off"));
    for (wrong, key) in [
        ("[cache]\nsize = '12'", "cache.size"),
        ("[cache]\nsize = '1 kB'", "cache.size"),
        ("[push]\nenabled = 'perhaps'", "push.enabled"),
        ("[push]\npatience = '0s'", "push.patience"),
    ] {
        let ConfigError(problems) = resolve(&flags(), &none, &file(wrong), Vec::new()).unwrap_err();
        assert!(
            problems.len() == 1 && problems[0].place.contains(key),
            "{wrong}: {problems:?}"
        );
    }
}

#[test]
fn cookies_travel_in_early_data_unless_that_is_turned_off() {
    let of = |flag: Option<&str>, variable: &str, text: &str| {
        let flags = ConfigFlags {
            session_early_credentials: flag.map(str::to_owned),
            ..flags()
        };
        let environment = Environment::from([("LONGHAUL_SESSION_EARLY_CREDENTIALS", variable)]);
        resolve(&flags, &environment, &file(text), Vec::new()).map(|config| config.early_credentials)
    };
    let off = "[session]\nearly-credentials = false";
    assert_eq!(of(None, "", ""), Ok(EarlyCredentials::Allowed));
    assert_eq!(of(None, "", off), Ok(EarlyCredentials::Withheld));
    assert_eq!(of(None, "yes", off), Ok(EarlyCredentials::Allowed));
    assert_eq!(of(Some("no"), "yes", ""), Ok(EarlyCredentials::Withheld));
    let ConfigError(problems) = of(Some("never"), "", "").unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].place, "--session-early-credentials");
}

#[test]
fn https_is_accelerated_only_by_choice() {
    use crate::https::Accelerate;
    let https = |flag: Option<&str>, text: &str| {
        let flags = ConfigFlags {
            https_accelerate: flag.map(str::to_owned),
            ..flags()
        };
        resolve(&flags, &Environment::default(), &file(text), Vec::new()).map(|config| config.https)
    };
    assert_eq!(https(None, "").unwrap().accelerate, Accelerate::Off);
    let listed = https(
        None,
        "[https]\naccelerate = ['A.test', '*.b.test']\nexcept = 'c.a.test'",
    )
    .unwrap();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(listed.accelerate, Accelerate::Only(names(&["a.test", "b.test"])));
    assert_eq!(listed.except, names(&["c.a.test"]));
    let all = https(Some("all"), "[https]\naccelerate = ['a.test']").unwrap();
    assert_eq!(all.accelerate, Accelerate::All);
    assert!(https(Some("https://a.test/"), "").is_err());
}

#[test]
fn who_is_served_is_set_in_all_layers() {
    let none = Environment::default();
    let load = |flags: &ConfigFlags, environment: &Environment, text: &str| {
        resolve(flags, environment, &file(text), Vec::new())
    };
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
    let given = ConfigFlags {
        direct_allow: Some("10.0.0.1".to_owned()),
        ..flags()
    };
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
        let ConfigError(problems) = load(&flags(), &none, wrong).unwrap_err();
        assert!(
            problems.len() == 1 && problems[0].place.contains(key),
            "{wrong}: {problems:?}"
        );
    }
    assert!(toml::from_str::<ConfigFile>("[listen]\nuser = 'x'").is_err());
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
        let given = |allow: Option<&str>, has_passwords: bool| ConfigFlags {
            listen: Some(address.to_owned()),
            listen_allow: allow.map(str::to_owned),
            listen_password_file: has_passwords.then(|| path.clone()),
            ..flags()
        };
        let load = |flags| {
            resolve(
                &flags,
                &Environment::default(),
                &ConfigFile::default(),
                Vec::new(),
            )
        };
        for incomplete in [
            given(None, false),
            given(Some("10.0.0.0/8"), false),
            given(None, true),
            given(Some(" "), true),
        ] {
            let ConfigError(problems) = load(incomplete).unwrap_err();
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert_eq!(problems[0].place, "--listen");
            assert!(problems[0].what.contains("listen.password-file"), "{problems:?}");
        }
        let config = load(given(Some("10.0.0.0/8"), true)).unwrap();
        assert!(config.to_string().contains("with a password"), "{config}");
    }
    for address in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        let flags = ConfigFlags {
            listen: Some(address.to_owned()),
            ..flags()
        };
        assert!(
            resolve(
                &flags,
                &Environment::default(),
                &ConfigFile::default(),
                Vec::new()
            )
            .is_ok()
        );
    }
}

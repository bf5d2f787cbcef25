use super::*;

#[test]
fn a_client_is_admitted_with_its_password_until_it_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
    let password = Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let other = Clients::add(&state, &key, "bob", SystemTime::UNIX_EPOCH).unwrap();
    assert_ne!(password, other);
    assert_eq!(password.len(), 32);
    let list = Clients::load(&state).unwrap();
    let (ann, level) = list.admit(&key, "ann", &password).unwrap();
    assert!(list.contains(ann) && level.is_none());
    for (name, tried) in [
        ("ann", &*other),
        ("bob", &password),
        ("eve", &password),
        ("ann", ""),
    ] {
        assert_eq!(list.admit(&key, name, tried), None, "{name} {tried}");
    }
    let elsewhere = PasswordKey::derived_from(&SecretKey::from_bytes([8; 32]));
    assert_eq!(list.admit(&elsewhere, "ann", &password), None);
    let text = fs::read_to_string(state.file(FILE)).unwrap();
    assert!(!text.contains(&password));
    Clients::remove(&state, "ann").unwrap();
    let list = Clients::load(&state).unwrap();
    assert!(list.admit(&key, "ann", &password).is_none() && !list.contains(ann));
    let password = Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let list = Clients::load(&state).unwrap();
    let (another, _) = list.admit(&key, "ann", &password).unwrap();
    assert!(
        another != ann && !list.contains(ann),
        "the name of a removed client"
    );
}

#[test]
fn a_client_may_have_a_level_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
    let password = Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let level = || {
        let (_, level) = Clients::load(&state).unwrap().admit(&key, "ann", &password)?;
        level
    };
    assert_eq!(level(), None);
    Clients::set_level(&state, "ann", Some(ImageLevel::Low)).unwrap();
    assert_eq!(level(), Some(ImageLevel::Low));
    Clients::set_level(&state, "ann", None).unwrap();
    assert_eq!(level(), None);
    let unknown = Clients::set_level(&state, "bob", None);
    assert!(matches!(unknown, Err(ClientsError::Unknown(_))));
    Clients::set_level(&state, "ann", Some(ImageLevel::High)).unwrap();
    let text = fs::read_to_string(state.file(FILE)).unwrap();
    fs::write(state.file(FILE), text.replace("high", "higher")).unwrap();
    assert!(matches!(Clients::load(&state), Err(ClientsError::Damaged { .. })));
}

#[test]
fn a_client_may_have_a_quota_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
    Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let text = || fs::read_to_string(state.file(FILE)).unwrap();
    assert!(
        !text().contains("quota"),
        "older gateways refuse the key, so that it is written only if needed"
    );
    for month in [
        Limit::Of(ByteCount::kb(5_000_000)),
        Limit::Unlimited,
        Limit::Default,
    ] {
        Clients::set_month(&state, "ann", month).unwrap();
        let list = Clients::load(&state).unwrap();
        assert_eq!(list.iter().next().map(NamedClient::month), Some(month));
    }
    let unknown = Clients::set_month(&state, "bob", Limit::Unlimited);
    assert!(matches!(unknown, Err(ClientsError::Unknown(_))));
    Clients::set_month(&state, "ann", Limit::Unlimited).unwrap();
    fs::write(state.file(FILE), text().replace("\"none\"", "\"much\"")).unwrap();
    assert!(matches!(Clients::load(&state), Err(ClientsError::Damaged { .. })));
}

#[test]
fn unusable_names_and_damaged_lists_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(&dir.path().join("state")).unwrap();
    let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
    for name in ["", "a:b", "a b", "\u{e4}", &"x".repeat(65)] {
        let added = Clients::add(&state, &key, name, SystemTime::UNIX_EPOCH);
        assert!(matches!(added, Err(ClientsError::Name(_))), "{name}");
    }
    assert!(matches!(
        Clients::remove(&state, "ann"),
        Err(ClientsError::Unknown(_))
    ));
    Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let again = Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH);
    assert!(matches!(again, Err(ClientsError::Taken(_))));
    for text in [
        "client = 1",
        "[[client]]\nname = \"a\"\nadded = \"\"\npassword = \"x\"\n",
    ] {
        fs::write(state.file(FILE), text).unwrap();
        assert!(
            matches!(Clients::load(&state), Err(ClientsError::Damaged { .. })),
            "{text}"
        );
    }
}

#[test]
fn a_list_that_cannot_be_read_is_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    assert_eq!(Clients::load(&state).unwrap().iter().count(), 0);
    fs::create_dir(state.file(FILE)).unwrap();
    let error = Clients::load(&state).unwrap_err();
    assert!(
        matches!(error, ClientsError::State(StateError::Read { .. })),
        "{error}"
    );
}

#[test]
fn a_list_has_a_maximum_length() {
    let dir = tempfile::tempdir().unwrap();
    let state = StateDir::open(dir.path()).unwrap();
    let key = PasswordKey::derived_from(&SecretKey::from_bytes([7; 32]));
    Clients::add(&state, &key, "ann", SystemTime::UNIX_EPOCH).unwrap();
    let entry = fs::read_to_string(state.file(FILE)).unwrap();
    let list = |count: usize| -> String {
        (0..count)
            .map(|index| entry.replace("ann", &format!("ann{index}")))
            .collect()
    };
    fs::write(state.file(FILE), list(MAX_CLIENTS)).unwrap();
    assert_eq!(Clients::load(&state).unwrap().iter().count(), MAX_CLIENTS);
    fs::write(state.file(FILE), list(MAX_CLIENTS + 1)).unwrap();
    let error = Clients::load(&state).unwrap_err().to_string();
    assert!(error.contains("more than 1000"), "{error}");
}

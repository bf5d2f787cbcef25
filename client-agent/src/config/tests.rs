mod access;
mod descriptions;

use std::path::Path;

use clap::Parser as _;
use longhaul_settings::{Configured as _, Mistake, Mistakes, Source};
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
    ConfigFlags::default()
        .with(&settings::STATE_DIR, "/nowhere")
        .with(&settings::INVITE, &line())
}

/// Resolves the settings with a file of this text.
fn resolve_with(flags: &ConfigFlags, environment: &Environment, text: &str) -> Result<Config, Mistakes> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, text).unwrap();
    let mut flags = flags.clone();
    flags.config = Some(path);
    resolve(&flags, environment).map(|(config, _)| config)
}

/// Source and key of each mistake, sorted. A file is shown by its line.
fn places(mistakes: &Mistakes) -> Vec<String> {
    let place = |mistake: &Mistake| {
        let source = match mistake.source_of_value().unwrap() {
            Source::File { line, .. } => format!("line {line}"),
            other @ (Source::Default | Source::Flag(_) | Source::Variable(_)) => other.to_string(),
        };
        format!("{source}: {}", mistake.key().unwrap())
    };
    let mut places: Vec<_> = mistakes.list.iter().map(place).collect();
    places.sort_unstable();
    places
}

#[test]
fn settings_without_a_value_have_their_default() {
    let (config, report) = resolve(&flags(), &Environment::default()).unwrap();
    assert_eq!(config.listen, "127.0.0.1:3128".parse().unwrap());
    assert_eq!(config.control, "127.0.0.1:3129".parse().unwrap());
    assert_eq!(config.fallback, Fallback::After(DEFAULT_FALLBACK));
    assert_eq!(config.link, None);
    assert_eq!(config.images, ImageLevel::Medium);
    assert_eq!(config.invite.address(), "gw.test:4433");
    let defaults = report
        .settings
        .iter()
        .filter(|setting| setting.source == Source::Default);
    assert_eq!(defaults.count(), Agent::PROGRAM.settings.len() - 2);
}

#[test]
fn flags_beat_environment_beats_file() {
    let file = "listen = '127.0.0.1:1'\ncontrol = '127.0.0.1:1'\nlink = 'lte'\n[fallback]\nafter = '1min'";
    let environment = Environment::from([
        ("LONGHAUL_LISTEN", "127.0.0.1:2"),
        ("LONGHAUL_CONTROL", "127.0.0.1:2"),
    ]);
    let flags = flags().with(&settings::LISTEN, "127.0.0.1:3");
    let config = resolve_with(&flags, &environment, file).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.control.port(), 2);
    assert_eq!(config.link, Some("lte".parse().unwrap()));
    assert_eq!(config.fallback, Fallback::After(Duration::from_secs(60)));
    let environment = Environment::from([
        ("LONGHAUL_FALLBACK_AFTER", "never"),
        ("LONGHAUL_IMAGE_LEVEL", "low"),
    ]);
    let config = resolve_with(&flags, &environment, file).unwrap();
    assert_eq!(
        (config.fallback, config.images),
        (Fallback::Never, ImageLevel::Low)
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let file = "listen = 3128\nlink = 'fast'\nimage-level = 'tiny'\n[fallback]\nafter = '10'\nbefore = 1";
    let environment = Environment::from([("LONGHAUL_CONTROL", "0.0.0.0:3129")]);
    let flags = flags().with(&settings::INVITE, "longhaul1:abc");
    let mistakes = resolve_with(&flags, &environment, file).unwrap_err();
    assert_eq!(
        places(&mistakes),
        [
            "environment variable LONGHAUL_CONTROL: control",
            "flag --invite: invite",
            "line 1: listen",
            "line 2: link",
            "line 3: image-level",
            "line 5: fallback.after",
            "line 6: fallback.before",
        ]
    );
    let text = mistakes.to_string();
    for part in [
        "has 7 problems:",
        "agent.toml:1: listen: a text is needed, not a number",
        "write an address and port, such as `127.0.0.1:3128`",
        "agent.toml:3: image-level: `tiny` is none of",
        "write `original`, `high`, `medium`, `low` or `text`",
        "agent.toml:6: unknown key `fallback.before` (did you mean `fallback.after`?)",
        "LONGHAUL_CONTROL: control: `0.0.0.0:3129` could be reached from other machines; use 127.0.0.1",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn bare_integers_and_unknown_keys_are_refused() {
    let load = |text: &str| resolve_with(&flags(), &Environment::default(), text);
    let bare = load("[fallback]\nafter = 10").unwrap_err();
    assert!(bare.to_string().contains("unit"), "{bare}");
    assert!(load("lissten = '127.0.0.1:1'").is_err());
    assert!(load("[fallback]\nafter = '1s'\nbefore = '1s'").is_err());
    assert!(load("[fall]").is_err());
}

#[test]
fn the_missing_invite_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let flags = ConfigFlags::default().with(&settings::STATE_DIR, dir.path().to_str().unwrap());
    let error = resolve(&flags, &Environment::default()).unwrap_err();
    assert!(error.to_string().contains("longhaul enroll"), "{error}");
    std::fs::write(dir.path().join("invite"), format!("{}\n", line())).unwrap();
    assert!(resolve(&flags, &Environment::default()).is_ok());
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
fn cache_and_push_settings_are_read_from_all_layers() {
    let none = Environment::default();
    let config = resolve_with(&flags(), &none, "").unwrap();
    assert_eq!(config.cache.size, DEFAULT_CACHE_SIZE);
    assert_eq!(config.cache.dir, PathBuf::from("/nowhere/cache"));
    assert_eq!(config.push, PushSettings::default());
    let written = "[cache]\nsize = '64 MiB'\ndir = '/elsewhere'\n[push]\nenabled = false\npatience = '8s'";
    let config = resolve_with(&flags(), &none, written).unwrap();
    assert_eq!(
        (config.cache.size, config.cache.dir),
        (ByteCount::mib(64), "/elsewhere".into())
    );
    assert_eq!(
        (config.push.enabled, config.push.patience),
        (false, Duration::from_secs(8))
    );
    let environment = Environment::from([("LONGHAUL_CACHE_SIZE", "0"), ("LONGHAUL_PUSH_ENABLED", "yes")]);
    let config = resolve_with(&flags(), &environment, written).unwrap();
    assert_eq!((config.cache.size, config.push.enabled), (ByteCount::ZERO, true));
    let given = parsed(&["--cache-size", "2 MiB", "--no-push"])
        .with(&settings::STATE_DIR, "/nowhere")
        .with(&settings::INVITE, &line());
    let config = resolve_with(&given, &environment, written).unwrap();
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
        let mistakes = resolve_with(&flags(), &none, wrong).unwrap_err();
        assert_eq!(
            places(&mistakes),
            [format!("line 2: {key}")],
            "{wrong}: {mistakes}"
        );
    }
}

#[test]
fn the_log_is_read_from_all_layers_and_a_wrong_filter_is_a_mistake() {
    let none = Environment::default();
    let config = resolve_with(&flags(), &none, "").unwrap();
    assert_eq!((config.log.text(), config.log_format), ("info", LogFormat::Auto));
    let written = "log = 'warn'\nlog-format = 'json'";
    let config = resolve_with(&flags(), &none, written).unwrap();
    assert_eq!((config.log.text(), config.log_format), ("warn", LogFormat::Json));
    let environment = Environment::from([("LONGHAUL_LOG", "debug"), ("LONGHAUL_LOG_FORMAT", "journal")]);
    let config = resolve_with(&flags(), &environment, written).unwrap();
    assert_eq!(
        (config.log.text(), config.log_format),
        ("debug", LogFormat::Journal)
    );
    let given = parsed(&["--log", "warn,longhaul_agent=trace", "--log-format", "text"])
        .with(&settings::STATE_DIR, "/nowhere")
        .with(&settings::INVITE, &line());
    let config = resolve_with(&given, &environment, written).unwrap();
    assert_eq!(
        (config.log.text(), config.log_format),
        ("warn,longhaul_agent=trace", LogFormat::Text)
    );
    assert!(
        config
            .to_string()
            .contains("log       warn,longhaul_agent=trace, text"),
        "{config}"
    );
    let mistakes = resolve_with(&flags(), &none, "log = 'inof'\nlog-format = 'syslog'").unwrap_err();
    assert_eq!(places(&mistakes), ["line 1: log", "line 2: log-format"]);
    assert!(
        mistakes.to_string().contains("`inof` is no severity"),
        "{mistakes}"
    );
}

#[test]
fn cookies_are_sent_in_early_data_unless_disabled() {
    let of = |flag: Option<&str>, variable: &str, text: &str| {
        let flags = flag.map_or_else(flags, |text| {
            flags().with(&settings::SESSION_EARLY_CREDENTIALS, text)
        });
        let environment = Environment::from([("LONGHAUL_SESSION_EARLY_CREDENTIALS", variable)]);
        resolve_with(&flags, &environment, text).map(|config| config.early_credentials)
    };
    let off = "[session]\nearly-credentials = false";
    assert_eq!(of(None, "", ""), Ok(EarlyCredentials::Allowed));
    assert_eq!(of(None, "", off), Ok(EarlyCredentials::Withheld));
    assert_eq!(of(None, "yes", off), Ok(EarlyCredentials::Allowed));
    assert_eq!(of(Some("no"), "yes", ""), Ok(EarlyCredentials::Withheld));
    let mistakes = of(Some("never"), "", "").unwrap_err();
    assert_eq!(
        places(&mistakes),
        ["flag --session-early-credentials: session.early-credentials"]
    );
}

#[test]
fn https_is_not_accelerated_by_default() {
    use crate::https::Accelerate;
    let https = |flag: Option<&str>, text: &str| {
        let flags = flag.map_or_else(flags, |text| flags().with(&settings::HTTPS_ACCELERATE, text));
        resolve_with(&flags, &Environment::default(), text).map(|config| config.https)
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

/// The flags of a command line.
fn parsed(words: &[&str]) -> ConfigFlags {
    let words = ["longhaul-agent", "run"].iter().chain(words);
    let Command::Run(flags) = CliArgs::try_parse_from(words).unwrap().command else {
        panic!("not the command `run`");
    };
    flags
}

#[test]
fn commands_without_settings_find_the_state_directory_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, "state-dir = '/elsewhere'\nlissten = 1\nlink = 'fast'\n").unwrap();
    let named = path.to_str().unwrap();
    let environment = Environment::from([("LONGHAUL_CONFIG", named), ("HOME", "/home/u")]);
    let found = |flag: Option<&str>| load_state_dir(flag.map(Path::new), &environment).unwrap();
    assert_eq!(found(None), Path::new("/elsewhere"));
    assert_eq!(found(Some("/given")), Path::new("/given"));
    let environment = Environment::from([("LONGHAUL_CONFIG", named), ("LONGHAUL_STATE_DIR", "/set")]);
    assert_eq!(load_state_dir(None, &environment).unwrap(), Path::new("/set"));
    std::fs::write(&path, "state-dir = 7\nlink = 'fast'\n").unwrap();
    let environment = Environment::from([("LONGHAUL_CONFIG", named), ("HOME", "/home/u")]);
    let mistakes = load_state_dir(None, &environment).unwrap_err();
    assert_eq!(places(&mistakes), ["line 1: state-dir"]);
}

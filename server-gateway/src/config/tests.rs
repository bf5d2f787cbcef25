use std::path::Path;

use clap::Parser as _;

use super::*;
use crate::cli::CliArgs;

fn args(flags: &[&str]) -> crate::cli::SettingArgs {
    let words = ["longhaul-gateway", "run"]
        .into_iter()
        .chain(flags.iter().copied());
    CliArgs::try_parse_from(words).unwrap().settings
}

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn file(text: &str) -> (tempfile::TempDir, String) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("gateway.toml");
    std::fs::write(&path, text).unwrap();
    (home, path.to_str().unwrap().to_owned())
}

fn source(settings: &[ResolvedSetting], key: &str) -> Source {
    settings
        .iter()
        .find(|setting| setting.key == key)
        .unwrap()
        .source
        .clone()
}

#[test]
fn defaults_are_the_documented_ones() {
    let (config, settings) = resolve(&args(&[]), &environment(&[("HOME", "/home/ann")])).unwrap();
    assert_eq!(config.listen.to_string(), "[::]:4433");
    assert_eq!(
        config.state_dir,
        Path::new("/home/ann/.local/state/longhaul-gateway")
    );
    assert!(config.tunnel.ports.contains(443) && !config.tunnel.ports.contains(25));
    assert_eq!(config.tunnel.idle_timeout, Duration::from_secs(1800));
    assert_eq!(config.cache.size, ByteCount::mib(2048));
    assert_eq!(
        config.cache.dir,
        Path::new("/home/ann/.local/state/longhaul-gateway/cache")
    );
    assert_eq!(config.pictures.memory, ByteCount::mib(256));
    assert_eq!(config.pictures.max_megapixels, 16);
    assert_eq!(config.metrics.listen, None);
    assert_eq!(config.coding.effort, Effort::Link);
    assert_eq!(settings.len(), keys::ALL.len());
    assert!(settings.iter().all(|setting| setting.source == Source::Default));
}

#[test]
fn later_layers_win_key_by_key() {
    let (_home, path) = file(
        "listen = '127.0.0.1:1'\nlog = 'warn'\n[fetch]\nresolve = { '*.test' = '10.79.0.1' }\n\
         response-timeout = '5s'\n[guard]\nallow = ['10.0.0.0/8']\n[tunnel]\nports = [443, '8000-8010']\n",
    );
    let environment = environment(&[("LONGHAUL_LISTEN", "127.0.0.1:2"), ("LONGHAUL_LOG", "debug")]);
    let flags = args(&[
        "--config",
        &path,
        "--listen",
        "127.0.0.1:3",
        "--allow",
        "fd00::/8",
    ]);
    let (config, settings) = resolve(&flags, &environment).unwrap();
    assert_eq!(config.listen.port(), 3);
    assert_eq!(config.log, "debug");
    assert_eq!(config.fetch.response_timeout, Duration::from_secs(5));
    assert_eq!(config.guard.allow, ["fd00::/8".parse().unwrap()]);
    assert!(config.tunnel.ports.contains(8005) && !config.tunnel.ports.contains(80));
    assert_eq!(source(&settings, "listen"), Source::Flag("--listen"));
    assert_eq!(source(&settings, "log"), Source::Environment("LONGHAUL_LOG"));
    assert_eq!(source(&settings, "tunnel.ports"), Source::File(path.into()));
}

#[test]
fn sizes_of_the_cache_have_units_and_bounds() {
    let size = |text: &str| {
        let resolved = resolve(&args(&["--cache-size", text]), &environment(&[]));
        resolved.map(|(config, _)| config.cache.size)
    };
    assert_eq!(size("64 MiB").unwrap(), ByteCount::mib(64));
    assert_eq!(size("0").unwrap(), ByteCount::ZERO);
    for wrong in ["64", "1 MiB", "much"] {
        assert!(size(wrong).is_err(), "{wrong}");
    }
    let (_home, path) = file("[cache]\nsize = 0\n");
    let (config, _) = resolve(&args(&["--config", &path]), &environment(&[])).unwrap();
    assert_eq!(config.cache.size, ByteCount::ZERO);
}

#[test]
fn everything_wrong_is_told_at_once_with_its_source() {
    let (_home, path) =
        file("listen = 4433\n[tunnel]\nidle-timeout = 30\nports = ['0']\n[limits]\nsessions = 0\n");
    let environment = environment(&[
        ("LONGHAUL_GUARD_ALLOW", "10.0.0.1/8"),
        ("LONGHAUL_METRICS_LISTEN", "0.0.0.0:1"),
    ]);
    let flags = args(&["--config", &path, "--resolve", "a.test", "--log", "a=b=c"]);
    let errors = resolve(&flags, &environment).unwrap_err();
    let text = errors.to_string();
    assert_eq!(errors.0.len(), 8, "{text}");
    for part in [
        "gateway.toml: listen: a text is needed",
        "gateway.toml: tunnel.idle-timeout: a duration is a text with its unit",
        "gateway.toml: tunnel.ports: `0` is neither a port",
        "gateway.toml: limits.sessions: a whole number from 1",
        "environment variable LONGHAUL_GUARD_ALLOW: guard.allow: ",
        "environment variable LONGHAUL_METRICS_LISTEN: metrics.listen: ",
        "flag --resolve: fetch.resolve: `a.test` is not NAME=ADDR",
        "flag --log: log: ",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn unknown_keys_and_bad_files_are_refused() {
    let parse = |text: &str| ConfigFile::parse(Path::new("f"), text).unwrap_err();
    let unknown = parse("liste = 'x'\nextra-ca = 'y'\n[fetch]\nextra_ca = 'z'\n[metrics.deep]\na = 1\n");
    let texts: Vec<_> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|text| text == "f: unknown key `extra-ca` (did you mean `fetch.extra-ca`?)")
    );
    assert!(texts.iter().any(|text| text.contains("`metrics.deep`")));
    assert!(matches!(&parse("listen = \n")[..], [ConfigError::File { .. }]));
    let missing = resolve(&args(&["--config", "/nonexistent/file"]), &environment(&[])).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("/nonexistent/file: cannot be read: "),
        "{missing}"
    );
}

#[test]
fn what_is_printed_is_a_configuration_file() {
    let flags = args(&[
        "--resolve",
        "*.test=10.79.0.1:80",
        "--dns",
        "10.0.0.1",
        "--metrics",
        "127.0.0.1:9",
        "--cache-size",
        "1.5 GiB",
    ]);
    let (config, settings) = resolve(&flags, &environment(&[])).unwrap();
    let text = crate::commands::render_settings(&settings);
    let (_home, path) = file(&text);
    let (again, reread) = resolve(&args(&["--config", &path]), &environment(&[])).unwrap();
    assert_eq!(config.fetch.dns, again.fetch.dns);
    assert_eq!(config.fetch.resolve, again.fetch.resolve);
    let values = |settings: &[ResolvedSetting]| settings.iter().map(|s| s.value.clone()).collect::<Vec<_>>();
    assert_eq!(values(&settings), values(&reread), "{text}");
}

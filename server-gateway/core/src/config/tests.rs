use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use longhaul_settings::{Configured as _, FileState, Mistake, Report, Source, reference_table, table_after};

use super::*;

/// The settings on a command line.
#[derive(clap::Parser)]
struct Arguments {
    #[command(flatten)]
    settings: SettingArgs,
}

fn args(flags: &[&str]) -> SettingArgs {
    let words = ["longhaul-gateway"].into_iter().chain(flags.iter().copied());
    Arguments::try_parse_from(words).unwrap().settings
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

fn source(report: &Report, key: &str) -> Source {
    report
        .settings
        .iter()
        .find(|setting| setting.key == key)
        .unwrap()
        .source
        .clone()
}

#[test]
fn defaults_are_the_documented_ones() {
    let (config, report) = resolve(&args(&[]), &environment(&[("HOME", "/home/ann")])).unwrap();
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
    assert_eq!(config.public_address, None);
    assert_eq!(config.coding.effort, EffortPolicy::ByLink);
    let keys: Vec<_> = report.settings.iter().map(|setting| setting.key).collect();
    let described: Vec<_> = Gateway::PROGRAM
        .settings
        .iter()
        .map(|setting| setting.key())
        .collect();
    assert_eq!(keys, described);
    assert!(
        report
            .settings
            .iter()
            .all(|setting| setting.source == Source::Default)
    );
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
    let (config, report) = resolve(&flags, &environment).unwrap();
    assert_eq!(config.listen.first.port(), 3);
    assert_eq!(config.log.text(), "debug");
    assert_eq!(config.fetch.response_timeout, Duration::from_secs(5));
    assert_eq!(config.guard.allow, ["fd00::/8".parse().unwrap()]);
    assert!(config.tunnel.ports.contains(8005) && !config.tunnel.ports.contains(80));
    assert_eq!(source(&report, "listen"), Source::Flag("--listen"));
    assert_eq!(
        source(&report, "log"),
        Source::Variable("LONGHAUL_LOG".to_owned())
    );
    let (path, line) = (path.into(), 9);
    assert_eq!(source(&report, "tunnel.ports"), Source::File { path, line });
}

#[test]
fn the_admin_socket_is_in_the_runtime_directory_or_in_the_state_directory() {
    let socket = |flags: &[&str], variables: &[(&str, &str)]| {
        let (config, report) = resolve(&args(flags), &environment(variables)).unwrap();
        assert!(report.to_toml().contains("admin-socket = "));
        config.admin_socket
    };
    let state = ["--state-dir", "/state"];
    assert_eq!(
        socket(&state, &[]).as_deref(),
        Some(Path::new("/state/admin.sock"))
    );
    let runtime = [("RUNTIME_DIRECTORY", "/run/longhaul-gateway:/run/other")];
    assert_eq!(
        socket(&state, &runtime).as_deref(),
        Some(Path::new("/run/longhaul-gateway/admin.sock"))
    );
    assert_eq!(
        socket(&["--admin-socket", "/x"], &runtime).as_deref(),
        Some(Path::new("/x"))
    );
    assert_eq!(socket(&["--admin-socket", "off"], &runtime), None);
}

#[test]
fn the_public_address_has_a_port() {
    let address = |text: &str| {
        let resolved = resolve(&args(&["--public-address", text]), &environment(&[]));
        resolved.map(|(config, _)| config.public_address)
    };
    for valid in ["gw.example.org:4433", "[2001:db8::1]:443"] {
        assert_eq!(address(valid).unwrap().as_deref(), Some(valid));
    }
    assert_eq!(address("none").unwrap(), None);
    for wrong in ["gw.example.org", "gw.example.org:0", ":4433", "a b:1"] {
        let error = address(wrong).unwrap_err().to_string();
        assert!(error.contains("is not HOST:PORT"), "{error}");
    }
}

#[test]
fn words_that_would_silence_the_log_are_mistakes() {
    let log = |filter: &str| resolve(&args(&["--log", filter]), &environment(&[]));
    let (config, _) = log("warn,longhaul_origin=debug").unwrap();
    assert_eq!(config.log.text(), "warn,longhaul_origin=debug");
    assert_eq!(config.log_format, LogFormat::Auto);
    for wrong in ["inof", "longhaul_gateway", "info,", "longhaul_gateway=loud"] {
        let text = log(wrong).unwrap_err().to_string();
        assert!(
            text.contains("flag --log: log: `") && text.contains("is no severity"),
            "{text}"
        );
    }
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
fn all_mistakes_are_reported_at_once_with_their_source() {
    let (_home, path) =
        file("listen = 4433\n[tunnel]\nidle-timeout = 30\nports = ['0']\n[limits]\nsessions = 0\n");
    let environment = environment(&[
        ("LONGHAUL_GUARD_ALLOW", "10.0.0.1/8"),
        ("LONGHAUL_METRICS_LISTEN", "0.0.0.0:1"),
    ]);
    let flags = args(&["--config", &path, "--resolve", "a.test", "--log", "a=b=c"]);
    let errors = resolve(&flags, &environment).unwrap_err();
    let text = errors.to_string();
    assert_eq!(errors.list.len(), 8, "{text}");
    for part in [
        "gateway.toml:1: listen: a text is needed",
        "gateway.toml:3: tunnel.idle-timeout: a duration is a text with its unit",
        "gateway.toml:4: tunnel.ports: `0` is neither a port",
        "gateway.toml:6: limits.sessions: a whole number from 1",
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
    let parse = |text: &str| {
        let (home, path) = file(text);
        let mistakes = resolve(&args(&["--config", &path]), &environment(&[])).unwrap_err();
        (home, mistakes.list)
    };
    let (home, unknown) =
        parse("liste = 'x'\nextra-ca = 'y'\n[fetch]\nextra_ca = 'z'\n[metrics.deep]\na = 1\n");
    let texts: Vec<_> = unknown.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts.iter().any(|text| {
        text.ends_with("gateway.toml:2: unknown key `extra-ca` (did you mean `fetch.extra-ca`?)")
    }));
    assert!(texts.iter().any(|text| text.contains("`metrics.deep`")));
    drop(home);
    assert!(matches!(&parse("listen = \n").1[..], [Mistake::Syntax { .. }]));
    let missing = resolve(&args(&["--config", "/nonexistent/file"]), &environment(&[])).unwrap_err();
    assert!(
        missing
            .to_string()
            .contains("/nonexistent/file: cannot be read: "),
        "{missing}"
    );
}

#[test]
fn the_printed_configuration_is_a_configuration_file() {
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
    let (config, report) = resolve(&flags, &environment(&[])).unwrap();
    let text = report.to_toml();
    let (_home, path) = file(&text);
    let (again, reread) = resolve(&args(&["--config", &path]), &environment(&[])).unwrap();
    assert_eq!(config.fetch.dns, again.fetch.dns);
    assert_eq!(config.fetch.resolve, again.fetch.resolve);
    let values = |report: &Report| {
        let settings = report.settings.iter();
        settings.map(|setting| setting.value.clone()).collect::<Vec<_>>()
    };
    assert_eq!(values(&report), values(&reread), "{text}");
}

#[test]
fn empty_variables_are_values() {
    let (_home, path) = file("[guard]\nallow = ['10.0.0.0/8']\n");
    let cleared = environment(&[("LONGHAUL_GUARD_ALLOW", "")]);
    let (config, _) = resolve(&args(&["--config", &path]), &cleared).unwrap();
    assert!(config.guard.allow.is_empty());
    let mistakes = resolve(&args(&[]), &environment(&[("LONGHAUL_LISTEN", "")])).unwrap_err();
    assert!(
        mistakes
            .to_string()
            .contains("LONGHAUL_LISTEN: listen: it is empty"),
        "{mistakes}"
    );
}

#[test]
fn the_documentation_has_the_described_settings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    let document = std::fs::read_to_string(path).unwrap();
    let described = reference_table(Gateway::PROGRAM);
    let documented = table_after(&document, "## Gateway (`longhaul-gateway`)");
    assert!(
        documented == described,
        "docs/CONFIGURATION.md differs; the table of the gateway should be:\n{described}"
    );
}

#[test]
fn the_help_has_the_described_flags() {
    let mut command = Arguments::command();
    let help = command.render_long_help().to_string();
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for setting in Gateway::PROGRAM.settings {
        let Some(flag) = setting.flag() else { continue };
        for part in [
            flag.name().to_owned(),
            setting.form().to_string(),
            format!("Variable {}.", setting.variable()),
        ] {
            assert!(words.contains(&part), "`{part}` of {} in\n{help}", setting.key());
        }
    }
}

#[test]
fn each_default_is_a_value_of_its_setting() {
    for setting in Gateway::PROGRAM.settings {
        // Files in the state directory have no default of their own.
        let Some(default) = setting.default_value(&Environment::new()) else {
            continue;
        };
        let (_home, path) = file(&format!("{} = {default}\n", setting.key()));
        let (_, report) = resolve(&args(&["--config", &path]), &Environment::new()).unwrap();
        let found = report.settings.iter().find(|found| found.key == setting.key());
        assert_eq!(found.unwrap().value, Some(default));
        assert_eq!(report.sources.files, [(path.into(), FileState::Read(1))]);
    }
}

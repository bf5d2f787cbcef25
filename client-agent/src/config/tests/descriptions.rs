//! The descriptions of the settings, the output of `check-config`, the help and the documentation agree.
use std::path::Path;

use clap::CommandFactory as _;
use longhaul_settings::{Configured as _, Describe as _, FileState, Flag, reference_table, table_after};

use super::*;

#[test]
fn the_output_of_check_config_is_a_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let words = [
        "--state-dir=/nowhere",
        "--listen-users=4000001,4000002",
        "--link=umts-384",
        "--fallback-after=never",
        "--direct-allow=10.0.0.0/8",
        "--cache-size=0",
        "--https-accelerate=a.test,b.test",
        "--no-push",
    ];
    let flags = parsed(&words).with(&settings::INVITE, &line());
    let (config, report) = resolve(&flags, &Environment::default()).unwrap();
    let text = report.to_toml();
    assert!(!text.contains(&line()), "the invite is a secret");
    std::fs::write(&path, &text).unwrap();
    let mut flags = ConfigFlags::default().with(&settings::INVITE, &line());
    flags.config = Some(path.clone());
    let (again, reread) = resolve(&flags, &Environment::default()).unwrap();
    assert_eq!(config.to_string(), again.to_string(), "{text}");
    for (before, after) in report.settings.iter().zip(&reread.settings) {
        assert_eq!((before.key, &before.value), (after.key, &after.value));
    }
    assert!(matches!(&reread.sources.files[..], [(read, FileState::Read(_))] if *read == path));
}

#[test]
fn the_documentation_has_the_described_settings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/CONFIGURATION.md");
    let document = std::fs::read_to_string(path).unwrap();
    let described = reference_table(Agent::PROGRAM);
    let documented = table_after(&document, "## Agent (`longhaul-agent`)");
    assert!(
        documented == described,
        "docs/CONFIGURATION.md differs; the table of the agent should be:\n{described}"
    );
}

#[test]
fn the_help_has_the_described_flags() {
    let mut command = CliArgs::command();
    for subcommand in ["run", "check-config"] {
        let command = command.find_subcommand_mut(subcommand).unwrap();
        let help = command.render_long_help().to_string();
        let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for setting in Agent::PROGRAM.settings {
            let Some(flag) = setting.flag() else { continue };
            let form = match flag {
                Flag::Switch { meaning, .. } => meaning.to_owned(),
                Flag::Many { .. } | Flag::One { .. } => setting.form().to_string(),
            };
            for part in [
                flag.name().to_owned(),
                form,
                format!("Variable {}", setting.variable()),
            ] {
                assert!(words.contains(&part), "`{part}` of {} in\n{help}", setting.key());
            }
        }
    }
}

#[test]
fn each_default_is_a_value_of_its_setting() {
    let environment = Environment::from([("HOME", "/home/u")]);
    for setting in Agent::PROGRAM.settings {
        let Some(default) = setting.default_value(&environment) else {
            continue;
        };
        let text = format!(
            "{} = {default}\n",
            setting.key_in_section().unwrap_or_else(|| setting.key())
        );
        resolve_with(&flags(), &environment, &text).unwrap();
    }
}

#[test]
fn the_names_of_links_and_levels_are_the_known_ones() {
    let form = settings::LINK.form().to_string();
    for name in LinkProfile::names() {
        assert!(form.contains(name), "{name} in {form}");
    }
    for level in ImageLevel::ALL {
        assert!(settings::IMAGE_LEVEL.form().to_string().contains(level.name()));
    }
}

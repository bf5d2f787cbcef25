//! Manual pages and shell completions, made from the definitions that parse the command line and the settings.
//!
//! The packages contain the files; the programs do not contain this crate.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod command_pages;
mod settings_page;

use std::{fs, io, path::Path};

use clap::{Command, CommandFactory as _};
use clap_complete::{Shell, generate_to};
use longhaul_settings::{Configured as _, Program};

pub use command_pages::{Page, command_pages};
pub use settings_page::settings_page;

/// A command that users run, with the program's settings if it has a configuration file.
#[derive(Clone)]
pub struct Documented {
    /// The definition of the command line.
    pub command: Command,
    /// The settings.
    pub settings: Option<&'static Program>,
}

/// All commands of Longhaul.
pub fn commands() -> [Documented; 4] {
    [
        Documented {
            command: longhaul::cli::CliArgs::command(),
            settings: None,
        },
        Documented {
            command: longhaul_agent::config::CliArgs::command(),
            settings: Some(longhaul_agent::config::Agent::PROGRAM),
        },
        Documented {
            command: longhaul_gateway::cli::CliArgs::command(),
            settings: Some(longhaul_gateway_core::config::Gateway::PROGRAM),
        },
        Documented {
            command: longhaul_bench::cli::Cli::command(),
            settings: None,
        },
    ]
}

/// Writes the manual pages to `man/` and the completions to `bash/`, `zsh/` and `fish/` of a directory, which is
/// created. Within each of them, the files of a command are in a directory of its name.
///
/// # Errors
/// A file cannot be written.
pub fn write(directory: &Path) -> io::Result<()> {
    for documented in commands() {
        let name = documented.command.get_name().to_owned();
        let folder = |kind: &str| {
            let folder = directory.join(kind).join(&name);
            fs::create_dir_all(&folder)?;
            io::Result::Ok(folder)
        };
        let man = folder("man")?;
        for page in command_pages(&documented) {
            fs::write(man.join(&page.file), &page.roff)?;
        }
        if let Some(program) = documented.settings {
            fs::write(man.join(format!("{name}.toml.5")), settings_page(program))?;
        }
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut command = documented.command.clone();
            generate_to(shell, &mut command, &name, folder(&shell.to_string())?)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use longhaul_settings::Environment;

    use super::*;

    /// All commands with their subcommands, except hidden ones, with the names of their pages.
    fn all() -> Vec<(String, Command)> {
        fn add(name: String, command: &Command, found: &mut Vec<(String, Command)>) {
            for below in command.get_subcommands() {
                if !below.is_hide_set() && below.get_name() != "help" {
                    add(format!("{name}-{}", below.get_name()), below, found);
                }
            }
            found.push((name, command.clone()));
        }
        let mut found = Vec::new();
        for documented in commands() {
            add(
                documented.command.get_name().to_owned(),
                &documented.command,
                &mut found,
            );
        }
        found
    }

    /// The text of a page as one searches it: without the marks of roff.
    fn plain(roff: &str) -> String {
        roff.replace("\\-", "-")
            .replace("\\fB", "")
            .replace("\\fI", "")
            .replace("\\fR", "")
            .replace("\\&", "")
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    #[test]
    fn the_synopsis_names_the_values_of_required_flags() {
        let commands = commands();
        let pages = command_pages(commands.last().unwrap());
        let page = pages
            .iter()
            .find(|page| page.file == "longhaul-bench-pages.1")
            .unwrap();
        let text = plain(&page.roff);
        assert!(
            text.contains("longhaul-bench pages [OPTIONS] --link <LINK>"),
            "{text}"
        );
    }

    #[test]
    fn pages_and_completions_have_every_flag() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path()).unwrap();
        for (name, command) in all() {
            let program = name
                .match_indices('-')
                .map(|(at, _)| &name[..at])
                .chain([name.as_str()])
                .rfind(|part| folder.path().join("man").join(part).is_dir())
                .unwrap();
            let page = plain(&read(&folder.path().join(format!("man/{program}/{name}.1"))));
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for flag in shown.filter_map(|argument| argument.get_long()) {
                let flag = format!("--{flag}");
                assert!(page.contains(&flag), "{name}.1 has no {flag}");
                for (shell, file) in [
                    ("bash", format!("{program}.bash")),
                    ("zsh", format!("_{program}")),
                    ("fish", format!("{program}.fish")),
                ] {
                    let completion = read(&folder.path().join(shell).join(program).join(file));
                    let spelled = if shell == "fish" {
                        &flag[2..]
                    } else {
                        flag.as_str()
                    };
                    assert!(
                        completion.contains(spelled),
                        "the completion for {shell} of {name} has no {flag}"
                    );
                }
            }
            for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
                let below = format!("{name}-{}", below.get_name());
                assert!(page.contains(&below), "{name}.1 does not name {below}(1)");
            }
        }
    }

    #[test]
    fn hidden_commands_have_no_page() {
        let pages: Vec<_> = commands().iter().flat_map(command_pages).collect();
        assert!(pages.len() > 25, "{}", pages.len());
        for hidden in ["picture-worker", "bench-worker", "-help"] {
            assert!(!pages.iter().any(|page| page.file.contains(hidden)), "{hidden}");
            assert!(
                !pages
                    .iter()
                    .any(|page| plain(&page.roff).contains(&format!("{hidden}(1)"))),
                "{hidden}"
            );
        }
    }

    #[test]
    fn pages_of_settings_have_every_key_and_default() {
        for program in commands().iter().filter_map(|documented| documented.settings) {
            let page = plain(&settings_page(program));
            for setting in program.settings {
                assert!(page.contains(setting.key()), "{}", setting.key());
                let default = setting.documented_default().replace('`', "");
                assert!(page.contains(&default), "{}: {default}", setting.key());
                assert!(page.contains(&setting.variable()), "{}", setting.variable());
            }
            assert!(page.contains(program.system_file));
        }
    }

    /// Each line with `#` in the configuration file of the package shows a default, and each other line a setting.
    #[test]
    fn the_packaged_configuration_shows_the_defaults() {
        let program = longhaul_gateway_core::config::Gateway::PROGRAM;
        let mut section = String::new();
        let mut shown = 0;
        for line in include_str!("../../packages/longhaul-gateway/gateway.toml").lines() {
            if let Some(name) = line.strip_prefix('[') {
                section = format!("{}.", name.trim_end_matches(']'));
            }
            let comment = line.strip_prefix('#');
            let Some((key, value)) = comment.unwrap_or(line).split_once(" = ") else {
                continue;
            };
            if key.starts_with(' ') {
                continue;
            }
            let key = format!("{section}{key}");
            let setting = program.settings.iter().find(|setting| setting.key() == key);
            let setting = setting.unwrap_or_else(|| panic!("{key} is not a setting"));
            if comment.is_some() {
                let default = setting.default_value(&Environment::new());
                assert_eq!(default.as_deref(), Some(value), "{key}");
                shown += 1;
            } else {
                assert_eq!(
                    (key.as_str(), value),
                    ("state-dir", "\"/var/lib/longhaul-gateway\"")
                );
            }
        }
        assert_eq!(shown, 13);
    }
}

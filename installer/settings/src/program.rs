//! Descriptions of programs.
use std::path::{Path, PathBuf};

use crate::{Describe, Environment};

/// The settings of a program, and the places where it looks for them.
pub struct Program {
    /// Name of the command.
    pub name: &'static str,
    /// The settings, in the order of the documentation.
    pub settings: &'static [&'static dyn Describe],
    /// Settings for measurements, which no user needs: they have no flag, and neither help nor documentation of
    /// settings lists them.
    pub hidden_settings: &'static [&'static dyn Describe],
    /// The configuration file of the machine.
    pub system_file: &'static str,
    /// The configuration file of a user, below the directory of configuration files, if there is one.
    pub user_file: Option<&'static str>,
    /// Meaning of variables that are set and empty.
    pub empty_variables: EmptyVariables,
    /// Variables that the program reads and that are not settings.
    pub other_variables: &'static [&'static str],
    /// Places of the flags on the command line.
    pub flag_scope: FlagScope,
}

/// Meaning of variables that are set and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmptyVariables {
    /// They are not set.
    AreUnset,
    /// They are values: an empty list, or a mistake.
    AreValues,
}

/// Places of the flags on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagScope {
    /// Before or after any subcommand.
    AllCommands,
    /// After the subcommands that use them.
    OneCommand,
}

/// A type that stands for a program, because clap selects arguments by type.
pub trait Configured {
    /// The program.
    const PROGRAM: &'static Program;
}

impl Program {
    /// The files that are read if no other file is named, if they exist; the later one has precedence.
    pub fn default_files(&self, environment: &Environment) -> Vec<PathBuf> {
        let of_user = |name| {
            let directory = environment.user_directory("XDG_CONFIG_HOME", ".config")?;
            Some(directory.join(Path::new(name)))
        };
        let system = PathBuf::from(self.system_file);
        [system]
            .into_iter()
            .chain(self.user_file.and_then(of_user))
            .collect()
    }

    /// The variable's value, by this program's meaning of empty ones.
    pub(crate) fn variable<'a>(&self, environment: &'a Environment, name: &str) -> Option<&'a str> {
        match self.empty_variables {
            EmptyVariables::AreUnset => environment.get_filled(name),
            EmptyVariables::AreValues => environment.get(name),
        }
    }

    /// All settings, hidden ones included.
    pub(crate) fn accepted(&self) -> impl Iterator<Item = &'static dyn Describe> {
        self.settings.iter().chain(self.hidden_settings).copied()
    }

    /// All keys that a file may have.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.accepted()
            .flat_map(|setting| [Some(setting.key()), setting.key_in_section()])
            .flatten()
    }

    /// The setting of a key.
    pub(crate) fn setting(&self, key: &str) -> Option<&'static dyn Describe> {
        self.accepted()
            .find(|setting| setting.key() == key || setting.key_in_section() == Some(key))
    }
}

//! Reports for `check-config`.
use std::{
    fmt::{self, Display},
    path::PathBuf,
};

use crate::{Mistake, Source};

/// An effective setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The key with its section.
    pub key: &'static str,
    /// The value as TOML; `None` if there is none or if it is secret.
    pub value: Option<String>,
    /// Source of the value.
    pub source: Source,
}

/// The files and variables of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// The files, in the order of their layers.
    pub files: Vec<(PathBuf, FileState)>,
    /// The variables whose name begins with `LONGHAUL_`.
    pub variables: Vec<(String, FoundVariable)>,
}

/// State of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// There is no such file, and none is needed.
    Absent,
    /// The file was read; the number of its settings.
    Read(usize),
    /// The file has mistakes, and none of its values was used.
    Unusable,
}

/// A variable that is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundVariable {
    /// The program reads it.
    Read,
    /// The program does not know it; a variable with a similar name.
    Unknown(Option<String>),
}

/// A configuration without mistakes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The effective settings.
    pub settings: Vec<Resolved>,
    /// The files and variables that were read.
    pub sources: Sources,
    /// Mistakes without effect, because a later layer overrides the value.
    pub overridden: Vec<Mistake>,
}

impl Report {
    /// The effective settings as a configuration file, with their sources as comments.
    pub fn to_toml(&self) -> String {
        let section = |setting: &Resolved| setting.key.split_once('.').map_or("", |(section, _)| section);
        let mut settings: Vec<_> = self.settings.iter().collect();
        // A key after a section would belong to the section.
        settings.sort_by_key(|setting| !section(setting).is_empty());
        let mut text = String::new();
        let mut current = "";
        for setting in settings {
            let found = section(setting);
            if found != current {
                text.push_str(&format!("\n[{found}]\n"));
                current = found;
            }
            let key = setting.key.rsplit('.').next().unwrap_or(setting.key);
            let line = match (&setting.value, &setting.source) {
                (Some(value), source) => format!("{key} = {value} # {source}\n"),
                (None, Source::Default) => format!("# {key} is not set\n"),
                (None, source) => format!("# {key} is set # {source}\n"),
            };
            text.push_str(&line);
        }
        text
    }
}

/// Lists the files and variables, one per line.
impl Display for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, state) in &self.files {
            let path = path.display();
            match state {
                FileState::Absent => writeln!(f, "file {path}: does not exist")?,
                FileState::Read(1) => writeln!(f, "file {path}: read, 1 setting")?,
                FileState::Read(count) => writeln!(f, "file {path}: read, {count} settings")?,
                FileState::Unusable => writeln!(f, "file {path}: not usable")?,
            }
        }
        for (name, found) in &self.variables {
            match found {
                FoundVariable::Read => writeln!(f, "environment variable {name}: read")?,
                FoundVariable::Unknown(None) => {
                    writeln!(f, "environment variable {name}: not a setting of this program")?;
                }
                FoundVariable::Unknown(Some(meant)) => writeln!(
                    f,
                    "environment variable {name}: not a setting of this program (did you mean {meant}?)"
                )?,
            }
        }
        Ok(())
    }
}

/// Lists the files and variables, and the mistakes without effect.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.sources.fmt(f)?;
        self.overridden
            .iter()
            .try_for_each(|mistake| writeln!(f, "without effect, because it is overridden: {mistake}"))
    }
}

//! Mistakes of a configuration.
use std::{
    error::Error,
    fmt::{self, Display},
    path::PathBuf,
};

use crate::{Form, Source, Sources};

/// A value that a setting does not accept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    problem: String,
    action: Action,
}

/// The action that a user should take.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    /// The problem's text contains it.
    Included,
    /// Another action than a value of the setting's form.
    Other(String),
    /// Write a value of the setting's form.
    WriteForm,
}

impl Wrong {
    /// A problem that a value of the setting's form solves.
    pub fn new(problem: impl Display) -> Self {
        Self {
            problem: problem.to_string(),
            action: Action::WriteForm,
        }
    }

    /// A problem whose text contains the action to take.
    pub fn explained(problem: impl Display) -> Self {
        Self {
            problem: problem.to_string(),
            action: Action::Included,
        }
    }

    /// The same problem with another action.
    #[must_use]
    pub fn instead(self, action: impl Display) -> Self {
        Self {
            action: Action::Other(action.to_string()),
            ..self
        }
    }

    /// The problem, without an action that is not part of its text.
    pub fn problem(&self) -> &str {
        &self.problem
    }

    /// The problem and the action.
    pub(crate) fn text(&self, form: &Form) -> String {
        match &self.action {
            Action::Included => self.problem.clone(),
            Action::Other(action) => format!("{}; {action}", self.problem),
            Action::WriteForm => format!("{}; write {form}", self.problem),
        }
    }
}

/// One mistake of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Mistake {
    /// A file cannot be read.
    #[error("{path}: cannot be read: {problem}", path = path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The cause, and the action to take.
        problem: String,
    },
    /// A file contains something that is not TOML.
    #[error("{source_text}: {problem}", source_text = at)]
    Syntax {
        /// The line.
        at: Source,
        /// The error, with an excerpt of the file.
        problem: String,
    },
    /// A file contains an unknown key.
    #[error("{source_text}: unknown key `{key}`{hint}", source_text = at)]
    UnknownKey {
        /// The line.
        at: Source,
        /// The key with its section.
        key: String,
        /// A suggestion.
        hint: String,
    },
    /// A value is missing, or a setting does not accept it.
    #[error("{place}{key}: {problem}", place = place(from))]
    Value {
        /// The key with its section.
        key: &'static str,
        /// Source of the value.
        from: Source,
        /// The problem, and the action to take.
        problem: String,
    },
}

fn place(source: &Source) -> String {
    match source {
        Source::Default => String::new(),
        Source::File { .. } | Source::Flag(_) | Source::Variable(_) => format!("{source}: "),
    }
}

impl Mistake {
    /// The setting with the mistake; `None` if the mistake concerns a file.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::File { .. } | Self::Syntax { .. } => None,
            Self::UnknownKey { key, .. } => Some(key),
            Self::Value { key, .. } => Some(key),
        }
    }

    /// Source of the mistake; `None` if a whole file cannot be read.
    pub fn source_of_value(&self) -> Option<&Source> {
        match self {
            Self::File { .. } => None,
            Self::Syntax { at, .. } | Self::UnknownKey { at, .. } => Some(at),
            Self::Value { from, .. } => Some(from),
        }
    }
}

/// All mistakes of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes {
    /// The mistakes: those of files first, then in the order of the settings.
    pub list: Vec<Mistake>,
    /// The files and variables that were read.
    pub sources: Sources,
}

impl Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.list.as_slice() {
            [one] => write!(f, "the configuration has a problem: {one}"),
            many => {
                write!(f, "the configuration has {} problems:", many.len())?;
                many.iter().try_for_each(|mistake| {
                    let text = mistake.to_string().replace('\n', "\n    ");
                    write!(f, "\n  {text}")
                })
            }
        }
    }
}

impl Error for Mistakes {}

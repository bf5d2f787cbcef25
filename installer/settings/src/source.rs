//! Sources of values.
use std::{
    fmt::{self, Display},
    path::PathBuf,
};

/// Source of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The built-in default.
    Default,
    /// A line of a file.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line; the first is 1.
        line: usize,
    },
    /// A flag of the command line.
    Flag(&'static str),
    /// A variable of the environment.
    Variable(String),
}

impl Source {
    /// The line in a file.
    pub(crate) const fn line(&self) -> Option<usize> {
        match self {
            Self::File { line, .. } => Some(*line),
            Self::Default | Self::Flag(_) | Self::Variable(_) => None,
        }
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Variable(name) => write!(f, "environment variable {name}"),
        }
    }
}

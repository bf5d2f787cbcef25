//! Errors of applying and undoing changes.
use std::{
    io,
    path::{Path, PathBuf},
};

use crate::step::CommandLine;

/// Errors of one change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A file or directory cannot be read or written.
    #[error("{} cannot be {done}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// `read`, `written` or `removed`.
        done: &'static str,
        /// Cause reported by the system.
        source: io::Error,
    },
    /// The file of another program has a form that cannot be edited.
    #[error("{} was not changed: {why}", path.display())]
    Unsuitable {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A program of the system is missing.
    #[error("`{program}` is not installed{}", package.map_or_else(String::new, |package| format!(": install the package {package}")))]
    NotInstalled {
        /// The program.
        program: String,
        /// Debian's package, if known.
        package: Option<&'static str>,
    },
    /// A command cannot be run or fails.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// The command.
        command: CommandLine,
        /// Its message.
        reason: String,
    },
    /// The command succeeded, but the change is not in effect.
    #[error("the change did not take effect")]
    NoEffect,
    /// The journal is damaged.
    #[error("{} is damaged: {source}; Longhaul cannot undo from it", path.display())]
    Journal {
        /// The journal's file.
        path: PathBuf,
        /// The error in the file.
        source: serde_json::Error,
    },
}

impl ChangeError {
    /// Returns a function that adds path and verb to an error of the system.
    pub(crate) fn file(path: &Path, done: &'static str) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, done, source }
    }
}

//! What makes a directory unfit for a program's keys.
use std::{io, path::PathBuf};

/// Others could replace what is in a directory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotPrivate {
    /// The directory, or one that contains it, belongs to another user.
    #[error(
        "{} belongs to the user with the number {owner}, who could replace the keys: give it to this user, or choose another \
         directory with --state-dir", path.display()
    )]
    Owner {
        /// The directory that belongs to the user.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// Other users may write in the directory, or in one that contains it.
    #[error(
        "other users may write in {} (mode {mode:o}) and could replace the keys: run `chmod go-w {}`, or choose another directory \
         with --state-dir", path.display(), path.display()
    )]
    Writable {
        /// The directory in which they may write.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The directory cannot be looked at.
    #[error("{} cannot be looked at: {source}", path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

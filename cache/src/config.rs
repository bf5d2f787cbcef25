//! Configuration of a cache, and the result of opening one.
use std::{io, path::PathBuf};

use longhaul_types::ByteCount;

/// Location and maximum size of a cache.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The directory; created if missing, readable only by its owner.
    pub dir: PathBuf,
    /// Name of the file in the directory. SQLite's write-ahead log and a lock file are beside it.
    pub file: &'static str,
    /// Maximum size of the file, at least 1 MiB. The write-ahead log (about 4 MiB) and a reserve of an
    /// eighth, at most 8 MiB, are additional; the reserve lets the cache shrink when the disk is full.
    pub quota: ByteCount,
}

/// Location of the stored data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the configured file.
    File,
    /// In memory, at most 16 MiB, because the file cannot be written.
    Memory {
        /// The cause, as text for a log or a dashboard.
        cause: String,
    },
}

/// Reason for the loss of a cache's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The file was not a valid SQLite file; it remains beside the new one as `FILE.damaged` until the next
    /// start.
    Damaged,
    /// A newer version of the program wrote the file; it remains beside the new one as `FILE.vN`.
    Newer {
        /// Version of the file.
        version: u32,
    },
    /// The disk is full and the file could not even shrink, so it was removed.
    Full,
}

/// Errors of opening a cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another cache of this process, uses the file.
    #[error("the cache {path} is in use by another process: end that one or choose another directory")]
    InUse {
        /// Path of the file.
        path: PathBuf,
    },
    /// The system has no thread left, or no memory even for an empty cache.
    #[error("the cache's thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// Not even a cache in memory can be opened.
    #[error("no cache can be opened in memory: {0}")]
    Memory(String),
}

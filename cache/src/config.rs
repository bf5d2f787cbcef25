//! What a cache is opened with, and what came of it.
use std::{io, path::PathBuf};

use longhaul_types::ByteCount;

use crate::Cache;

/// Where a cache lives and how large it may grow.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// The directory; it is made, readable by its owner alone, if it is missing.
    pub dir: PathBuf,
    /// The name of the file in it. SQLite's write-ahead log and a lock file lie beside it.
    pub file: &'static str,
    /// How much of the disk the file may use, at least 1 MiB. Extra: the write-ahead log (about 4 MiB),
    /// and an eighth, at most 8 MiB, that is kept back so that the cache can shrink when the disk is full.
    pub quota: ByteCount,
}

/// A cache that is open.
#[derive(Debug)]
pub struct Opened {
    /// The handle.
    pub cache: Cache,
    /// Why what was in the file before is gone, if it is.
    pub reset: Option<ResetReason>,
    /// Where the cache keeps what it is given.
    pub storage: Storage,
}

/// Where a cache keeps what it is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// In the file that the configuration names.
    File,
    /// In memory, at most 16 MiB, because the file cannot be written.
    Memory {
        /// Why, in words for a log or a status page.
        cause: String,
    },
}

/// Why a cache lost what it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetReason {
    /// The file was no longer a sound SQLite file; it lies beside the new one as `FILE.damaged` until the next start.
    Damaged,
    /// The file was written by a newer version of the program; it lies beside the new one as `FILE.vN`.
    Newer {
        /// The file's version.
        version: u32,
    },
    /// The disk is full and the file could not even shrink, so it was removed.
    Full,
}

/// A cache that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file belongs to another process, or to another cache of this one.
    #[error("the cache {path} is in use by another process: end that one or choose another directory")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The system has no thread left, or no memory even for an empty cache.
    #[error("the cache's thread cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// Not even a cache in memory can be had.
    #[error("no cache can be opened in memory: {0}")]
    Memory(String),
}

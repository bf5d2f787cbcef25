//! The open database: the file, or memory if no file can be written.
use std::path::PathBuf;

use longhaul_types::ByteCount;
use rusqlite::Connection;

use super::{
    file::{self, CacheFile},
    sqlite_error::SqliteErrorClass,
};
use crate::{OpenError, ResetReason, Storage};

/// A smaller quota is useless.
pub(super) const LEAST_QUOTA: ByteCount = ByteCount::mib(1);
/// Maximum size of a cache in memory: it is a temporary substitute, and the agent must stay small.
const MEMORY_QUOTA: ByteCount = ByteCount::mib(16);
/// An open connection and its location.
pub(super) struct Backend {
    pub(super) connection: Connection,
    pub(super) cache_file: Option<CacheFile>,
    pub(super) storage: Storage,
    pub(super) quota: ByteCount,
}

impl Backend {
    pub(super) fn in_memory(cause: String, quota: ByteCount) -> Result<Self, OpenError> {
        tracing::warn!(cause, "the cache is in memory only: its file cannot be written");
        let quota = quota.min(MEMORY_QUOTA);
        let connection = file::in_memory(quota).map_err(|error| OpenError::Memory(error.to_string()))?;
        Ok(Self {
            connection,
            cache_file: None,
            storage: Storage::Memory { cause },
            quota,
        })
    }

    /// Opens the file, or memory if the file fails.
    pub(super) fn open(
        cache_file: CacheFile,
        quota: ByteCount,
    ) -> Result<(Self, Option<ResetReason>), OpenError> {
        match cache_file.open(quota) {
            Ok(ready) => {
                let base = Self {
                    connection: ready.connection,
                    cache_file: Some(cache_file),
                    storage: Storage::File,
                    quota,
                };
                Ok((base, ready.reset))
            }
            Err(error) if SqliteErrorClass::of(&error) == SqliteErrorClass::InUse => Err(OpenError::InUse {
                path: PathBuf::from(cache_file.path()),
            }),
            Err(error) => Ok((Self::in_memory(error.to_string(), quota)?, None)),
        }
    }
}

impl Storage {
    pub(super) fn is_file(&self) -> bool {
        *self == Self::File
    }
}

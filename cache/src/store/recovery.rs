//! Recovery from SQLite errors, which the store never returns to its callers.
use std::time::{Duration, Instant};

use super::{
    backend::{Backend, LEAST_QUOTA},
    file,
    sqlite_error::SqliteErrorClass,
    state::{Store, Writing},
};
use crate::{ResetReason, StoreError};

/// Time without writes after the disk remained full although the store shrank.
const PAUSE: Duration = Duration::from_secs(30);
/// Time for which the store keeps the size to which it shrank.
const MODEST: Duration = Duration::from_secs(3600);

impl Store {
    /// Returns an error if no change can be accepted now.
    pub(super) fn writable(&mut self) -> Result<(), StoreError> {
        match self.writing {
            Writing::Yes => Ok(()),
            Writing::Paused { until } if Instant::now() >= until => {
                self.writing = Writing::Yes;
                Ok(())
            }
            Writing::Shrinking { .. } | Writing::Paused { .. } => Err(StoreError::Full),
        }
    }

    /// Restores operation after an error.
    pub(super) fn handle_sqlite_error(&mut self, error: &rusqlite::Error) {
        let trouble = SqliteErrorClass::of(error);
        tracing::warn!(%error, ?trouble, "the cache's file fails");
        match trouble {
            SqliteErrorClass::Full | SqliteErrorClass::InUse => self.full(),
            SqliteErrorClass::Damaged => self.reset(ResetReason::Damaged),
        }
    }

    fn full(&mut self) {
        self.roll_back(StoreError::Full);
        if self.restore_memory().is_err() {
            return self.reset(ResetReason::Damaged);
        }
        let room = self
            .cache_file
            .as_ref()
            .map_or_else(|| self.used().unwrap_or(0), file::CacheFile::disk_usage);
        // A quarter less than the disk usage, and at least less by the log's maximum size, unless that is
        // most of it.
        let size = room
            .saturating_sub(file::LOG_ROOM.max(room / 4))
            .max(room / 2)
            .max(LEAST_QUOTA.bytes());
        let first = self.writing == Writing::Yes;
        if first && let Some(cache_file) = &self.cache_file {
            cache_file.give_up_spare();
        }
        // Removing rows needs the log, which must be truncated first to be written from its start. If even
        // that fails, only a new file returns the disk space.
        match self.checkpoint("TRUNCATE") {
            Ok(()) if first => self.shrink_to(size),
            Ok(()) => {
                self.writing = Writing::Paused {
                    until: Instant::now() + PAUSE,
                }
            }
            Err(_) => {
                self.reset(ResetReason::Full);
                self.eviction.limit_to(size, Instant::now() + MODEST);
            }
        }
    }

    fn shrink_to(&mut self, size: u64) {
        tracing::warn!(bytes = size, "the disk is full; the cache is made smaller");
        self.writing = Writing::Shrinking { to: size };
        self.eviction.limit_to(size, Instant::now() + MODEST);
    }

    /// After the last shrinking step: returns the pages to the disk.
    pub(super) fn shrunk(&mut self) {
        self.commit();
        self.writing = Writing::Yes;
        match self.checkpoint("TRUNCATE") {
            Ok(()) => self.keep_spare(),
            Err(error) => self.handle_sqlite_error(&error),
        }
    }

    /// Allocates the reserve for the next time that the disk is full.
    pub(super) fn keep_spare(&self) {
        if let Some(cache_file) = self.cache_file.as_ref().filter(|_| self.storage.is_file()) {
            cache_file.keep_spare(self.quota);
        }
    }

    /// Reloads the state in memory, which may be ahead of the file after a rollback.
    fn restore_memory(&mut self) -> rusqlite::Result<()> {
        self.load_garbage()?;
        self.load_totals()?;
        self.load_mirrors()
    }

    /// Replaces an unusable cache by an empty one.
    pub(super) fn reset(&mut self, reason: ResetReason) {
        self.roll_back(StoreError::Reset);
        self.resets += 1;
        self.shared.counters.resets.add(1);
        tracing::warn!(
            ?reason,
            "the cache starts empty; its earlier file is set aside or removed"
        );
        self.forget();
        if self.begin_anew(reason).is_err() && self.begin_in_memory().is_err() {
            // Not even memory: every later request fails as a miss.
            self.writing = Writing::Paused {
                until: Instant::now() + PAUSE,
            };
        }
    }

    fn forget(&mut self) {
        self.fail_uploads(0, StoreError::Reset);
        self.pins.clear();
        self.touched.clear();
        self.garbage.clear();
        self.eviction.forget();
        self.writing = Writing::Yes;
        self.unmoved = 0;
    }

    fn begin_anew(&mut self, reason: ResetReason) -> rusqlite::Result<()> {
        // The old connection must be closed before the file is removed; a placeholder replaces it until then.
        let placeholder = file::in_memory(self.quota)?;
        drop(std::mem::replace(&mut self.connection, placeholder));
        if let Some(cache_file) = &self.cache_file {
            match reason {
                ResetReason::Damaged => cache_file.set_aside_damaged(),
                ResetReason::Full | ResetReason::Newer { .. } => cache_file.remove(),
            }
            self.connection = cache_file.create_empty(self.quota, reason)?.connection;
        }
        self.load()?;
        self.keep_spare();
        Ok(())
    }

    fn begin_in_memory(&mut self) -> Result<(), rusqlite::Error> {
        let cause = "the file failed and no new one can be made".to_owned();
        let Ok(base) = Backend::in_memory(cause, self.quota) else {
            return Err(rusqlite::Error::InvalidQuery);
        };
        self.connection = base.connection;
        self.quota = base.quota;
        self.storage = base.storage;
        // The lock is kept: this process can still repair the file at its next start.
        self.load()
    }
}

//! What the store does when SQLite fails: it never passes the failure on.
use std::time::{Duration, Instant};

use super::{Base, LEAST_QUOTA, Store, file, trouble::Trouble};
use crate::{ResetReason, Storage, StoreError};

/// How long nothing is written after the disk stayed full although the store shrank.
const PAUSE: Duration = Duration::from_secs(30);
/// How long the store stays at the size that it shrank to.
const MODEST: Duration = Duration::from_secs(3600);

/// Whether changes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    Yes,
    /// The disk is full: the store shrinks to so many bytes first.
    Shrinking {
        to: u64,
    },
    /// The disk is full and shrinking did not help: reading only.
    Paused {
        until: Instant,
    },
}

impl Store {
    /// Whether a change can be taken now.
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

    /// Brings the store back to work after an error.
    pub(super) fn trouble(&mut self, error: &rusqlite::Error) {
        let trouble = Trouble::of(error);
        tracing::warn!(%error, ?trouble, "the cache's file fails");
        match trouble {
            Trouble::Full | Trouble::InUse => self.full(),
            Trouble::Damaged => self.reset(ResetReason::Damaged),
        }
    }

    fn full(&mut self) {
        self.roll_back(StoreError::Full);
        if self.restore_memory().is_err() {
            return self.reset(ResetReason::Damaged);
        }
        let room = self
            .place
            .as_ref()
            .map_or_else(|| self.used().unwrap_or(0), file::Place::room);
        // A quarter less than what the disk gave, and in any case what the log takes, if that is not most of it.
        let size = room
            .saturating_sub(file::LOG_ROOM.max(room / 4))
            .max(room / 2)
            .max(LEAST_QUOTA.bytes());
        let first = self.writing == Writing::Yes;
        if first && let Some(place) = &self.place {
            place.give_up_spare();
        }
        // Removing rows needs the log: it must be emptied first so that it can be written again from its start. If
        // even that fails, a new file is the only way to give the disk back what this one takes.
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
        tracing::warn!(bytes = size, "the disk is full: the cache shrinks");
        self.writing = Writing::Shrinking { to: size };
        self.eviction.limit_to(size, Instant::now() + MODEST);
    }

    /// After the last step of shrinking: gives the pages back to the disk.
    pub(super) fn shrunk(&mut self) {
        self.commit();
        self.writing = Writing::Yes;
        match self.checkpoint("TRUNCATE") {
            Ok(()) => self.keep_spare(),
            Err(error) => self.trouble(&error),
        }
    }

    /// Keeps room back for the next time that the disk is full.
    pub(super) fn keep_spare(&self) {
        if let Some(place) = self.place.as_ref().filter(|_| self.storage.is_file()) {
            place.keep_spare(self.quota);
        }
    }

    /// What is kept in memory may be ahead of the file after a rollback.
    fn restore_memory(&mut self) -> rusqlite::Result<()> {
        self.load_garbage()?;
        self.load_totals()?;
        self.load_mirrors()
    }

    /// Begins an empty cache in place of one that cannot be used any more.
    pub(super) fn reset(&mut self, reason: ResetReason) {
        self.roll_back(StoreError::Reset);
        self.resets += 1;
        self.shared.counters.resets.add(1);
        tracing::warn!(?reason, "the cache begins anew");
        self.forget();
        if self.begin_anew(reason).is_err() && self.begin_in_memory().is_err() {
            // Not even memory: every request fails from now on, each as a miss.
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
        // The old connection must be closed before the file goes; until then a placeholder takes its place.
        let placeholder = file::in_memory(self.quota)?;
        drop(std::mem::replace(&mut self.connection, placeholder));
        if let Some(place) = &self.place {
            match reason {
                ResetReason::Damaged => place.set_aside_damaged(),
                ResetReason::Full | ResetReason::Newer { .. } => place.remove(),
            }
            self.connection = place.anew(self.quota, reason)?.connection;
        }
        self.load()?;
        self.keep_spare();
        Ok(())
    }

    fn begin_in_memory(&mut self) -> Result<(), rusqlite::Error> {
        let cause = "the file failed and no new one can be made".to_owned();
        let Ok(base) = Base::in_memory(cause, self.quota) else {
            return Err(rusqlite::Error::InvalidQuery);
        };
        self.connection = base.connection;
        self.quota = base.quota;
        self.storage = base.storage;
        // The lock is kept: the file is still this process's to repair at the next start.
        self.load()
    }
}

impl Storage {
    pub(super) fn is_file(&self) -> bool {
        *self == Self::File
    }
}

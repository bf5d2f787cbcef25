//! Group commit: changes that are committed together, and the answers that wait for the commit.
use super::state::{Answer, Group, Store};
use crate::StoreError;

/// Operations per group: limits the delay of an answer while requests keep arriving.
const MOST_OPERATIONS: u32 = 128;
/// Bytes of bodies per group: limits the pages that SQLite holds back and the time of a commit.
const MOST_BYTES: u64 = 2 * 1024 * 1024;
/// Bytes written after which an idle moment performs a checkpoint.
const MOVE_AFTER: u64 = 2 * 1024 * 1024;

impl Store {
    /// Ensures that a transaction is open, and counts an operation of `bytes` in it.
    pub(super) fn begin(&mut self, bytes: u64) -> rusqlite::Result<&mut Group> {
        if self.group.is_none() {
            self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            self.groups += 1;
        }
        let group = self.group.get_or_insert_default();
        group.operations = group.operations.saturating_add(1);
        group.bytes = group.bytes.saturating_add(bytes);
        self.unmoved = self
            .unmoved
            .saturating_add(bytes)
            .saturating_add(super::file::PAGE);
        Ok(group)
    }

    /// Sends the answer after the next commit; at once if there is nothing to commit.
    pub(super) fn answer(&mut self, answer: Answer) {
        match &mut self.group {
            Some(group) => group.answers.push(answer),
            None => answer.send(Ok(())),
        }
    }

    /// True if the group should not grow further.
    pub(super) fn group_is_large(&self) -> bool {
        let large = |group: &Group| group.operations >= MOST_OPERATIONS || group.bytes >= MOST_BYTES;
        self.group.as_ref().is_some_and(large)
    }

    /// Commits the group. On failure, all its changes are rolled back and its requesters get an error.
    pub(super) fn commit(&mut self) {
        if self.group.is_none() {
            return;
        }
        let committed = self
            .connection
            .prepare_cached("COMMIT")
            .and_then(|mut commit| commit.execute([]));
        match committed {
            Ok(_) => {
                let group = self.group.take().unwrap_or_default();
                group.answers.into_iter().for_each(|answer| answer.send(Ok(())));
                self.report(group.evicted);
            }
            Err(error) => self.handle_sqlite_error(&error),
        }
    }

    /// Rolls back the group and its state in memory.
    pub(super) fn roll_back(&mut self, reason: StoreError) {
        let Some(group) = self.group.take() else {
            return;
        };
        if !self.connection.is_autocommit() {
            // SQLite may have rolled back already; after an error there is nothing else to try.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.fail_uploads(self.groups, reason);
        group
            .answers
            .into_iter()
            .for_each(|answer| answer.send(Err(reason)));
    }

    /// Performs a checkpoint if the log is large enough. Returns true if it did.
    pub(super) fn move_log(&mut self) -> bool {
        if self.unmoved < MOVE_AFTER || self.group.is_some() || self.cache_file.is_none() {
            return false;
        }
        self.unmoved = 0;
        if let Err(error) = self.checkpoint("PASSIVE") {
            self.handle_sqlite_error(&error);
        }
        true
    }

    pub(super) fn checkpoint(&self, mode: &str) -> rusqlite::Result<()> {
        self.connection
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }
}

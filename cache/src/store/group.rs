//! Changes that are committed together, and the answers that wait for it.
use longhaul_types::ContentHash;
use tokio::sync::oneshot;

use super::Store;
use crate::StoreError;

/// Operations in a group: bounds how long an answer waits while requests keep coming.
const MOST_OPERATIONS: u32 = 128;
/// Bytes of bodies in a group: bounds the pages that SQLite holds back and the time of a commit.
const MOST_BYTES: u64 = 2 * 1024 * 1024;
/// The log is moved into the file in an idle moment once this many bytes were written.
const MOVE_AFTER: u64 = 2 * 1024 * 1024;

/// A transaction under way.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) answers: Vec<Answer>,
    /// Bodies evicted in this transaction.
    pub(super) evicted: Vec<ContentHash>,
    operations: u32,
    bytes: u64,
}

/// An answer that is due when the change is committed.
#[derive(Debug)]
pub(super) enum Answer {
    Body(oneshot::Sender<Result<ContentHash, StoreError>>, ContentHash),
    Done(oneshot::Sender<()>),
}

impl Answer {
    /// Whoever asked may have gone; then the answer is lost, and rightly.
    fn send(self, outcome: Result<(), StoreError>) {
        match self {
            Self::Body(reply, chk) => {
                let _ = reply.send(outcome.map(|()| chk));
            }
            Self::Done(reply) => {
                let _ = reply.send(());
            }
        }
    }
}

impl Store {
    /// Makes sure that a transaction is under way and counts an operation of `bytes` into it.
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

    /// Has the answer sent with the next commit; at once if nothing is to be committed.
    pub(super) fn answer(&mut self, answer: Answer) {
        match &mut self.group {
            Some(group) => group.answers.push(answer),
            None => answer.send(Ok(())),
        }
    }

    /// Whether the group should not grow any more.
    pub(super) fn group_is_large(&self) -> bool {
        let large = |group: &Group| group.operations >= MOST_OPERATIONS || group.bytes >= MOST_BYTES;
        self.group.as_ref().is_some_and(large)
    }

    /// Commits the group. If that fails, everything in it is undone and those who asked for it are told so.
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
            Err(error) => self.trouble(&error),
        }
    }

    /// Undoes the group, and what was remembered of it.
    pub(super) fn roll_back(&mut self, reason: StoreError) {
        let Some(group) = self.group.take() else {
            return;
        };
        if !self.connection.is_autocommit() {
            // SQLite may have rolled back by itself; an error here leaves nothing else to try.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.fail_uploads(self.groups, reason);
        group
            .answers
            .into_iter()
            .for_each(|answer| answer.send(Err(reason)));
    }

    /// Moves the log into the file if enough has gathered. Returns whether it did.
    pub(super) fn move_log(&mut self) -> bool {
        if self.unmoved < MOVE_AFTER || self.group.is_some() || self.place.is_none() {
            return false;
        }
        self.unmoved = 0;
        if let Err(error) = self.checkpoint("PASSIVE") {
            self.trouble(&error);
        }
        true
    }

    pub(super) fn checkpoint(&self, mode: &str) -> rusqlite::Result<()> {
        self.connection
            .query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |_| Ok(()))
    }
}

//! The thread: serves requests, and uses idle moments to commit, evict and clean up.
use longhaul_types::ContentHash;
use tokio::{
    runtime::Runtime,
    sync::{
        mpsc::{Receiver, Sender, error::TryRecvError},
        oneshot,
    },
};

use super::{
    sqlite_error::SqliteErrorClass,
    state::{Answer, Store},
};
use crate::{
    StoreError,
    command::{Read, Write},
};

/// Reads served before a waiting write: browsers wait for reads, but writes must not starve.
const READS_IN_A_ROW: u32 = 16;

enum Job {
    Read(Read),
    Write(Write),
}

enum Next {
    Job(Job),
    Nothing,
    /// All handles are gone.
    Closed,
}

enum Waited {
    Job,
    /// The receiver of evictions has room, or is gone.
    Room,
    /// All handles are gone.
    Closed,
}

struct Jobs {
    reads: Receiver<Read>,
    writes: Receiver<Write>,
    reads_in_a_row: u32,
    /// The job that ended the wait.
    waited: Option<Job>,
}

/// Serves requests until the last handle is gone or the cache is closed.
pub(super) fn run(mut store: Store, reads: Receiver<Read>, writes: Receiver<Write>, runtime: &Runtime) {
    let mut jobs = Jobs {
        reads,
        writes,
        reads_in_a_row: 0,
        waited: None,
    };
    let closing = loop {
        match jobs.next() {
            Next::Job(Job::Read(read)) => store.serve_read(read),
            Next::Job(Job::Write(Write::Close { reply })) => break Some(reply),
            Next::Job(Job::Write(write)) => store.serve_write(write),
            Next::Nothing if store.idle() => {}
            Next::Nothing => match runtime.block_on(jobs.wait(store.unsent_reports())) {
                Waited::Job => {}
                // Sends waiting reports now, because the next commit may never come.
                Waited::Room => store.report(Vec::new()),
                Waited::Closed => break None,
            },
            Next::Closed => break None,
        }
    };
    store.leave();
    drop(store);
    if let Some(reply) = closing {
        let _ = reply.send(());
    }
}

impl Jobs {
    fn next(&mut self) -> Next {
        if let Some(job) = self.waited.take() {
            return Next::Job(job);
        }
        let read = if self.reads_in_a_row < READS_IN_A_ROW {
            self.reads.try_recv()
        } else {
            Err(TryRecvError::Empty)
        };
        if let Ok(read) = read {
            self.reads_in_a_row += 1;
            return Next::Job(Job::Read(read));
        }
        self.reads_in_a_row = 0;
        match (self.writes.try_recv(), read) {
            (Ok(write), _) => Next::Job(Job::Write(write)),
            (Err(TryRecvError::Disconnected), Err(TryRecvError::Disconnected)) => Next::Closed,
            (Err(_), _) => self
                .reads
                .try_recv()
                .map_or(Next::Nothing, |read| Next::Job(Job::Read(read))),
        }
    }

    /// Waits for a job, which `next` then returns, or until `reports` has room.
    async fn wait(&mut self, reports: Option<Sender<Vec<ContentHash>>>) -> Waited {
        let Self {
            reads,
            writes,
            waited,
            ..
        } = self;
        let job = async {
            tokio::select! {
                biased;
                Some(read) = reads.recv() => Some(Job::Read(read)),
                Some(write) = writes.recv() => Some(Job::Write(write)),
                else => None,
            }
        };
        let room = async {
            match &reports {
                Some(reports) => drop(reports.reserve().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            job = job => {
                *waited = job;
                if waited.is_some() { Waited::Job } else { Waited::Closed }
            }
            () = room => Waited::Room,
        }
    }
}

/// Answers a read request; if the file fails, as if it were empty.
fn answer<T: Default>(
    store: &mut Store,
    reply: oneshot::Sender<T>,
    read: impl FnOnce(&mut Store) -> rusqlite::Result<T>,
) {
    let outcome = read(store);
    let value = outcome.unwrap_or_else(|error| {
        store.handle_sqlite_error(&error);
        T::default()
    });
    // The receiver may be gone.
    drop(reply.send(value));
}

impl Store {
    fn serve_read(&mut self, read: Read) {
        match read {
            Read::Has { chk, reply } => answer(self, reply, |store| store.has(chk)),
            Read::Prefix { prefix, reply } => answer(self, reply, |store| store.find_prefix(&prefix)),
            Read::Open { chk, limit, reply } => answer(self, reply, |store| store.open_body(chk, limit)),
            Read::Parts { body, first, reply } => answer(self, reply, |store| store.read_parts(body, first)),
            Read::Damaged { body, reply } => answer(self, reply, |store| store.drop_damaged(body)),
            Read::Responses {
                partition,
                url,
                reply,
            } => answer(self, reply, |store| store.find(&partition, &url)),
            Read::Record { kind, key, reply } => answer(self, reply, |store| store.record(kind, key)),
            Read::Usage { reply } => match self.usage() {
                Ok(usage) => drop(reply.send(usage)),
                Err(error) => self.handle_sqlite_error(&error),
            },
        }
    }

    fn serve_write(&mut self, write: Write) {
        match write {
            Write::Body { body, reply } => {
                let put = self.change(|store| store.put_body(&body));
                self.settle(put, reply, body.chk);
            }
            Write::Begin { writer, alive, cost } => {
                let _ = self.attempt(|store| store.begin_upload(writer, alive, cost));
            }
            Write::Append { writer, part } => {
                let _ = self.attempt(|store| store.append(writer, &part));
            }
            Write::Finish { writer, chk, reply } => {
                let finished = self.attempt(|store| store.finish(writer, chk));
                self.settle(finished.and_then(|named| named), reply, chk);
            }
            Write::Response { response, reply } => self.perform(reply, |store| store.put(&response)),
            Write::Remove {
                partition,
                url,
                reply,
            } => self.perform(reply, |store| store.remove(&partition, &url)),
            Write::Record {
                kind,
                key,
                value,
                reply,
            } => {
                self.perform(reply, |store| store.put_record(kind, &key, &value));
            }
            Write::Deletion { forget, reply } => self.perform(reply, |store| store.forget_of(&forget)),
            Write::ForgetUrl { owner, url, reply } => {
                self.perform(reply, |store| store.forget_url(owner, &url));
            }
            Write::Mirror { device, after, reply } => {
                answer(self, reply, |store| store.mirror(device, after))
            }
            Write::MirrorReset { device, state } => {
                let _ = self.change(|store| store.mirror_reset(device, state));
            }
            Write::MirrorAdd {
                device,
                partition,
                hashes,
            } => {
                let _ = self.change(|store| store.mirror_add(device, &partition, &hashes));
            }
            Write::MirrorRemove { device, hashes } => {
                let _ = self.change(|store| store.mirror_remove(device, &hashes));
            }
            Write::Tidy => self.sweep_uploads(),
            Write::Flush { reply } | Write::Close { reply } => {
                self.commit();
                let _ = reply.send(());
            }
        }
        self.bound();
    }

    /// Performs a change, if changes are possible now.
    pub(super) fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        self.writable()?;
        self.attempt(change)
    }

    fn attempt<T>(&mut self, change: impl FnOnce(&mut Self) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        change(self).map_err(|error| {
            self.handle_sqlite_error(&error);
            match SqliteErrorClass::of(&error) {
                SqliteErrorClass::Full | SqliteErrorClass::InUse => StoreError::Full,
                SqliteErrorClass::Damaged => StoreError::Reset,
            }
        })
    }

    fn perform(
        &mut self,
        reply: oneshot::Sender<()>,
        change: impl FnOnce(&mut Self) -> rusqlite::Result<()>,
    ) {
        let _ = self.change(change);
        self.answer(Answer::Done(reply));
    }

    pub(super) fn settle(
        &mut self,
        outcome: Result<(), StoreError>,
        reply: oneshot::Sender<Result<ContentHash, StoreError>>,
        chk: ContentHash,
    ) {
        match outcome {
            Ok(()) => self.answer(Answer::Body(reply, chk)),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// After each write: limits the group, and keeps the quota even without idle moments.
    fn bound(&mut self) {
        if let Err(error) = self.reclaim() {
            self.handle_sqlite_error(&error);
        }
        if self.group_is_large() {
            self.commit();
        }
    }

    /// Uses an idle moment for one step. Returns true if there may be more to do.
    pub(super) fn idle(&mut self) -> bool {
        if self.group.is_some() {
            self.commit();
            return true;
        }
        self.sweep_uploads();
        self.report(Vec::new());
        let step = self
            .own_up()
            .and_then(|()| Ok(self.reclaim()? || self.sweep_mirrors()?));
        match step {
            Ok(more) => more || self.group.is_some() || self.move_log(),
            Err(error) => {
                self.handle_sqlite_error(&error);
                false
            }
        }
    }

    /// Before the end: writes the state in memory and the log into the file.
    fn leave(&mut self) {
        if let Err(error) = self.write_uses() {
            self.handle_sqlite_error(&error);
        }
        self.commit();
        if self.storage.is_file()
            && let Err(error) = self.checkpoint("TRUNCATE")
        {
            tracing::debug!(%error, "the cache's write-ahead log remains; the next start merges it");
        }
    }
}

//! The thread that owns the file, and all SQL.
//!
//! Changes are collected in a group, which is committed when no further request waits or when the group is
//! large; their answers are sent then. A commit does not wait for the disk (`synchronous=NORMAL`): it
//! survives a crash of the process; after a power failure the file is valid but may lack the last commits.
mod backend;
mod bodies;
mod content;
mod eviction;
mod file;
mod forget;
mod group;
mod mirrors;
mod records;
mod recovery;
mod responses;
mod schema;
mod sqlite_error;
mod state;
mod uploads;
mod worker;

#[cfg(test)]
mod tests;

use std::{io, sync::Arc, thread};

use longhaul_types::ByteCount;
use rusqlite::{OptionalExtension as _, params};
use tokio::sync::mpsc;

use crate::{
    CacheConfig, OpenError, ResetReason, Storage, Usage,
    command::{Queues, READ_QUEUE, WRITE_QUEUE},
    shared::Shared,
};
use backend::{Backend, LEAST_QUOTA};
use file::CacheFile;
use state::{Eviction, Store};

/// Batches of evictions that wait for their reader; further ones wait in the store.
const EVICTION_BATCHES: usize = 16;

/// A store whose thread runs.
pub(super) struct Running {
    pub(super) queues: Queues,
    pub(super) shared: Arc<Shared>,
    pub(super) reset: Option<ResetReason>,
    pub(super) storage: Storage,
}

/// Opens the file and starts its thread.
pub(super) fn open(config: CacheConfig, entropy: u64) -> Result<Running, OpenError> {
    let (store, reset) = Store::open(config, entropy)?;
    let (storage, shared) = (store.storage.clone(), Arc::clone(&store.shared));
    let queues = start(store)?;
    Ok(Running {
        queues,
        shared,
        reset,
        storage,
    })
}

fn start(store: Store) -> Result<Queues, OpenError> {
    let (reads, read_queue) = mpsc::channel(READ_QUEUE);
    let (writes, write_queue) = mpsc::channel(WRITE_QUEUE);
    // Only for waiting on two queues at once; the runtime has neither clock nor sockets.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(OpenError::Thread)?;
    let run = move || worker::run(store, read_queue, write_queue, &runtime);
    let thread: io::Result<_> = thread::Builder::new().name("longhaul-cache".into()).spawn(run);
    thread.map_err(OpenError::Thread)?;
    Ok(Queues { reads, writes })
}

impl Store {
    fn open(config: CacheConfig, entropy: u64) -> Result<(Self, Option<ResetReason>), OpenError> {
        let quota = config.quota.max(LEAST_QUOTA);
        let (backend, reset) = match CacheFile::lock(&config.dir, config.file)? {
            Ok(cache_file) => Backend::open(cache_file, quota)?,
            Err(error) => (Backend::in_memory(error.to_string(), quota)?, None),
        };
        let (evicted, evictions) = mpsc::channel(EVICTION_BATCHES);
        let shared = Arc::new(Shared::new(0, backend.quota.bytes() / 8, evictions));
        let mut store = Self::new(backend, shared, entropy, Eviction::new(evicted));
        if let Err(error) = store.load() {
            // Damage that is found only now, in the tables.
            store.handle_sqlite_error(&error);
        }
        store.keep_spare();
        let reset = reset.or_else(|| (store.resets > 0).then_some(ResetReason::Damaged));
        Ok((store, reset))
    }

    /// Reads the state in memory from the tables.
    fn load(&mut self) -> rusqlite::Result<()> {
        let last: Option<i64> = self
            .connection
            .query_row("SELECT max(id) FROM bodies", [], |row| row.get(0))?;
        self.next_body = self.next_body.max(last.unwrap_or(0).saturating_add(1));
        self.load_state()?;
        self.load_garbage()?;
        self.load_floor()?;
        self.load_totals()?;
        self.load_mirrors()
    }

    fn load_state(&self) -> rusqlite::Result<()> {
        let sql = "SELECT value FROM meta WHERE name = 'state'";
        let stored: Option<[u8; 8]> = self.connection.query_row(sql, [], |row| row.get(0)).optional()?;
        let state = match stored {
            Some(bytes) => u64::from_be_bytes(bytes),
            None => self.new_state()?,
        };
        self.shared.state.send_replace(state);
        Ok(())
    }

    /// Creates and stores a new, unique state id.
    fn new_state(&self) -> rusqlite::Result<u64> {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul cache state id");
        hasher.update(&self.entropy.to_be_bytes());
        hasher.update(&self.resets.to_be_bytes());
        hasher.update(&self.shared.state.borrow().to_be_bytes());
        let mut bytes = [0; 8];
        hasher.finalize_xof().fill(&mut bytes);
        let sql = "INSERT OR REPLACE INTO meta (name, value) VALUES ('state', ?1)";
        self.connection.execute(sql, params![bytes])?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// Bytes of the pages in use.
    fn used(&self) -> rusqlite::Result<u64> {
        let pragma = |sql: &str| -> rusqlite::Result<u64> {
            self.connection
                .prepare_cached(sql)?
                .query_row([], |row| row.get(0))
        };
        let pages = pragma("PRAGMA page_count")?.saturating_sub(pragma("PRAGMA freelist_count")?);
        Ok(pages.saturating_mul(file::PAGE))
    }

    fn usage(&self) -> rusqlite::Result<Usage> {
        let count = |sql: &str| -> rusqlite::Result<u64> {
            self.connection
                .prepare_cached(sql)?
                .query_row([], |row| row.get(0))
        };
        Ok(Usage {
            bytes: ByteCount::new(self.used()?),
            quota: self.quota,
            bodies: count("SELECT count(*) FROM bodies WHERE chk IS NOT NULL")?,
            responses: count("SELECT count(*) FROM responses")?,
            storage: self.storage.clone(),
            ..self.shared.counters.usage()
        })
    }
}

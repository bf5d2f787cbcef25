//! Eviction to keep the quota, step by step (GreedyDual-Size-Frequency, see [`crate::Cost`]), and its
//! reports.
use std::{sync::atomic::Ordering, time::Instant};

use longhaul_types::ContentHash;
use rusqlite::params;
use tokio::sync::mpsc::{self, error::TrySendError};

use super::{
    bodies::chunk_ids,
    content::hash_of,
    file::PAGE,
    state::{Store, Writing},
};

/// Chunks (or bodies, or groups of responses) removed in a step: 1 MiB.
const STEP: usize = 16;
/// Number of candidates: the first one that is neither being read nor new is evicted.
const CANDIDATES: usize = 64;
/// Number of bodies that count as new: their writers are about to request them. They are evicted only if
/// nothing else can be.
const NEW: i64 = 32;
/// Pages returned to the disk in a step.
const VACUUM_STEP: u32 = 64;
/// Hashes that wait for their reader: 2 MiB.
const MOST_UNSENT: usize = 65_536;
/// Hashes per batch; a session message contains 6 bytes of each.
const BATCH: usize = 1024;

impl Store {
    /// `L` never exceeds the lowest priority, so it starts there.
    pub(super) fn load_floor(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT min(priority) FROM bodies WHERE chk IS NOT NULL";
        let lowest: Option<f64> = self.connection.query_row(sql, [], |row| row.get(0))?;
        self.eviction.floor = lowest.filter(|priority| priority.is_finite()).unwrap_or(0.0);
        Ok(())
    }

    /// Performs one step towards the quota. Returns true if there is more to do.
    pub(super) fn reclaim(&mut self) -> rusqlite::Result<bool> {
        if matches!(self.writing, Writing::Paused { .. }) {
            return Ok(false);
        }
        let mut left = STEP;
        while left > 0 {
            if let Some(body) = self.garbage.front().copied() {
                left = left.saturating_sub(self.remove_chunks(body, left)?.max(1));
            } else if self.used()? <= self.size_limit() {
                return self.give_back();
            } else if self.evict_one()? {
                left -= 1;
            } else {
                return self.give_back();
            }
        }
        Ok(true)
    }

    fn size_limit(&mut self) -> u64 {
        if let Writing::Shrinking { to } = self.writing {
            return to;
        }
        if self
            .eviction
            .modest
            .is_some_and(|(_, until)| Instant::now() >= until)
        {
            self.eviction.modest = None;
        }
        self.eviction
            .modest
            .map_or_else(|| self.quota.bytes(), |(size, _)| size.min(self.quota.bytes()))
    }

    /// Removes up to `most` chunks of an unnamed body, and the body after its last chunk.
    pub(super) fn remove_chunks(&mut self, body: i64, most: usize) -> rusqlite::Result<usize> {
        self.begin(0)?;
        let sql =
            "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id BETWEEN ?1 AND ?2 LIMIT ?3)";
        let (from, to) = chunk_ids(body, 0);
        let removed = self
            .connection
            .prepare_cached(sql)?
            .execute(params![from, to, most])?;
        if removed == 0 {
            let sql = "DELETE FROM bodies WHERE id = ?1 AND chk IS NULL";
            self.connection.prepare_cached(sql)?.execute([body])?;
            self.garbage.pop_front();
        }
        Ok(removed)
    }

    /// Evicts the body with the lowest priority, or, without bodies, the oldest responses. Returns true if
    /// there was one.
    fn evict_one(&mut self) -> rusqlite::Result<bool> {
        self.write_uses()?;
        let Some((body, chk, priority)) = self.least_worth()? else {
            self.begin(0)?;
            let sql = "DELETE FROM responses WHERE id IN (SELECT id FROM responses WHERE body IS NULL ORDER BY id LIMIT ?1)";
            let removed = self.connection.prepare_cached(sql)?.execute([STEP])?;
            self.totals.bodiless = self.totals.bodiless.saturating_sub(removed);
            return Ok(removed > 0);
        };
        self.eviction.floor = self.eviction.floor.max(priority);
        self.take_out(body, chk)?;
        self.shared.counters.evicted.add(1);
        Ok(true)
    }

    fn least_worth(&self) -> rusqlite::Result<Option<(i64, ContentHash, f64)>> {
        let sql = "SELECT id, chk, priority FROM bodies WHERE chk IS NOT NULL ORDER BY priority LIMIT ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        let mut rows = find.query([CANDIDATES])?;
        let mut new = None;
        while let Some(row) = rows.next()? {
            let body: i64 = row.get(0)?;
            if self.is_pinned(body) {
                continue;
            }
            let candidate = (body, hash_of(row.get(1)?), row.get(2)?);
            if body.saturating_add(NEW) < self.next_body {
                return Ok(Some(candidate));
            }
            new.get_or_insert(candidate);
        }
        Ok(new)
    }

    /// Returns free pages to the disk if the file exceeds its limit because the quota was lowered or the disk
    /// is full. Otherwise free pages remain for reuse. Returns true if there is more to do.
    fn give_back(&mut self) -> rusqlite::Result<bool> {
        let limit = self.size_limit();
        let count = |sql: &str| -> rusqlite::Result<u64> {
            self.connection
                .prepare_cached(sql)?
                .query_row([], |row| row.get(0))
        };
        let size = count("PRAGMA page_count")?.saturating_mul(PAGE);
        let surplus = size > limit + limit / 16 && count("PRAGMA freelist_count")? > 0;
        if surplus && self.vacuum()? {
            return Ok(true);
        }
        if matches!(self.writing, Writing::Shrinking { .. }) {
            self.shrunk();
        }
        Ok(false)
    }

    /// Returns true if a page was returned to the disk; a cache in memory returns none.
    pub(super) fn vacuum(&mut self) -> rusqlite::Result<bool> {
        self.begin(0)?;
        let mut vacuum = self
            .connection
            .prepare(&format!("PRAGMA incremental_vacuum({VACUUM_STEP})"))?;
        let mut rows = vacuum.query([])?;
        let mut any = false;
        while rows.next()?.is_some() {
            any = true;
        }
        Ok(any)
    }

    /// Sends the hashes of removed bodies to the receiver of evictions.
    pub(super) fn report(&mut self, hashes: Vec<ContentHash>) {
        self.eviction.unsent.extend(hashes);
        while !self.eviction.unsent.is_empty() {
            let count = self.eviction.unsent.len().min(BATCH);
            let batch: Vec<_> = self.eviction.unsent.iter().take(count).copied().collect();
            match self.eviction.reports.try_send(batch) {
                Ok(()) => drop(self.eviction.unsent.drain(..count)),
                Err(TrySendError::Full(_)) => break,
                // The receiver is gone, so no mirror depends on the reports.
                Err(TrySendError::Closed(_)) => self.eviction.unsent.clear(),
            }
        }
        if self.eviction.unsent.len() > MOST_UNSENT {
            self.eviction.unsent.clear();
            self.shared.evictions_lost.store(true, Ordering::Release);
        }
    }

    /// The channel of reports, if reports wait for room in it.
    pub(super) fn unsent_reports(&self) -> Option<mpsc::Sender<Vec<ContentHash>>> {
        (!self.eviction.unsent.is_empty()).then(|| self.eviction.reports.clone())
    }

    /// Changes the state id if unreported hashes were dropped.
    pub(super) fn own_up(&mut self) -> rusqlite::Result<()> {
        let lost = &self.shared.evictions_lost;
        if !lost.load(Ordering::Acquire) || !self.shared.evictions_taken.load(Ordering::Acquire) {
            return Ok(());
        }
        self.shared.evictions_lost.store(false, Ordering::Release);
        if self.writable().is_ok() {
            self.begin(0)?;
            let state = self.new_state()?;
            self.shared.state.send_replace(state);
        }
        Ok(())
    }
}

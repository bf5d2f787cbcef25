//! Bodies by hash: lookup, reading, storage, naming, and removal.
use std::sync::{Arc, Weak};

use bytes::Bytes;
use longhaul_types::ContentHash;
use rusqlite::{OptionalExtension as _, params};

use super::{content::hash_of, schema::PART_BITS, state::Store};
use crate::command::{BodyId, Found, Part, VERIFIED_WHOLE, WholeBody};

/// Chunks of a long body per answer: enough to keep the reader busy, and few enough not to delay others.
const PARTS_PER_READ: u32 = 4;
/// Number of bodies whose uses wait to be written. Losing them in a crash only makes eviction slightly less
/// accurate.
const TOUCHED: usize = 1024;
/// Number of pins at which expired pins are removed: requests in progress, and some that have ended.
const PINS: usize = 512;
/// Further uses do not count, so that formerly popular bodies can be evicted.
const MOST_USES: i64 = 64;

/// Row ids of a body's chunks from number `first` on.
pub(super) fn chunk_ids(body: i64, first: u32) -> (i64, i64) {
    let base = body << PART_BITS;
    (base + i64::from(first), base + ((1 << PART_BITS) - 1))
}

impl Store {
    pub(super) fn has(&self, chk: ContentHash) -> rusqlite::Result<bool> {
        Ok(self.body_of(chk)?.is_some())
    }

    /// Row id and length of the body with a hash.
    pub(super) fn body_of(&self, chk: ContentHash) -> rusqlite::Result<Option<(i64, u64)>> {
        let mut find = self
            .connection
            .prepare_cached("SELECT id, length FROM bodies WHERE chk = ?1")?;
        find.query_row([chk.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
    }

    pub(super) fn find_prefix(&self, prefix: &[u8]) -> rusqlite::Result<Option<ContentHash>> {
        let (mut least, mut most) = ([0; 32], [0xff; 32]);
        if prefix.len() > least.len() {
            return Ok(None);
        }
        least[..prefix.len()].copy_from_slice(prefix);
        most[..prefix.len()].copy_from_slice(prefix);
        let sql = "SELECT chk FROM bodies WHERE chk BETWEEN ?1 AND ?2 LIMIT 2";
        let mut find = self.connection.prepare_cached(sql)?;
        let found = find.query_map([least, most], |row| row.get(0).map(hash_of))?;
        let found = found.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(if let [only] = found[..] { Some(only) } else { None })
    }

    /// Finds a body of at most `limit` bytes, and reads it if it is short.
    pub(super) fn open_body(&mut self, chk: ContentHash, limit: u64) -> rusqlite::Result<Option<Found>> {
        let Some((id, length)) = self.body_of(chk)?.filter(|(_, length)| *length <= limit) else {
            return Ok(None);
        };
        let parts = if length <= VERIFIED_WHOLE {
            self.all_parts(id)?
        } else {
            Vec::new()
        };
        *self.touched.entry(id).or_default() += 1;
        if self.touched.len() >= TOUCHED {
            self.write_uses()?;
        }
        Ok(Some(Found {
            body: BodyId(id),
            length,
            parts,
            pin: self.pin(id),
        }))
    }

    fn all_parts(&self, body: i64) -> rusqlite::Result<Vec<Bytes>> {
        let sql = "SELECT data FROM chunks WHERE id BETWEEN ?1 AND ?2 ORDER BY id";
        let mut read = self.connection.prepare_cached(sql)?;
        let parts = read.query_map(chunk_ids(body, 0), |row| {
            row.get::<_, Vec<u8>>(0).map(Bytes::from)
        })?;
        parts.collect()
    }

    fn pin(&mut self, body: i64) -> Arc<()> {
        if self.pins.len() >= PINS {
            self.pins.retain(|_, pin| pin.strong_count() > 0);
        }
        if let Some(pin) = self.pins.get(&body).and_then(Weak::upgrade) {
            return pin;
        }
        let pin = Arc::new(());
        self.pins.insert(body, Arc::downgrade(&pin));
        pin
    }

    pub(super) fn is_pinned(&self, body: i64) -> bool {
        self.pins.get(&body).is_some_and(|pin| pin.strong_count() > 0)
    }

    /// The next chunks of a long body.
    pub(super) fn read_parts(&self, body: BodyId, first: u32) -> rusqlite::Result<Vec<Part>> {
        let sql = "SELECT data, hash FROM chunks WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3";
        let mut read = self.connection.prepare_cached(sql)?;
        let (from, to) = chunk_ids(body.0, first);
        let parts = read.query_map([from, to, i64::from(PARTS_PER_READ)], |row| {
            Ok(Part {
                data: Bytes::from(row.get::<_, Vec<u8>>(0)?),
                hash: hash_of(row.get(1)?),
            })
        })?;
        parts.collect()
    }

    /// Removes a body whose bytes do not match its hash.
    pub(super) fn drop_damaged(&mut self, body: BodyId) -> rusqlite::Result<()> {
        self.shared.counters.damaged.add(1);
        let sql = "SELECT chk FROM bodies WHERE id = ?1 AND chk IS NOT NULL";
        let chk = self
            .connection
            .prepare_cached(sql)?
            .query_row([body.0], |row| row.get(0))
            .optional()?;
        if let Some(chk) = chk
            && self.writable().is_ok()
        {
            self.take_out(body.0, hash_of(chk))?;
        }
        Ok(())
    }

    /// Removes a body and its responses from the indexes; its chunks are removed step by step.
    pub(super) fn take_out(&mut self, body: i64, chk: ContentHash) -> rusqlite::Result<()> {
        self.begin(0)?.evicted.push(chk);
        self.connection
            .prepare_cached("UPDATE bodies SET chk = NULL WHERE id = ?1")?
            .execute([body])?;
        self.connection
            .prepare_cached("DELETE FROM responses WHERE body = ?1")?
            .execute([body])?;
        self.garbage.push_back(body);
        Ok(())
    }

    /// Writes a short body, unless it exists already.
    pub(super) fn put_body(&mut self, body: &WholeBody) -> rusqlite::Result<()> {
        self.begin(body.length)?;
        if let Some((id, _)) = self.body_of(body.chk)? {
            *self.touched.entry(id).or_default() += 1;
            return Ok(());
        }
        let id = self.next_body;
        self.next_body += 1;
        for (part, number) in body.parts.iter().zip(0..) {
            self.put_chunk(id, number, part)?;
        }
        let worth = body.cost.worth(body.length);
        let sql =
            "INSERT INTO bodies (id, chk, length, worth, uses, priority) VALUES (?1, ?2, ?3, ?4, 1, ?5)";
        let values = params![
            id,
            body.chk.as_bytes(),
            body.length,
            worth,
            self.eviction.floor() + worth
        ];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    pub(super) fn put_chunk(&self, body: i64, number: u32, part: &Part) -> rusqlite::Result<()> {
        let sql = "INSERT INTO chunks (id, hash, data) VALUES (?1, ?2, ?3)";
        let (id, _) = chunk_ids(body, number);
        let values = params![id, part.hash.as_bytes(), &part.data[..]];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Writes the use counts of bodies and the resulting priorities.
    pub(super) fn write_uses(&mut self) -> rusqlite::Result<()> {
        let touched = std::mem::take(&mut self.touched);
        if touched.is_empty() || self.writable().is_err() {
            return Ok(());
        }
        self.begin(0)?;
        let sql = "UPDATE bodies SET uses = min(uses + ?2, ?4), priority = ?3 + min(uses + ?2, ?4) * worth
                   WHERE id = ?1 AND chk IS NOT NULL";
        let mut write = self.connection.prepare_cached(sql)?;
        for (body, uses) in touched {
            write.execute(params![body, uses, self.eviction.floor(), MOST_USES])?;
        }
        Ok(())
    }
}

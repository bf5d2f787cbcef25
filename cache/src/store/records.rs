//! Records, limited per kind by count and size; the least recently used ones are dropped first.
use bytes::Bytes;
use rusqlite::{OptionalExtension as _, params};

use super::{
    content::{SUM, label, sum},
    forget::Labels,
    state::{Store, Totals},
};
use crate::{MAX_RECORD, MAX_RECORDS, RecordKey, RecordKind};

/// Divisor: the records of one kind may take this part of the quota.
const SHARE: u64 = 16;
/// A use is written only after this many other uses: most reads then need no write.
const COARSE: i64 = 64;

impl Store {
    pub(super) fn load_totals(&mut self) -> rusqlite::Result<()> {
        let mut totals = Totals::default();
        for kind in RecordKind::ALL {
            let sql = "SELECT count(*), coalesce(sum(length(value)), 0) FROM records WHERE kind = ?1";
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let counted = self
                .connection
                .prepare_cached(sql)?
                .query_row([kind.code()], read)?;
            totals.records.insert(kind, counted);
        }
        let sql = "SELECT count(*) FROM responses WHERE body IS NULL";
        totals.bodiless = self
            .connection
            .prepare_cached(sql)?
            .query_row([], |row| row.get(0))?;
        self.totals = totals;
        let sql = "SELECT max(coalesce((SELECT max(used) FROM records), 0), coalesce((SELECT max(used) FROM devices), 0))";
        let last: i64 = self.connection.query_row(sql, [], |row| row.get(0))?;
        self.clock = self.clock.max(last);
        Ok(())
    }

    /// Advances the clock of uses.
    pub(super) fn tick(&mut self) -> i64 {
        self.clock = self.clock.saturating_add(1);
        self.clock
    }

    pub(super) fn record(&mut self, kind: RecordKind, key: [u8; 32]) -> rusqlite::Result<Option<Bytes>> {
        let sql = "SELECT used, sum, value FROM records WHERE kind = ?1 AND key = ?2";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let mut find = self.connection.prepare_cached(sql)?;
        let found: Option<(i64, [u8; SUM], Vec<u8>)> =
            find.query_row(params![kind.code(), key], read).optional()?;
        drop(find);
        let Some((used, expected, value)) = found else {
            return Ok(None);
        };
        let sound = sum(&value) == expected;
        self.shared.counters.damaged.add(u64::from(!sound));
        if self.writable().is_ok() {
            if !sound {
                self.delete_record(kind, key)?;
            } else if self.tick() - used > COARSE {
                self.begin(0)?;
                let sql = "UPDATE records SET used = ?3 WHERE kind = ?1 AND key = ?2";
                self.connection
                    .prepare_cached(sql)?
                    .execute(params![kind.code(), key, self.clock])?;
            }
        }
        Ok(sound.then(|| Bytes::from(value)))
    }

    /// Stores a record; one that is too long only removes its predecessor, which it supersedes.
    pub(super) fn put_record(
        &mut self,
        kind: RecordKind,
        key: &RecordKey,
        value: &[u8],
    ) -> rusqlite::Result<()> {
        self.begin(value.len() as u64)?;
        self.delete_record(kind, key.hash)?;
        let most_bytes = self.quota.bytes() / SHARE;
        if value.len() > MAX_RECORD || value.len() as u64 > most_bytes {
            return Ok(());
        }
        let used = self.tick();
        let labels = Labels::of(&key.partition);
        let values = params![
            kind.code(),
            key.hash,
            used,
            labels.device,
            labels.client,
            key.domain.as_deref().map(label),
            labels.asker,
            labels.frame,
            sum(value),
            value
        ];
        let sql = "INSERT INTO records (kind, key, used, device, client, domain, asker, frame, sum, value)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
        self.connection.prepare_cached(sql)?.execute(values)?;
        let total = self.totals.records.entry(kind).or_default();
        *total = (total.0 + 1, total.1 + value.len() as u64);
        while self
            .totals
            .records
            .get(&kind)
            .is_some_and(|total| total.0 > MAX_RECORDS || total.1 > most_bytes)
        {
            let sql = "SELECT key FROM records WHERE kind = ?1 ORDER BY used LIMIT 1";
            let oldest = self
                .connection
                .prepare_cached(sql)?
                .query_row([kind.code()], |row| row.get(0))?;
            self.delete_record(kind, oldest)?;
        }
        Ok(())
    }

    fn delete_record(&mut self, kind: RecordKind, key: [u8; 32]) -> rusqlite::Result<()> {
        let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2 RETURNING length(value)";
        self.begin(0)?;
        let mut delete = self.connection.prepare_cached(sql)?;
        let length: Option<u64> = delete
            .query_row(params![kind.code(), key], |row| row.get(0))
            .optional()?;
        if let (Some(length), Some(total)) = (length, self.totals.records.get_mut(&kind)) {
            *total = (total.0.saturating_sub(1), total.1.saturating_sub(length));
        }
        Ok(())
    }
}

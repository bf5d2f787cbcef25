//! Mirrors in the file.
use longhaul_types::{ContentHash, PublicKey};
use rusqlite::{OptionalExtension as _, ToSql, params};

use super::{
    content::hash_of,
    forget::Labels,
    state::{Device, Mirrors, Store},
};
use crate::{MAX_DEVICES, MAX_HELD, Partition, PartitionLabel, command::MirrorPage};

/// Hashes per page of an answer, or removed in a step.
const STEP: usize = 4096;
/// Quota per hash. A hash takes about 80 bytes of the file; all mirrors together may take a quarter of the
/// quota.
const QUOTA_PER_HASH: u64 = 200;

impl Store {
    pub(super) fn load_mirrors(&mut self) -> rusqlite::Result<()> {
        let mut mirrors = Mirrors {
            next: self.mirrors.next.max(1),
            ..Mirrors::default()
        };
        let mut find = self
            .connection
            .prepare_cached("SELECT id, device, state, held, used FROM devices")?;
        let rows = find.query_map([], |row| {
            let key: [u8; 32] = row.get(1)?;
            let state = u64::from_be_bytes(row.get::<_, i64>(2)?.to_be_bytes());
            let cursor = ContentHash::from_bytes(key);
            Ok((
                PublicKey::from_bytes(key),
                Device {
                    number: row.get(0)?,
                    state,
                    held: row.get(3)?,
                    used: row.get(4)?,
                    cursor,
                },
            ))
        })?;
        for row in rows {
            let (key, device) = row?;
            mirrors.next = mirrors.next.max(device.number.saturating_add(1));
            mirrors.devices.insert(key, device);
        }
        // Device numbers in use by rows: one index probe each.
        let sql = "SELECT min(device) FROM mirrors WHERE device > ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        let mut last = i64::MIN;
        while let Some(number) = find.query_row([last], |row| row.get::<_, Option<i64>>(0))? {
            if !mirrors.devices.values().any(|device| device.number == number) {
                mirrors.garbage.push_back(number);
            }
            mirrors.next = mirrors.next.max(number.saturating_add(1));
            last = number;
        }
        self.mirrors = mirrors;
        Ok(())
    }

    /// Returns the page of a mirror after the given hash. The first page counts as a use of the mirror.
    pub(super) fn mirror(
        &mut self,
        key: PublicKey,
        after: Option<(ContentHash, PartitionLabel)>,
    ) -> rusqlite::Result<Option<MirrorPage>> {
        let now = self.tick();
        let first = after.is_none() && self.writable().is_ok();
        let Some(device) = self.mirrors.devices.get_mut(&key) else {
            return Ok(None);
        };
        let (number, state) = (device.number, device.state);
        if first {
            device.used = now;
            self.begin(0)?;
            let sql = "UPDATE devices SET used = ?2 WHERE id = ?1";
            self.connection.prepare_cached(sql)?.execute([number, now])?;
        }
        let sql = "SELECT chk, partition FROM mirrors WHERE device = ?1 AND (chk, partition) > (?2, ?3)
                   ORDER BY chk, partition LIMIT ?4";
        let mut find = self.connection.prepare_cached(sql)?;
        let chk: &[u8] = after.as_ref().map_or(&[], |(chk, _)| chk.as_bytes());
        let label: &[u8] = after.as_ref().map_or(&[], |(_, label)| label.as_bytes());
        let page = find.query_map(params![number, chk, label, STEP], |row| {
            let label = PartitionLabel::from_bytes(row.get(1)?);
            Ok((hash_of(row.get(0)?), label))
        })?;
        Ok(Some((state, page.collect::<rusqlite::Result<_>>()?)))
    }

    /// Resets a mirror. The rows of the previous one are removed step by step.
    pub(super) fn mirror_reset(&mut self, key: PublicKey, state: u64) -> rusqlite::Result<()> {
        self.begin(0)?;
        self.forget_device(key)?;
        while self.mirrors.devices.len() >= MAX_DEVICES && self.forget_longest_absent(key)? {}
        let (number, used) = (self.mirrors.next, self.tick());
        self.mirrors.next += 1;
        let sql = "INSERT INTO devices (id, device, state, held, used) VALUES (?1, ?2, ?3, 0, ?4)";
        let stored = i64::from_be_bytes(state.to_be_bytes());
        self.connection
            .prepare_cached(sql)?
            .execute(params![number, key.as_bytes(), stored, used])?;
        let cursor = ContentHash::from_bytes(*key.as_bytes());
        self.mirrors.devices.insert(
            key,
            Device {
                number,
                state,
                held: 0,
                used,
                cursor,
            },
        );
        Ok(())
    }

    fn forget_device(&mut self, key: PublicKey) -> rusqlite::Result<()> {
        if let Some(device) = self.mirrors.devices.remove(&key) {
            self.connection
                .prepare_cached("DELETE FROM devices WHERE id = ?1")?
                .execute([device.number])?;
            self.mirrors.garbage.push_back(device.number);
        }
        Ok(())
    }

    fn forget_longest_absent(&mut self, except: PublicKey) -> rusqlite::Result<bool> {
        let others = self.mirrors.devices.iter().filter(|(key, _)| **key != except);
        let Some(oldest) = others.min_by_key(|(_, device)| device.used).map(|(key, _)| *key) else {
            return Ok(false);
        };
        self.forget_device(oldest)?;
        Ok(true)
    }

    pub(super) fn mirror_add(
        &mut self,
        key: PublicKey,
        partition: &Partition,
        hashes: &[ContentHash],
    ) -> rusqlite::Result<()> {
        let Some(number) = self.mirrors.devices.get(&key).map(|device| device.number) else {
            return Ok(());
        };
        self.begin(hashes.len() as u64 * 64)?;
        let (labels, partition) = (Labels::of(partition), partition.label());
        let sql = "INSERT OR IGNORE INTO mirrors (device, chk, partition, client, asker, frame)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let mut added = 0;
        let mut add = self.connection.prepare_cached(sql)?;
        for hash in hashes {
            let (hash, partition) = (hash.as_bytes(), partition.as_bytes());
            let values = params![number, hash, partition, labels.client, labels.asker, labels.frame];
            added += add.execute(values)?;
        }
        drop(add);
        self.count_held(key, |held| held + added)?;
        self.keep_mirror_bounds(key)
    }

    pub(super) fn mirror_remove(&mut self, key: PublicKey, hashes: &[ContentHash]) -> rusqlite::Result<()> {
        let Some(number) = self.mirrors.devices.get(&key).map(|device| device.number) else {
            return Ok(());
        };
        self.begin(hashes.len() as u64 * 64)?;
        let mut removed = 0;
        let mut remove = self
            .connection
            .prepare_cached("DELETE FROM mirrors WHERE device = ?1 AND chk = ?2")?;
        for hash in hashes {
            removed += remove.execute(params![number, hash.as_bytes()])?;
        }
        drop(remove);
        self.count_held(key, |held| held.saturating_sub(removed))
    }

    /// Deletes the rows that meet a condition from one device's mirror or from all mirrors.
    pub(super) fn forget_held(
        &mut self,
        device: Option<[u8; 32]>,
        condition: &str,
        values: &[Box<dyn ToSql>],
    ) -> rusqlite::Result<()> {
        let keys: Vec<(PublicKey, i64)> = self
            .mirrors
            .devices
            .iter()
            .filter(|(key, _)| device.is_none_or(|device| *key.as_bytes() == device))
            .map(|(key, device)| (*key, device.number))
            .collect();
        // Rows that wait for removal have no owner.
        while self.sweep_mirrors()? {}
        let delete = format!("DELETE FROM mirrors WHERE {condition} AND device = ?");
        for (key, number) in keys {
            self.begin(0)?;
            let number: Box<dyn ToSql> = Box::new(number);
            let values = values.iter().chain(std::iter::once(&number));
            let removed = self
                .connection
                .prepare(&delete)?
                .execute(rusqlite::params_from_iter(values))?;
            self.count_held(key, |held| held.saturating_sub(removed))?;
        }
        Ok(())
    }

    fn count_held(&mut self, key: PublicKey, change: impl FnOnce(usize) -> usize) -> rusqlite::Result<()> {
        if let Some(device) = self.mirrors.devices.get_mut(&key) {
            device.held = change(device.held);
            let sql = "UPDATE devices SET held = ?2 WHERE id = ?1";
            self.connection
                .prepare_cached(sql)?
                .execute(params![device.number, device.held])?;
        }
        Ok(())
    }

    fn keep_mirror_bounds(&mut self, key: PublicKey) -> rusqlite::Result<()> {
        let most = usize::try_from(self.quota.bytes() / QUOTA_PER_HASH).unwrap_or(usize::MAX);
        let total = |mirrors: &Mirrors| mirrors.devices.values().map(|device| device.held).sum::<usize>();
        while total(&self.mirrors) > most && self.forget_longest_absent(key)? {}
        while self
            .mirrors
            .devices
            .get(&key)
            .is_some_and(|device| device.held > most.min(MAX_HELD))
        {
            self.forget_some(key)?;
        }
        Ok(())
    }

    /// Removes arbitrary hashes from a mirror. A body that is nevertheless held is sent twice.
    fn forget_some(&mut self, key: PublicKey) -> rusqlite::Result<()> {
        let Some(device) = self.mirrors.devices.get_mut(&key) else {
            return Ok(());
        };
        let sql = "SELECT DISTINCT chk FROM mirrors WHERE device = ?1 AND chk > ?2 ORDER BY chk LIMIT ?3";
        let mut find = self.connection.prepare_cached(sql)?;
        let values = params![device.number, device.cursor.as_bytes(), STEP / 16];
        let victims = find
            .query_map(values, |row| row.get(0).map(hash_of))?
            .collect::<rusqlite::Result<Vec<_>>>()?;
        drop(find);
        device.cursor = victims
            .last()
            .copied()
            .unwrap_or(ContentHash::from_bytes([0; 32]));
        self.mirror_remove(key, &victims)
    }

    /// Deletes rows of removed mirrors. Returns true if there are more.
    pub(super) fn sweep_mirrors(&mut self) -> rusqlite::Result<bool> {
        let Some(number) = self.mirrors.garbage.front().copied() else {
            return Ok(false);
        };
        if self.writable().is_err() {
            return Ok(false);
        }
        self.begin(0)?;
        let sql = "SELECT chk FROM mirrors WHERE device = ?1 ORDER BY chk LIMIT 1 OFFSET ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        let last: Option<[u8; 32]> = find
            .query_row(params![number, STEP], |row| row.get(0))
            .optional()?;
        drop(find);
        let last: &[u8] = last.as_ref().map_or(&[0xff; 32], |last| last);
        let sql = "DELETE FROM mirrors WHERE device = ?1 AND chk <= ?2";
        if self
            .connection
            .prepare_cached(sql)?
            .execute(params![number, last])?
            <= STEP
        {
            self.mirrors.garbage.pop_front();
        }
        Ok(true)
    }
}

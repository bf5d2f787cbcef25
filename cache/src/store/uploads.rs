//! Bodies that are written while they arrive: unnamed rows until the hash is known.
use std::sync::Weak;

use longhaul_types::ContentHash;
use rusqlite::params;

use super::{
    schema::PART_BITS,
    state::{Store, Upload},
};
use crate::{
    Cost, StoreError,
    command::{Part, WriterId},
};

/// Maximum number of bodies written at once: more than browsers open connections.
const MOST_UPLOADS: usize = 512;

impl Store {
    pub(super) fn begin_upload(
        &mut self,
        writer: WriterId,
        alive: Weak<()>,
        cost: Cost,
    ) -> rusqlite::Result<()> {
        self.sweep_uploads();
        let full = self.uploads.len() >= MOST_UPLOADS;
        if full {
            // The chunks of the body are ignored, and `finish` returns an error.
            return Ok(());
        }
        let failed = self.writable().err();
        let body = self.next_body;
        if failed.is_none() {
            self.begin(0)?;
            let sql = "INSERT INTO bodies (id, length, worth, uses, priority) VALUES (?1, 0, 0, 0, 0)";
            self.connection.prepare_cached(sql)?.execute([body])?;
            self.next_body += 1;
        }
        let upload = Upload {
            body,
            alive,
            cost,
            parts: 0,
            length: 0,
            group: self.groups,
            failed,
        };
        self.uploads.insert(writer, upload);
        Ok(())
    }

    pub(super) fn append(&mut self, writer: WriterId, part: &Part) -> rusqlite::Result<()> {
        let refused = self.writable().err();
        let under_way: u64 = self.uploads.values().map(|upload| upload.length).sum();
        let no_room = (under_way > self.quota.bytes() / 2).then_some(StoreError::Full);
        let Some(upload) = self
            .uploads
            .get_mut(&writer)
            .filter(|upload| upload.failed.is_none())
        else {
            return Ok(());
        };
        let too_many = (upload.parts >> PART_BITS != 0).then_some(StoreError::TooLarge);
        if let Some(error) = refused.or(no_room).or(too_many) {
            upload.failed = Some(error);
            self.garbage.push_back(upload.body);
            return Ok(());
        }
        let (body, number) = (upload.body, upload.parts);
        upload.parts += 1;
        upload.length += part.data.len() as u64;
        self.begin(part.data.len() as u64)?;
        if let Some(upload) = self.uploads.get_mut(&writer) {
            upload.group = self.groups;
        }
        self.put_chunk(body, number, part)
    }

    /// Names a body. The inner error is the reason why the body cannot be named.
    pub(super) fn finish(
        &mut self,
        writer: WriterId,
        chk: ContentHash,
    ) -> rusqlite::Result<Result<(), StoreError>> {
        let Some(upload) = self.uploads.remove(&writer) else {
            return Ok(Err(StoreError::Full));
        };
        if let Some(error) = upload.failed {
            return Ok(Err(error));
        }
        self.garbage.push_back(upload.body);
        self.writable()
            .map_or_else(|error| Ok(Err(error)), |()| self.name(&upload, chk).map(Ok))
    }

    fn name(&mut self, upload: &Upload, chk: ContentHash) -> rusqlite::Result<()> {
        self.begin(0)?;
        if let Some((id, _)) = self.body_of(chk)? {
            *self.touched.entry(id).or_default() += 1;
            return Ok(());
        }
        self.garbage.pop_back();
        let worth = upload.cost.worth(upload.length);
        let priority = self.eviction.floor() + worth;
        let sql =
            "UPDATE bodies SET chk = ?2, length = ?3, worth = ?4, uses = 1, priority = ?5 WHERE id = ?1";
        let values = params![upload.body, chk.as_bytes(), upload.length, worth, priority];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    /// Discards the data of dropped writers.
    pub(super) fn sweep_uploads(&mut self) {
        let garbage = &mut self.garbage;
        self.uploads.retain(|_, upload| {
            let alive = upload.alive.strong_count() > 0;
            if !alive && upload.failed.is_none() {
                garbage.push_back(upload.body);
            }
            alive
        });
    }

    /// Fails the uploads that wrote in a group that was rolled back; for group zero, all uploads.
    pub(super) fn fail_uploads(&mut self, group: u64, reason: StoreError) {
        for upload in self.uploads.values_mut() {
            if (group == 0 || upload.group == group) && upload.failed.is_none() {
                upload.failed = Some(reason);
            }
        }
    }

    /// Finds the unnamed bodies without a writer: left over from a crash or a removal.
    pub(super) fn load_garbage(&mut self) -> rusqlite::Result<()> {
        let sql = "SELECT id FROM bodies WHERE chk IS NULL";
        let mut find = self.connection.prepare_cached(sql)?;
        let unnamed = find
            .query_map([], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        let sound = |body: &i64| {
            let mut uploads = self.uploads.values();
            uploads.any(|upload| upload.body == *body && upload.failed.is_none())
        };
        self.garbage = unnamed.into_iter().filter(|body| !sound(body)).collect();
        Ok(())
    }
}

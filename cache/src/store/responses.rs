//! Responses by partition, URL and secondary key.
use longhaul_http::request_context::origin_of;
use longhaul_types::ContentHash;
use rusqlite::{OptionalExtension as _, params};

use super::{
    content::{SUM, decode, encode, key, label, sum, variant},
    forget::{Labels, domain_of},
    state::Store,
};
use crate::{MAX_RESPONSE, MAX_VARIANTS, Partition, StoredResponse};

/// Maximum number of responses without a body, which eviction of bodies does not remove: redirects, errors.
const MOST_BODILESS: usize = 16_384;
/// Maximum number of responses with the same body (tracking pixels with ever new URLs).
const MOST_PER_BODY: i64 = 256;

/// A row among others with the same key.
struct Row {
    id: i64,
    body: Option<i64>,
}

impl Store {
    /// Returns the responses of a URL, newest first. Damaged rows are dropped.
    pub(super) fn find(&mut self, partition: &Partition, url: &str) -> rusqlite::Result<Vec<StoredResponse>> {
        let sql = "SELECT id, sum, content FROM responses WHERE key = ?1 ORDER BY id DESC";
        let mut find = self.connection.prepare_cached(sql)?;
        let mut rows = find.query([key(partition, url)])?;
        let (mut found, mut damaged) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            let content: Vec<u8> = row.get(2)?;
            let sound = row.get::<_, [u8; SUM]>(1)? == sum(&content);
            match decode(&content)
                .filter(|response| sound && response.partition == *partition && response.url == url)
            {
                Some(response) => found.push(response),
                None => damaged.push(row.get::<_, i64>(0)?),
            }
        }
        drop(rows);
        drop(find);
        self.drop_damaged_responses(&damaged)?;
        Ok(found)
    }

    fn drop_damaged_responses(&mut self, rows: &[i64]) -> rusqlite::Result<()> {
        self.shared.counters.damaged.add(rows.len() as u64);
        if rows.is_empty() || self.writable().is_err() {
            return Ok(());
        }
        self.begin(0)?;
        for id in rows {
            self.connection
                .prepare_cached("DELETE FROM responses WHERE id = ?1")?
                .execute([id])?;
        }
        self.load_totals()
    }

    /// Stores a response and replaces its predecessor. A response that cannot be stored still removes its
    /// predecessor, which it supersedes.
    pub(super) fn put(&mut self, response: &StoredResponse) -> rusqlite::Result<()> {
        let key = key(&response.partition, &response.url);
        let variant = variant(response);
        let before = self.row(key, variant)?;
        let content = encode(response);
        let body = self.referenced(response.chk)?;
        let kept = content.len() <= MAX_RESPONSE && body.is_some() == response.chk.is_some();
        if before.is_none() && !kept {
            return Ok(());
        }
        self.begin(content.len() as u64)?;
        if let Some(before) = &before {
            self.delete(before.id, before.body)?;
        }
        if kept {
            self.insert(key, variant, body, response, &content)?;
            self.totals.bodiless += usize::from(body.is_none());
            self.keep_bounds(key, body)?;
        }
        match before.and_then(|before| before.body) {
            Some(old) if Some(old) != body => self.demote(old),
            _ => Ok(()),
        }
    }

    fn insert(
        &self,
        key: [u8; SUM],
        variant: [u8; 8],
        body: Option<i64>,
        response: &StoredResponse,
        content: &[u8],
    ) -> rusqlite::Result<()> {
        let sql = "INSERT INTO responses
                   (key, vary, body, device, client, url, origin, domain, asker, frame, sum, content)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        let labels = Labels::of(&response.partition);
        let url = response.url.as_str();
        let values = params![
            key,
            variant,
            body,
            labels.device,
            labels.client,
            label(url),
            label(origin_of(url).unwrap_or_default()),
            label(&domain_of(url)),
            labels.asker,
            labels.frame,
            sum(content),
            content
        ];
        self.connection.prepare_cached(sql)?.execute(values)?;
        Ok(())
    }

    fn row(&self, key: [u8; SUM], vary: [u8; 8]) -> rusqlite::Result<Option<Row>> {
        let sql = "SELECT id, body FROM responses WHERE key = ?1 AND vary = ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        find.query_row(params![key, vary], |row| {
            Ok(Row {
                id: row.get(0)?,
                body: row.get(1)?,
            })
        })
        .optional()
    }

    fn referenced(&self, chk: Option<ContentHash>) -> rusqlite::Result<Option<i64>> {
        chk.map_or(Ok(None), |chk| Ok(self.body_of(chk)?.map(|(id, _)| id)))
    }

    pub(super) fn delete(&mut self, row: i64, body: Option<i64>) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("DELETE FROM responses WHERE id = ?1")?
            .execute([row])?;
        if body.is_none() {
            self.totals.bodiless = self.totals.bodiless.saturating_sub(1);
        }
        Ok(())
    }

    /// Deletes the oldest rows beyond the limits: variants, rows of a body, rows without a body.
    fn keep_bounds(&mut self, key: [u8; SUM], body: Option<i64>) -> rusqlite::Result<()> {
        let sql = "SELECT id, body FROM responses WHERE key = ?1 ORDER BY id DESC LIMIT -1 OFFSET ?2";
        let mut find = self.connection.prepare_cached(sql)?;
        let surplus = find.query_map(params![key, MAX_VARIANTS], |row| {
            Ok(Row {
                id: row.get(0)?,
                body: row.get(1)?,
            })
        })?;
        let surplus = surplus.collect::<rusqlite::Result<Vec<_>>>()?;
        drop(find);
        for row in surplus {
            self.delete(row.id, row.body)?;
        }
        let oldest = "DELETE FROM responses WHERE id = (SELECT id FROM responses WHERE body IS ?1 ORDER BY id LIMIT 1)";
        if body.is_none() {
            if self.totals.bodiless > MOST_BODILESS {
                self.connection.prepare_cached(oldest)?.execute([body])?;
                self.totals.bodiless -= 1;
            }
            return Ok(());
        }
        let sql = "SELECT count(*) FROM responses WHERE body = ?1";
        let rows: i64 = self
            .connection
            .prepare_cached(sql)?
            .query_row([body], |row| row.get(0))?;
        if rows > MOST_PER_BODY {
            self.connection.prepare_cached(oldest)?.execute([body])?;
        }
        Ok(())
    }

    /// Lowers the priority of a body without responses, so that it is evicted first; it may still serve as
    /// base.
    pub(super) fn demote(&self, body: i64) -> rusqlite::Result<()> {
        let sql = "UPDATE bodies SET uses = 1, priority = ?2 WHERE id = ?1 AND chk IS NOT NULL
                   AND NOT EXISTS (SELECT 1 FROM responses WHERE body = ?1)";
        self.connection
            .prepare_cached(sql)?
            .execute(params![body, self.eviction.floor()])?;
        Ok(())
    }

    /// Deletes all responses of a URL.
    pub(super) fn remove(&mut self, partition: &Partition, url: &str) -> rusqlite::Result<()> {
        let sql = "SELECT id, body FROM responses WHERE key = ?1";
        let mut find = self.connection.prepare_cached(sql)?;
        let rows = find.query_map([key(partition, url)], |row| {
            Ok(Row {
                id: row.get(0)?,
                body: row.get(1)?,
            })
        })?;
        let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        drop(find);
        if rows.is_empty() {
            return Ok(());
        }
        self.begin(0)?;
        for row in rows {
            self.delete(row.id, row.body)?;
            row.body.map_or(Ok(()), |body| self.demote(body))?;
        }
        Ok(())
    }
}

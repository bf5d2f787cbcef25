//! Deletion by owner and by site, without remains in the file.
use std::collections::BTreeSet;

use longhaul_http::site::SchemefulSite;
use rusqlite::{ToSql, params};

use super::{
    content::{hash_of, label},
    state::Store,
};
use crate::{Deletion, DeletionScope, Owner, OwnerSelection, Partition};

/// Bodies examined per step.
const STEP: usize = 1024;

/// Columns of a row that select it for deletion by partition.
pub(super) struct Labels {
    pub(super) device: Option<[u8; 32]>,
    pub(super) client: Option<i64>,
    pub(super) asker: Option<[u8; 8]>,
    pub(super) frame: Option<[u8; 8]>,
}

impl Labels {
    pub(super) fn of(partition: &Partition) -> Self {
        let owner = partition.owner();
        let mut domains = partition.domains().map(|domain| label(&domain));
        Self {
            device: owner.map(|owner| owner.device),
            client: owner.map(client_of),
            asker: domains.next(),
            frame: domains.next(),
        }
    }
}

/// SQLite has only signed integers.
fn client_of(owner: Owner) -> i64 {
    i64::from_le_bytes(owner.client.0.to_le_bytes())
}

/// Registrable domain of a URL's host.
pub(super) fn domain_of(url: &str) -> String {
    let site = SchemefulSite::of_url(url);
    site.map_or_else(String::new, |site| site.domain().to_owned())
}

/// Conditions on a row, and their values.
struct Condition {
    sql: &'static str,
    values: Vec<Box<dyn ToSql>>,
}

impl Condition {
    fn new(sql: &'static str, values: Vec<Box<dyn ToSql>>) -> Self {
        Self { sql, values }
    }

    fn of_whose(whose: OwnerSelection) -> Self {
        match whose {
            OwnerSelection::Everybody => Self::new("1", Vec::new()),
            OwnerSelection::Device(device) => Self::new("device = ?", vec![Box::new(device)]),
            OwnerSelection::Client(owner) => Self::new(
                "device = ? AND client = ?",
                vec![Box::new(owner.device), Box::new(client_of(owner))],
            ),
        }
    }

    fn of_what(what: &DeletionScope) -> Self {
        match what {
            DeletionScope::All => Self::new("1", Vec::new()),
            DeletionScope::Site(domain) => {
                let label = label(domain);
                Self::new(
                    "(domain = ? OR asker = ? OR frame = ?)",
                    vec![Box::new(label), Box::new(label), Box::new(label)],
                )
            }
            DeletionScope::Origin(origin) => Self::new("origin = ?", vec![Box::new(label(origin))]),
        }
    }

    fn and(self, other: Self) -> (String, Vec<Box<dyn ToSql>>) {
        let sql = format!("{} AND {}", self.sql, other.sql);
        let mut values = self.values;
        values.extend(other.values);
        (sql, values)
    }
}

impl Store {
    /// Performs a deletion request. Data deleted for a user leave no trace in the file; data deleted for an
    /// origin are only no longer used.
    pub(super) fn forget_of(&mut self, forget: &Deletion) -> rusqlite::Result<()> {
        let for_good = !matches!(forget.what, DeletionScope::Origin(_));
        self.overwrite_deleted(if for_good { "ON" } else { "FAST" })?;
        let forgotten = self.forget_rows(forget);
        self.overwrite_deleted("FAST")?;
        forgotten
    }

    fn overwrite_deleted(&self, extent: &str) -> rusqlite::Result<()> {
        self.connection.pragma_update(None, "secure_delete", extent)
    }

    fn forget_rows(&mut self, forget: &Deletion) -> rusqlite::Result<()> {
        self.begin(0)?;
        let (condition, values) = Condition::of_whose(forget.whose).and(Condition::of_what(&forget.what));
        let find = format!("SELECT id, body, url FROM responses WHERE {condition}");
        let rows = {
            let mut find = self.connection.prepare(&find)?;
            let values = rusqlite::params_from_iter(values.iter());
            let rows = find.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<rusqlite::Result<Vec<(i64, Option<i64>, [u8; 8])>>>()?
        };
        for (id, body, _) in &rows {
            self.delete(*id, *body)?;
            body.map_or(Ok(()), |body| self.demote(body))?;
        }
        let urls: BTreeSet<[u8; 8]> = rows.into_iter().map(|(_, _, url)| url).collect();
        for url in urls {
            self.forget_unshared(url)?;
        }
        if matches!(forget.what, DeletionScope::Origin(_)) {
            return Ok(());
        }
        let (condition, values) = Condition::of_whose(forget.whose).and(Condition::of_what(&forget.what));
        let delete = format!("DELETE FROM records WHERE {condition}");
        self.connection
            .prepare(&delete)?
            .execute(rusqlite::params_from_iter(values.iter()))?;
        self.forget_mirrored(forget)?;
        self.load_totals()?;
        self.forget_unnamed_bodies()?;
        self.leave_no_trace()
    }

    /// Deletes the shared responses of a URL that no other owner requested: every user of a shared response
    /// also has it in a private partition.
    fn forget_unshared(&mut self, url: [u8; 8]) -> rusqlite::Result<()> {
        let sql = "SELECT id, body FROM responses WHERE url = ?1 AND device IS NULL
                   AND NOT EXISTS (SELECT 1 FROM responses WHERE url = ?1 AND device IS NOT NULL)";
        let rows = {
            let mut find = self.connection.prepare_cached(sql)?;
            let rows = find.query_map([url], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(i64, Option<i64>)>>>()?
        };
        for (id, body) in rows {
            self.delete(id, body)?;
            body.map_or(Ok(()), |body| self.demote(body))?;
        }
        Ok(())
    }

    /// Deletes the selected data from mirrors.
    fn forget_mirrored(&mut self, forget: &Deletion) -> rusqlite::Result<()> {
        let (device, client) = match forget.whose {
            OwnerSelection::Everybody => (None, None),
            OwnerSelection::Device(device) => (Some(device), None),
            OwnerSelection::Client(owner) => (Some(owner.device), Some(owner)),
        };
        let of_client = client.map_or_else(
            || Condition::new("1", Vec::new()),
            |owner| Condition::new("client = ?", vec![Box::new(client_of(owner))]),
        );
        let of_what = match &forget.what {
            DeletionScope::All => Condition::new("1", Vec::new()),
            DeletionScope::Site(domain) => {
                let label = label(domain);
                Condition::new("(asker = ? OR frame = ?)", vec![Box::new(label), Box::new(label)])
            }
            DeletionScope::Origin(_) => return Ok(()),
        };
        let (condition, values) = of_client.and(of_what);
        self.forget_held(device, &condition, &values)
    }

    /// Deletes the bodies that no response refers to. Their owners are unknown.
    fn forget_unnamed_bodies(&mut self) -> rusqlite::Result<()> {
        let mut after = i64::MIN;
        loop {
            let sql = "SELECT id, chk FROM bodies WHERE id > ?1 AND chk IS NOT NULL
                       AND NOT EXISTS (SELECT 1 FROM responses WHERE body = bodies.id) ORDER BY id LIMIT ?2";
            let bodies = {
                let mut find = self.connection.prepare_cached(sql)?;
                let rows = find.query_map(params![after, STEP], |row| {
                    Ok((row.get::<_, i64>(0)?, hash_of(row.get(1)?)))
                })?;
                rows.collect::<rusqlite::Result<Vec<_>>>()?
            };
            let Some((last, _)) = bodies.last().copied() else {
                return Ok(());
            };
            after = last;
            for (body, chk) in bodies {
                self.take_out(body, chk)?;
            }
        }
    }

    /// Removes the data marked for removal, returns the free pages to the disk, and truncates the log. Rows
    /// are overwritten as they are deleted (`secure_delete`).
    fn leave_no_trace(&mut self) -> rusqlite::Result<()> {
        while let Some(body) = self.garbage.front().copied() {
            self.remove_chunks(body, STEP)?;
        }
        self.commit();
        while self.vacuum()? {}
        self.commit();
        if self.storage.is_file() {
            self.checkpoint("TRUNCATE")?;
        }
        Ok(())
    }

    /// Deletes all responses of a client for a URL that an unsafe request may have changed (RFC 9111 section
    /// 4.4), in all its partitions.
    pub(super) fn forget_url(&mut self, owner: Owner, url: &str) -> rusqlite::Result<()> {
        let sql = "SELECT id, body FROM responses WHERE url = ?1 AND device = ?2 AND client = ?3";
        let rows = {
            let mut find = self.connection.prepare_cached(sql)?;
            let values = params![label(url), owner.device, client_of(owner)];
            let rows = find.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(i64, Option<i64>)>>>()?
        };
        if rows.is_empty() {
            return Ok(());
        }
        self.begin(0)?;
        for (id, body) in rows {
            self.delete(id, body)?;
            body.map_or(Ok(()), |body| self.demote(body))?;
        }
        Ok(())
    }
}

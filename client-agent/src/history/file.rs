//! The file of the savings: sums of hours and days, and the bytes that bodies took on the hop.
//!
//! Sums contain no names of sites. The hashes of bodies show what was loaded to anybody who has the same bodies: the
//! deletion of the data of any site therefore deletes all hashes.
use std::path::Path;

use longhaul_types::{ContentHash, UnixTime};
use rusqlite::{Connection, OptionalExtension as _, Row, params, params_from_iter, types::Value};

use super::counts::{COLUMNS, Counts};
use crate::private_database::{self, Format, OpenDatabaseError};

/// Identifies the file in its header.
const APPLICATION_ID: i32 = 0x4c68_5361;
/// The version of the files that this program writes.
const VERSION: i32 = 1;
/// Number of days whose sums are kept.
const DAYS: u32 = 400;
/// Number of days for which the sums of hours are kept, too.
const DAYS_OF_HOURS: u32 = 8;
/// Maximum number of kept transfers: as many as the agent keeps in memory.
const MAX_TRANSFERS: u32 = 32 * 1024;

/// Kinds of periods. An hour is named by its UTC time, a day by the date in the time zone of this computer.
const ALL: i64 = 0;
const DAY: i64 = 1;
const HOUR: i64 = 2;

/// Counts and transfers that are added to the file in one transaction.
#[derive(Debug)]
pub(super) struct Addition {
    pub(super) counts: Counts,
    /// Bodies, by their hash, and the bytes that they took on the hop.
    pub(super) transfers: Vec<(ContentHash, u64)>,
    pub(super) at: UnixTime,
}

/// A day of this computer's calendar, such as `2026-03-31`, with its counts.
pub type Day = (String, Counts);

/// Sums of periods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The day of the newest counts.
    pub today: Counts,
    /// The month of the newest counts.
    pub month: Counts,
    /// Everything since [`Self::since`].
    pub all: Counts,
    /// The first day; `None` if nothing was ever counted.
    pub since: Option<String>,
    /// The kept days that have counts, oldest first; at most 400.
    pub days: Vec<Day>,
}

/// The open file.
#[derive(Debug)]
pub(super) struct HistoryFile {
    connection: Connection,
}

impl HistoryFile {
    /// Opens the file; creates it if it does not exist.
    ///
    /// # Errors
    /// The file is damaged, too new, or cannot be created.
    pub(super) fn open(path: &Path) -> Result<Self, OpenDatabaseError> {
        let connection = private_database::open(path, format(&tables()))?;
        Ok(Self { connection })
    }

    /// Creates sums that end with the process.
    ///
    /// # Errors
    /// There is no memory.
    pub(super) fn in_memory() -> Result<Self, OpenDatabaseError> {
        let connection = private_database::in_memory(format(&tables()))?;
        Ok(Self { connection })
    }

    /// Adds counts to the sums of their hour and day, and to the sum of everything.
    pub(super) fn add(&mut self, addition: &Addition) -> Result<(), rusqlite::Error> {
        let seconds = seconds(addition.at);
        let transaction = self.connection.transaction()?;
        let [day, hour]: [String; 2] = transaction.query_row(
            "SELECT date(?1, 'unixepoch', 'localtime'), strftime('%Y-%m-%d %H', ?1, 'unixepoch')",
            [seconds],
            |row| Ok([row.get(0)?, row.get(1)?]),
        )?;
        let first: Option<String> = transaction
            .query_row("SELECT name FROM periods WHERE kind = ?1", [ALL], |row| {
                row.get(0)
            })
            .optional()?;
        let is_new_day = add_to(&transaction, DAY, &day, &addition.counts)?;
        add_to(&transaction, HOUR, &hour, &addition.counts)?;
        add_to(
            &transaction,
            ALL,
            first.as_deref().unwrap_or(&day),
            &addition.counts,
        )?;
        for (body, bytes) in &addition.transfers {
            transaction.execute(
                "INSERT INTO transfers (body, bytes) VALUES (?1, ?2) ON CONFLICT (body) DO UPDATE SET bytes = excluded.bytes",
                params![body.as_bytes(), i64::try_from(*bytes).unwrap_or(i64::MAX)],
            )?;
        }
        if is_new_day {
            transaction.execute(
                "DELETE FROM periods WHERE kind = ?1 AND name <= date(?2, 'unixepoch', 'localtime', ?3)",
                params![DAY, seconds, format!("-{DAYS} days")],
            )?;
            transaction.execute(
                "DELETE FROM periods WHERE kind = ?1 AND name < strftime('%Y-%m-%d %H', ?2, 'unixepoch', ?3)",
                params![HOUR, seconds, format!("-{DAYS_OF_HOURS} days")],
            )?;
        }
        if !addition.transfers.is_empty() {
            transaction.execute(
                "DELETE FROM transfers WHERE number <= (SELECT max(number) FROM transfers) - ?1",
                [MAX_TRANSFERS],
            )?;
        }
        transaction.commit()
    }

    /// Returns the sums at a time.
    pub(super) fn summary(&self, now: UnixTime) -> Result<Summary, rusqlite::Error> {
        let columns = COLUMNS.join(", ");
        let mut statement = self.connection.prepare(&format!(
            "SELECT name, {columns} FROM periods WHERE kind = ?1 ORDER BY name"
        ))?;
        let mut read = |kind: i64| statement.query_map([kind], day)?.collect::<Result<Vec<Day>, _>>();
        let (all, days) = (read(ALL)?.pop(), read(DAY)?);
        let [today, month]: [String; 2] = self.connection.query_row(
            "SELECT date(?1, 'unixepoch', 'localtime'), strftime('%Y-%m', ?1, 'unixepoch', 'localtime')",
            [seconds(now)],
            |row| Ok([row.get(0)?, row.get(1)?]),
        )?;
        let mut of_month = Counts::default();
        for (_, counts) in days.iter().filter(|(name, _)| name.starts_with(&month)) {
            of_month = of_month.plus(counts);
        }
        let of_today = days.iter().find(|(name, _)| *name == today);
        Ok(Summary {
            today: of_today.map(|(_, counts)| *counts).unwrap_or_default(),
            month: of_month,
            all: all.as_ref().map(|(_, counts)| *counts).unwrap_or_default(),
            since: all.map(|(name, _)| name),
            days,
        })
    }

    /// Returns what bodies took on the hop, oldest first.
    pub(super) fn transfers(&self) -> Result<Vec<(ContentHash, u64)>, rusqlite::Error> {
        let mut statement = self
            .connection
            .prepare("SELECT body, bytes FROM transfers ORDER BY number")?;
        let rows = statement.query_map([], |row| {
            let (body, bytes): ([u8; 32], i64) = (row.get(0)?, row.get(1)?);
            Ok((ContentHash::from_bytes(body), u64::try_from(bytes).unwrap_or(0)))
        })?;
        rows.collect()
    }

    /// Deletes what bodies took on the hop, and the hours; the sums of days remain. The file contains none of the
    /// deleted data when the call returns.
    pub(super) fn forget(&self) -> Result<(), rusqlite::Error> {
        self.connection.execute("DELETE FROM transfers", [])?;
        self.connection
            .execute("DELETE FROM periods WHERE kind = ?1", [HOUR])?;
        private_database::flush(&self.connection)
    }
}

/// Adds counts to a period; returns true if the period is new.
fn add_to(connection: &Connection, kind: i64, name: &str, counts: &Counts) -> Result<bool, rusqlite::Error> {
    let places = (3..COLUMNS.len() + 3).map(|number| format!("?{number}"));
    let (places, sums) = (
        places.collect::<Vec<_>>().join(", "),
        COLUMNS
            .map(|column| format!("{column} = {column} + excluded.{column}"))
            .join(", "),
    );
    let is_new: bool = connection
        .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM periods WHERE kind = ?1 AND name = ?2)")?
        .query_row(params![kind, name], |row| row.get(0))?;
    let mut values = vec![Value::from(kind), Value::from(name.to_owned())];
    values.extend(counts.0.map(Value::from));
    connection
        .prepare_cached(&format!(
            "INSERT INTO periods VALUES (?1, ?2, {places}) ON CONFLICT (kind, name) DO UPDATE SET {sums}"
        ))?
        .execute(params_from_iter(values))?;
    Ok(is_new)
}

fn day(row: &Row<'_>) -> Result<Day, rusqlite::Error> {
    let mut counts = Counts::default();
    for (index, count) in counts.0.iter_mut().enumerate() {
        *count = row.get(index + 1)?;
    }
    Ok((row.get(0)?, counts))
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.since_epoch().as_secs()).unwrap_or(i64::MAX)
}

fn tables() -> String {
    let columns = COLUMNS.map(|name| format!("{name} INTEGER NOT NULL")).join(", ");
    format!(
        "CREATE TABLE IF NOT EXISTS periods (
            kind INTEGER NOT NULL, name TEXT NOT NULL, {columns}, PRIMARY KEY (kind, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS transfers (number INTEGER PRIMARY KEY, body BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL);"
    )
}

const fn format(tables: &str) -> Format<'_> {
    Format {
        application_id: APPLICATION_ID,
        version: VERSION,
        tables,
    }
}

#[cfg(test)]
mod tests;

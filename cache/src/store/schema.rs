//! The tables, and migration of files of older versions.
use rusqlite::Connection;

/// Identifies a Longhaul cache in the header of the file, so that no other program's file is mistaken for
/// one.
pub(super) const APPLICATION_ID: i32 = 0x4c68_4361;

/// Migration steps: step `n` turns a file of version `n - 1` into one of version `n`. Released steps never
/// change; a new file goes through all of them.
const STEPS: [&str; VERSION as usize] = [
    BODIES_RESPONSES_RECORDS,
    MIRRORS,
    PARTITIONS,
    MIRRORS_BY_PARTITION,
];

/// The version of the files that this program writes.
pub(super) const VERSION: u32 = 4;

/// A body without `chk` is being written or removed. The row id of a chunk is the body's id shifted left by
/// [`PART_BITS`] plus the chunk's number, which saves an index.
const BODIES_RESPONSES_RECORDS: &str = "
    CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
    CREATE TABLE bodies (
        id INTEGER PRIMARY KEY, chk BLOB, length INTEGER NOT NULL,
        worth REAL NOT NULL, uses INTEGER NOT NULL, priority REAL NOT NULL);
    CREATE UNIQUE INDEX bodies_by_chk ON bodies (chk) WHERE chk IS NOT NULL;
    CREATE INDEX bodies_by_priority ON bodies (priority) WHERE chk IS NOT NULL;
    CREATE INDEX bodies_unnamed ON bodies (id) WHERE chk IS NULL;
    CREATE TABLE chunks (id INTEGER PRIMARY KEY, hash BLOB NOT NULL, data BLOB NOT NULL);
    CREATE TABLE responses (
        id INTEGER PRIMARY KEY, key BLOB NOT NULL, vary BLOB NOT NULL, body INTEGER,
        sum BLOB NOT NULL, content BLOB NOT NULL);
    CREATE UNIQUE INDEX responses_by_key ON responses (key, vary);
    CREATE INDEX responses_by_body ON responses (body);
    CREATE TABLE records (
        kind INTEGER NOT NULL, key BLOB NOT NULL, used INTEGER NOT NULL, sum BLOB NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (kind, key));
    CREATE INDEX records_by_use ON records (kind, used);
";

const MIRRORS: &str = "
    CREATE TABLE devices (
        id INTEGER PRIMARY KEY, device BLOB NOT NULL UNIQUE, state INTEGER NOT NULL,
        held INTEGER NOT NULL, used INTEGER NOT NULL);
    CREATE TABLE mirrors (device INTEGER NOT NULL, chk BLOB NOT NULL, PRIMARY KEY (device, chk)) WITHOUT ROWID;
";

/// Older files store responses and records by URL without the owner; these are dropped. The new columns
/// select rows for deletion: device and client, URL, origin, and the domains of the URL and of the requester.
const PARTITIONS: &str = "
    DROP TABLE responses;
    DROP TABLE records;
    CREATE TABLE responses (
        id INTEGER PRIMARY KEY, key BLOB NOT NULL, vary BLOB NOT NULL, body INTEGER,
        device BLOB, client INTEGER, url BLOB NOT NULL, origin BLOB NOT NULL, domain BLOB NOT NULL,
        asker BLOB, frame BLOB, sum BLOB NOT NULL, content BLOB NOT NULL);
    CREATE UNIQUE INDEX responses_by_key ON responses (key, vary);
    CREATE INDEX responses_by_body ON responses (body);
    CREATE INDEX responses_by_url ON responses (url);
    CREATE INDEX responses_by_origin ON responses (origin);
    CREATE TABLE records (
        kind INTEGER NOT NULL, key BLOB NOT NULL, used INTEGER NOT NULL,
        device BLOB, client INTEGER, domain BLOB, asker BLOB, frame BLOB,
        sum BLOB NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY (kind, key));
    CREATE INDEX records_by_use ON records (kind, used);
";

/// Older files do not record the site for which a device received a body; their mirrors are reset. The labels
/// select rows for deletion.
const MIRRORS_BY_PARTITION: &str = "
    DELETE FROM devices;
    DROP TABLE mirrors;
    CREATE TABLE mirrors (
        device INTEGER NOT NULL, chk BLOB NOT NULL, partition BLOB NOT NULL,
        client INTEGER, asker BLOB, frame BLOB, PRIMARY KEY (device, chk, partition)) WITHOUT ROWID;
";

/// Bits of a chunk's row id for its number within the body: bodies of up to 64 GiB.
pub(super) const PART_BITS: u32 = 20;

/// Migrates the file to [`VERSION`] in one transaction.
pub(super) fn migrate(connection: &Connection, from: u32) -> rusqlite::Result<()> {
    migrate_to(connection, from, VERSION)
}

fn migrate_to(connection: &Connection, from: u32, to: u32) -> rusqlite::Result<()> {
    let transaction = connection.unchecked_transaction()?;
    let missing = STEPS.iter().take(to as usize).skip(from as usize);
    for step in missing {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "user_version", to)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

/// Returns the version of an open file; zero if it is empty.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// Returns the file's application id; zero if it is empty.
pub(super) fn application(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("PRAGMA application_id", [], |row| row.get(0))
}

/// Creates a file as version `version` of the program did.
#[cfg(test)]
pub(super) fn make_old(connection: &Connection, version: u32) -> rusqlite::Result<()> {
    migrate_to(connection, 0, version)
}

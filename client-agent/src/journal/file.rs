//! The file of the journal, if the user wants one: the requests that are in memory.
use std::{collections::BTreeMap, path::Path};

use rusqlite::{Connection, params};

use super::record::{RequestRecord, ResponseEnd};
use crate::private_database::{self, Format, OpenDatabaseError};

const FORMAT: Format<'_> = Format {
    application_id: 0x4c68_4a6f,
    version: 1,
    tables: "CREATE TABLE IF NOT EXISTS requests (number INTEGER PRIMARY KEY, record TEXT NOT NULL);",
};

/// The open file.
#[derive(Debug)]
pub(super) struct JournalFile {
    connection: Connection,
    /// The requests in the file.
    written: BTreeMap<u64, RequestRecord>,
}

impl JournalFile {
    /// Opens the file, which only its owner can read; creates it if it does not exist. Returns its requests, too, oldest
    /// first. A record of another version that cannot be read is left out.
    ///
    /// # Errors
    /// The file is damaged, too new, or cannot be created.
    pub(super) fn open(path: &Path) -> Result<(Self, Vec<RequestRecord>), OpenDatabaseError> {
        let connection = private_database::open(path, FORMAT)?;
        let mut written = BTreeMap::new();
        {
            let mut statement = connection.prepare("SELECT record FROM requests ORDER BY number")?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
            for text in rows {
                if let Ok(record) = serde_json::from_str::<RequestRecord>(&text?) {
                    written.insert(record.number, record);
                }
            }
        }
        let requests = written.values().cloned().map(after_restart).collect();
        Ok((Self { connection, written }, requests))
    }

    /// Writes what differs from the file. With `is_deletion`, the file contains nothing else when the call returns.
    ///
    /// # Errors
    /// The disk.
    pub(super) fn write(
        &mut self,
        requests: &[RequestRecord],
        is_deletion: bool,
    ) -> Result<(), rusqlite::Error> {
        let now: BTreeMap<u64, &RequestRecord> =
            requests.iter().map(|record| (record.number, record)).collect();
        let gone: Vec<u64> = self
            .written
            .keys()
            .copied()
            .filter(|number| !now.contains_key(number))
            .collect();
        let changed: Vec<&RequestRecord> = now
            .iter()
            .filter(|(number, record)| self.written.get(number) != Some(*record))
            .map(|(_, record)| *record)
            .collect();
        let transaction = self.connection.transaction()?;
        for number in &gone {
            transaction
                .prepare_cached("DELETE FROM requests WHERE number = ?1")?
                .execute([number.cast_signed()])?;
        }
        for record in &changed {
            // A record has only texts and numbers.
            let text = serde_json::to_string(record).unwrap_or_default();
            transaction
                .prepare_cached("INSERT OR REPLACE INTO requests VALUES (?1, ?2)")?
                .execute(params![record.number.cast_signed(), text])?;
        }
        transaction.commit()?;
        for number in gone {
            self.written.remove(&number);
        }
        for record in changed {
            self.written.insert(record.number, record.clone());
        }
        if is_deletion {
            private_database::flush(&self.connection)?;
        }
        Ok(())
    }
}

/// What was under way when the agent ended, has ended early.
fn after_restart(mut record: RequestRecord) -> RequestRecord {
    if record.end == ResponseEnd::Running {
        record.end = ResponseEnd::Broken;
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, url: &str) -> RequestRecord {
        RequestRecord {
            number,
            url: url.to_owned(),
            end: ResponseEnd::Complete,
            ..RequestRecord::default()
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_deletions_leave_nothing_in_the_files() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal.sqlite");
        let (mut file, empty) = JournalFile::open(&path).unwrap();
        assert!(empty.is_empty());
        let mut under_way = record(2, "http://b.test/");
        under_way.end = ResponseEnd::Running;
        let both = [record(1, "http://secret.test/"), under_way.clone()];
        file.write(&both, false).unwrap();
        drop(file);

        let (mut file, read) = JournalFile::open(&path).unwrap();
        assert_eq!(read[0], both[0]);
        assert_eq!(read[1].end, ResponseEnd::Broken, "it was under way");
        file.write(&[under_way], true).unwrap();
        for entry in std::fs::read_dir(home.path()).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            assert!(!bytes.windows(6).any(|part| part == b"secret"), "deleted");
        }
        drop(file);
        assert_eq!(JournalFile::open(&path).unwrap().1.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn only_its_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("journal.sqlite");
        let (mut file, _) = JournalFile::open(&path).unwrap();
        file.write(&[record(1, "http://a.test/")], false).unwrap();
        for entry in std::fs::read_dir(home.path()).unwrap() {
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{mode:o}");
        }
    }
}

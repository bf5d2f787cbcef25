//! Files of SQLite that only their owner can read.
use std::{
    fs::{self, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, ErrorCode};

/// What a program expects of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format<'a> {
    /// Identifies the file in its header.
    pub(crate) application_id: i32,
    /// The version of the files that this program writes.
    pub(crate) version: i32,
    /// Statements that create the tables that do not exist.
    pub(crate) tables: &'a str,
}

/// Error of opening a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenDatabaseError {
    /// A part of the file is not what SQLite wrote.
    #[error("it is damaged")]
    Damaged,
    /// The file was written by a newer version.
    #[error("it was written by a newer version")]
    Newer,
    /// It cannot be created.
    #[error(transparent)]
    Create(#[from] io::Error),
    /// SQLite's error.
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

impl OpenDatabaseError {
    /// True if no program of this version can use the file; a full disk, for example, is no reason to lose it.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Damaged | Self::Newer => true,
            Self::Create(_) => false,
            Self::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt)
            ),
        }
    }
}

/// Opens the file, which only its owner can read; creates it if it does not exist.
///
/// # Errors
/// The file is damaged, too new, or cannot be created.
pub(crate) fn open(path: &Path, format: Format<'_>) -> Result<Connection, OpenDatabaseError> {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?;
    prepare(Connection::open(path)?, format)
}

/// Creates tables that end with the process.
///
/// # Errors
/// There is no memory.
pub(crate) fn in_memory(format: Format<'_>) -> Result<Connection, OpenDatabaseError> {
    prepare(Connection::open_in_memory()?, format)
}

fn prepare(connection: Connection, format: Format<'_>) -> Result<Connection, OpenDatabaseError> {
    let Format {
        application_id,
        version,
        tables,
    } = format;
    let pragma = |name| connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get::<_, i32>(0));
    let (id, found) = (pragma("application_id")?, pragma("user_version")?);
    if found > version || (found > 0 && id != application_id) {
        return Err(OpenDatabaseError::Newer);
    }
    // A commit survives the end of the process at once, and a power failure some seconds later.
    connection.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = ON; PRAGMA temp_store = MEMORY;",
    )?;
    connection.execute_batch(&format!(
        "BEGIN; {tables} PRAGMA application_id = {application_id}; PRAGMA user_version = {version}; COMMIT;"
    ))?;
    // Damage beyond the first page.
    let checked: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
    if checked != "ok" {
        return Err(OpenDatabaseError::Damaged);
    }
    Ok(connection)
}

/// Sets a file aside that cannot be used.
pub(crate) fn set_aside(path: &Path) {
    for ending in ["-wal", "-shm"] {
        drop(fs::remove_file(beside(path, ending)));
    }
    drop(fs::rename(path, beside(path, ".damaged")));
}

/// Removes a file with what SQLite keeps beside it.
///
/// # Errors
/// The file exists and cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    for path in ["-wal", "-shm", ".damaged", ""].map(|ending| beside(path, ending)) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// Writes all deletions into the file itself, and empties the log beside it.
///
/// # Errors
/// The disk.
pub(crate) fn flush(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

//! The file on disk: creation, locking, opening, and setting aside.
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use longhaul_types::ByteCount;
use rusqlite::Connection;

use super::{schema, sqlite_error::SqliteErrorClass};
use crate::{OpenError, ResetReason};

/// Page size in bytes. SQLite's own measurements with BLOBs of 100 KB find 8 and 16 KiB the fastest
/// (sqlite.org/intern-v-extern-blob.html).
pub(super) const PAGE: u64 = 8192;
/// Page cache in KiB: enough for the index pages of lookups. Pages of bodies are used only once.
const PAGE_CACHE_KIB: i64 = 2000;
/// Number of cached prepared statements.
const STATEMENTS: usize = 64;
/// Size of the write-ahead log in pages (4 MiB) at which a commit performs a checkpoint, if no idle moment
/// came first.
const LOG_PAGES: i64 = 512;
/// Size in bytes to which the log is truncated after a burst.
const LOG_LIMIT: i64 = 4 * 1024 * 1024;
/// Maximum size of the log after a large group of changes.
pub(super) const LOG_ROOM: u64 = 8 * 1024 * 1024;
/// Reserve in bytes for a full disk: removal needs disk space first, because the log must be written into the
/// file. At most an eighth of the quota.
const SPARE: u64 = LOG_ROOM;
/// Bytes beyond the quota that may be written before the next eviction step.
const SLACK: u64 = 8 * 1024 * 1024;

/// The cache's file on disk, locked against other processes while this value exists.
#[derive(Debug)]
pub(super) struct CacheFile {
    path: PathBuf,
    _lock: File,
}

/// A connection to a valid file.
#[derive(Debug)]
pub(super) struct OpenedFile {
    pub(super) connection: Connection,
    pub(super) reset: Option<ResetReason>,
}

impl CacheFile {
    /// Creates the directory and takes the lock. The inner error is the reason why no file can be written.
    pub(super) fn lock(dir: &Path, file: &str) -> Result<Result<Self, io::Error>, OpenError> {
        let path = dir.join(file);
        let lock = match make_private(dir).and_then(|()| open_private(&beside(&path, ".lock"))) {
            Ok(lock) => lock,
            Err(error) => return Ok(Err(error)),
        };
        match lock.try_lock() {
            Ok(()) => Ok(Ok(Self { path, _lock: lock })),
            Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path }),
            // A file system without locks: SQLite's own exclusive lock fails there, too.
            Err(TryLockError::Error(error)) => Ok(Err(error)),
        }
    }

    /// Path of the file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Disk usage of file and log in bytes.
    pub(super) fn disk_usage(&self) -> u64 {
        let length = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        length(&self.path).saturating_add(length(&beside(&self.path, "-wal")))
    }

    /// Opens the file; sets aside a file that is invalid or too new.
    pub(super) fn open(&self, quota: ByteCount) -> Result<OpenedFile, rusqlite::Error> {
        match self.connect(quota) {
            Ok(connection) => {
                let _ = fs::remove_file(beside(&self.path, ".damaged"));
                Ok(OpenedFile {
                    connection,
                    reset: None,
                })
            }
            Err(ConnectError::Newer { version }) => {
                let aside = beside(&self.path, &format!(".v{version}"));
                let _ = fs::rename(beside(&self.path, "-wal"), beside(&aside, "-wal"));
                let _ = fs::rename(&self.path, aside);
                self.create_empty(quota, ResetReason::Newer { version })
            }
            Err(ConnectError::Sqlite(error)) if SqliteErrorClass::of(&error) == SqliteErrorClass::Damaged => {
                self.set_aside_damaged();
                self.create_empty(quota, ResetReason::Damaged)
            }
            Err(ConnectError::Sqlite(error)) => Err(error),
        }
    }

    /// Keeps a damaged file for diagnosis. Only the last one is kept, and only until the next start that
    /// finds a valid file: it uses as much disk space as the cache itself.
    pub(super) fn set_aside_damaged(&self) {
        let _ = fs::rename(&self.path, beside(&self.path, ".damaged"));
        self.remove();
    }

    /// Allocates the reserve; on an almost full disk, half of the free space.
    pub(super) fn keep_spare(&self, quota: ByteCount) {
        let path = beside(&self.path, ".spare");
        let length = SPARE.min(quota.bytes() / 8);
        if fs::metadata(&path).is_ok_and(|spare| spare.len() == length) {
            return;
        }
        let Ok(mut spare) = open_private(&path).and_then(|spare| spare.set_len(0).map(|()| spare)) else {
            return;
        };
        // Written out, because a file that is only extended occupies no space.
        if io::copy(&mut io::repeat(0).take(length), &mut spare).is_err() {
            let written = spare.metadata().map_or(0, |spare| spare.len());
            let _ = spare.set_len(written / 2);
        }
    }

    /// Releases the reserve.
    pub(super) fn give_up_spare(&self) {
        let _ = fs::remove_file(beside(&self.path, ".spare"));
    }

    /// Removes the file and its log.
    pub(super) fn remove(&self) {
        for name in [
            self.path.clone(),
            beside(&self.path, "-wal"),
            beside(&self.path, "-journal"),
        ] {
            let _ = fs::remove_file(name);
        }
    }

    /// Creates an empty file.
    pub(super) fn create_empty(
        &self,
        quota: ByteCount,
        reason: ResetReason,
    ) -> Result<OpenedFile, rusqlite::Error> {
        self.remove();
        match self.connect(quota) {
            Ok(connection) => Ok(OpenedFile {
                connection,
                reset: Some(reason),
            }),
            Err(ConnectError::Sqlite(error)) => Err(error),
            // Unreachable with an empty file; such a file is not usable.
            Err(ConnectError::Newer { .. }) => Err(rusqlite::Error::InvalidQuery),
        }
    }

    fn connect(&self, quota: ByteCount) -> Result<Connection, ConnectError> {
        // SQLite would make the file readable for others; the log inherits the mode.
        if let Err(error) = open_private(&self.path) {
            tracing::debug!(%error, "the cache's file cannot be created");
        }
        let connection = Connection::open(&self.path)?;
        connection.busy_timeout(std::time::Duration::ZERO)?;
        // Exclusive before the first access to the log: SQLite then needs no shared memory beside the file.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        // Before any write: a rejected file remains unchanged.
        if check_header(&connection)? == 0 {
            connection.pragma_update(None, "page_size", PAGE)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        connection.pragma_update(None, "journal_size_limit", LOG_LIMIT)?;
        connection.pragma_update(None, "wal_autocheckpoint", LOG_PAGES)?;
        tune(&connection, quota)?;
        Ok(connection)
    }
}

/// Opens a cache in memory.
pub(super) fn in_memory(quota: ByteCount) -> rusqlite::Result<Connection> {
    let connection = Connection::open_in_memory()?;
    connection.pragma_update(None, "page_size", PAGE)?;
    tune(&connection, quota)?;
    Ok(connection)
}

/// A file that is not usable.
enum ConnectError {
    Newer { version: u32 },
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for ConnectError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Returns the version of a usable file, zero if it is empty.
fn check_header(connection: &Connection) -> Result<u32, ConnectError> {
    let version = schema::version(connection)?;
    let foreign = schema::application(connection)? != if version == 0 { 0 } else { schema::APPLICATION_ID };
    match u32::try_from(version) {
        Ok(version) if version > schema::VERSION && !foreign => Err(ConnectError::Newer { version }),
        Ok(version) if !foreign => Ok(version),
        _ => Err(ConnectError::Sqlite(rusqlite::Error::InvalidQuery)),
    }
}

fn tune(connection: &Connection, quota: ByteCount) -> rusqlite::Result<()> {
    connection.pragma_update(None, "cache_size", -PAGE_CACHE_KIB)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Deleted data are overwritten where that needs no additional write; deletion requests overwrite them
    // everywhere.
    connection.pragma_update(None, "secure_delete", "FAST")?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let version = u32::try_from(schema::version(connection)?).unwrap_or(0);
    if version < schema::VERSION {
        schema::migrate(connection, version)?;
    }
    // After the migration: the file may be larger than a lowered quota, and SQLite then uses the larger
    // limit.
    let pages = (quota.bytes() + quota.bytes() / 16 + SLACK) / PAGE;
    connection.pragma_update(None, "max_page_count", i64::try_from(pages).unwrap_or(i64::MAX))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn make_private(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

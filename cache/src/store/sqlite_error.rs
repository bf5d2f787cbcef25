//! Classification of SQLite errors.
use rusqlite::{Error, ErrorCode, ffi};

/// Class of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SqliteErrorClass {
    /// The file is not one that this program wrote.
    Damaged,
    /// No further data can be written: disk, disk quota or page limit.
    Full,
    /// The file belongs to another process.
    InUse,
}

impl SqliteErrorClass {
    /// Classifies an error. Errors that only a damaged file can cause (a missing table, a column of another
    /// type, a violated constraint) count as damage.
    pub(super) fn of(error: &Error) -> Self {
        let Error::SqliteFailure(failure, _) = error else {
            return Self::Damaged;
        };
        if matches!(
            failure.extended_code,
            ffi::SQLITE_IOERR_WRITE
                | ffi::SQLITE_IOERR_FSYNC
                | ffi::SQLITE_IOERR_DIR_FSYNC
                | ffi::SQLITE_IOERR_TRUNCATE
                | ffi::SQLITE_IOERR_NOMEM
                | ffi::SQLITE_IOERR_DELETE
        ) {
            return Self::Full;
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "all other codes are impossible with a sound file"
        )]
        match failure.code {
            ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::OutOfMemory | ErrorCode::CannotOpen => {
                Self::Full
            }
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::InUse,
            _ => Self::Damaged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: i32) -> SqliteErrorClass {
        SqliteErrorClass::of(&Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn sqlite_error_codes_are_classified() {
        assert_eq!(of(ffi::SQLITE_CORRUPT), SqliteErrorClass::Damaged);
        assert_eq!(of(ffi::SQLITE_NOTADB), SqliteErrorClass::Damaged);
        assert_eq!(of(ffi::SQLITE_IOERR_SHORT_READ), SqliteErrorClass::Damaged);
        assert_eq!(of(ffi::SQLITE_FULL), SqliteErrorClass::Full);
        assert_eq!(of(ffi::SQLITE_IOERR_WRITE), SqliteErrorClass::Full);
        assert_eq!(of(ffi::SQLITE_BUSY), SqliteErrorClass::InUse);
        assert_eq!(
            SqliteErrorClass::of(&Error::QueryReturnedNoRows),
            SqliteErrorClass::Damaged
        );
    }
}

//! A streaming reader of WARC records, plain or gzip (one member per record, or any other division).
use std::{
    fmt,
    io::{self, BufRead, BufReader, Read},
};

use flate2::bufread::MultiGzDecoder;

/// Maximum size of a record's header block. Real ones have about 500 bytes; long URLs need more.
const MAX_HEADER: usize = 64 * 1024;
/// Maximum size of a record's block, which limits the memory that a hostile file can claim. No object of a
/// page is nearly as large.
const MAX_BLOCK: u64 = 64 * 1024 * 1024;
/// Maximum number of records in a file: limits the time spent on a file of empty records.
const MAX_RECORDS: u64 = 1_000_000;

/// Kind of a record (ISO 28500 section 6), as far as needed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Describes the file.
    WarcInfo,
    /// An HTTP response as received.
    Response,
    /// An HTTP request as sent.
    Request,
    /// `metadata`, `revisit`, `resource`, `conversion`, `continuation` and kinds of later versions.
    Other,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Kind of the record.
    pub kind: RecordKind,
    /// Number of the record in the file, from 1.
    pub number: u64,
    /// Block of the record; empty for [`RecordKind::Other`], whose block is skipped.
    pub block: Vec<u8>,
    fields: Vec<(String, String)>,
}

impl Record {
    /// Returns the first value of the named field; names are compared case-insensitively.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields
            .iter()
            .find_map(|(key, value)| key.eq_ignore_ascii_case(name).then_some(value.as_str()))
    }

    /// Returns `WARC-Target-URI` without the angle brackets that WARC/1.0 recorders add.
    pub fn target_uri(&self) -> Option<&str> {
        let uri = self.field("WARC-Target-URI")?;
        Some(
            uri.strip_prefix('<')
                .and_then(|uri| uri.strip_suffix('>'))
                .unwrap_or(uri),
        )
    }
}

/// Error of an invalid WARC file, with the number of the record.
#[derive(Debug, thiserror::Error)]
#[error("record {record}: {fault}")]
pub struct WarcError {
    /// Number of the record in the file, from 1.
    pub record: u64,
    /// Cause.
    pub fault: WarcFault,
}

/// Errors of a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WarcFault {
    /// The file cannot be read, or its gzip data are damaged.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file ends inside the record.
    #[error("the file ends within it (cut off while copying?)")]
    Truncated,
    /// The record does not start with `WARC/1.`.
    #[error("does not start with `WARC/1.0` or `WARC/1.1`, but with `{0}`")]
    Version(String),
    /// The header exceeds the size limit.
    #[error("its header is longer than {} KiB", MAX_HEADER / 1024)]
    HeaderTooLong,
    /// A header line is not `Name: value`.
    #[error("header line `{0}` is not `Name: value`")]
    HeaderLine(String),
    /// The length is absent or not a number.
    #[error("has no valid Content-Length")]
    Length,
    /// The block exceeds the size limit.
    #[error("its block of {0} bytes is over the limit of {limit} MiB", limit = MAX_BLOCK / (1024 * 1024))]
    BlockTooLong(u64),
    /// The block is not followed by two line ends, so the length is wrong.
    #[error("its block does not end where its Content-Length requires")]
    BlockEnd,
    /// The file has too many records.
    #[error("the file has more than {MAX_RECORDS} records")]
    TooMany,
}

/// Reads records one after the other. After an error it returns no further records.
pub struct WarcReader<'a> {
    input: Box<dyn BufRead + Send + 'a>,
    records: u64,
    done: bool,
}

impl<'a> WarcReader<'a> {
    /// Returns a reader of `input`; gzip is detected by the first bytes.
    ///
    /// # Errors
    /// The first bytes cannot be read.
    pub fn new(input: impl Read + Send + 'a) -> Result<Self, WarcError> {
        let mut input = BufReader::new(input);
        let start = input.fill_buf().map_err(|error| WarcError {
            record: 1,
            fault: WarcFault::Read(error),
        })?;
        let input: Box<dyn BufRead + Send + 'a> = if start.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::new(MultiGzDecoder::new(input)))
        } else {
            Box::new(input)
        };
        Ok(Self {
            input,
            records: 0,
            done: false,
        })
    }

    /// Returns the next record; `None` at the end of the file.
    ///
    /// # Errors
    /// The file is damaged or exceeds a limit.
    pub fn next_record(&mut self) -> Result<Option<Record>, WarcError> {
        if self.done {
            return Ok(None);
        }
        let number = self.records + 1;
        let read = self.read_record(number);
        self.done = !matches!(read, Ok(Some(_)));
        self.records = number;
        read.map_err(|fault| WarcError {
            record: number,
            fault,
        })
    }

    fn read_record(&mut self, number: u64) -> Result<Option<Record>, WarcFault> {
        let Some(version) = self.read_version()? else {
            return Ok(None);
        };
        if number > MAX_RECORDS {
            return Err(WarcFault::TooMany);
        }
        if !version.starts_with(b"WARC/1.") {
            return Err(WarcFault::Version(excerpt(&version)));
        }
        let fields = self.read_fields()?;
        let mut record = Record {
            kind: RecordKind::Other,
            number,
            block: Vec::new(),
            fields,
        };
        record.kind = match record.field("WARC-Type") {
            Some("warcinfo") => RecordKind::WarcInfo,
            Some("response") => RecordKind::Response,
            Some("request") => RecordKind::Request,
            _ => RecordKind::Other,
        };
        let length = record
            .field("Content-Length")
            .and_then(|length| length.parse().ok());
        let length = length.ok_or(WarcFault::Length)?;
        record.block = self.read_block(record.kind, length)?;
        Ok(Some(record))
    }

    /// Reads the version line; skips empty lines before it, because some recorders write more than two after
    /// a block.
    fn read_version(&mut self) -> Result<Option<Vec<u8>>, WarcFault> {
        for _ in 0..MAX_HEADER {
            let mut budget = MAX_HEADER;
            match self.read_line(&mut budget)? {
                None => return Ok(None),
                Some(line) if line.is_empty() => {}
                Some(line) => return Ok(Some(line)),
            }
        }
        Err(WarcFault::HeaderTooLong)
    }

    fn read_fields(&mut self) -> Result<Vec<(String, String)>, WarcFault> {
        let mut budget = MAX_HEADER;
        let mut fields: Vec<(String, String)> = Vec::new();
        loop {
            let line = self.read_line(&mut budget)?.ok_or(WarcFault::Truncated)?;
            if line.is_empty() {
                return Ok(fields);
            }
            let text = String::from_utf8_lossy(&line);
            if let (true, Some((_, last))) = (text.starts_with([' ', '\t']), fields.last_mut()) {
                last.push(' ');
                last.push_str(text.trim());
                continue;
            }
            let (name, value) = text
                .split_once(':')
                .filter(|(name, _)| !name.trim().is_empty())
                .ok_or_else(|| WarcFault::HeaderLine(excerpt(&line)))?;
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    fn read_block(&mut self, kind: RecordKind, length: u64) -> Result<Vec<u8>, WarcFault> {
        let mut block = Vec::new();
        let read = if kind == RecordKind::Other {
            io::copy(&mut self.input.by_ref().take(length), &mut io::sink())
        } else if length > MAX_BLOCK {
            return Err(WarcFault::BlockTooLong(length));
        } else {
            self.input
                .by_ref()
                .take(length)
                .read_to_end(&mut block)
                .map(|read| read as u64)
        };
        if read.map_err(fault_of)? < length {
            return Err(WarcFault::Truncated);
        }
        // The two line ends may be missing after the last record of the file.
        for _ in 0..2 {
            let mut budget = 2;
            match self.read_line(&mut budget) {
                Ok(None) => break,
                Ok(Some(line)) if line.is_empty() => {}
                Ok(Some(_)) | Err(WarcFault::HeaderTooLong) => return Err(WarcFault::BlockEnd),
                Err(fault) => return Err(fault),
            }
        }
        Ok(block)
    }

    /// Reads one line without its end (CRLF, or LF as some tools write); `None` at the end of the file.
    fn read_line(&mut self, budget: &mut usize) -> Result<Option<Vec<u8>>, WarcFault> {
        let mut line = Vec::new();
        let limit = u64::try_from(*budget).unwrap_or(u64::MAX);
        let read = self
            .input
            .by_ref()
            .take(limit)
            .read_until(b'\n', &mut line)
            .map_err(fault_of)?;
        if read == 0 {
            return if *budget == 0 {
                Err(WarcFault::HeaderTooLong)
            } else {
                Ok(None)
            };
        }
        if line.last() != Some(&b'\n') {
            let out_of_budget = read == *budget;
            return Err(if out_of_budget {
                WarcFault::HeaderTooLong
            } else {
                WarcFault::Truncated
            });
        }
        *budget -= read;
        line.pop();
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(line))
    }
}

impl fmt::Debug for WarcReader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WarcReader")
            .field("records", &self.records)
            .finish_non_exhaustive()
    }
}

fn fault_of(error: io::Error) -> WarcFault {
    if error.kind() == io::ErrorKind::UnexpectedEof {
        WarcFault::Truncated
    } else {
        WarcFault::Read(error)
    }
}

/// Returns the start of a line, safe for display on a terminal.
fn excerpt(line: &[u8]) -> String {
    line.iter()
        .take(40)
        .map(|byte| byte.escape_ascii().to_string())
        .collect()
}

#[cfg(test)]
mod tests;

//! Heads of HTTP/1.1 responses: read as Chromium reads them, written as RFC 9112 demands.
//!
//! Many servers and scripts write heads that RFC 9112 forbids, and browsers load their pages. What a browser
//! skips is skipped here; what reaches hyper, the hop, the caches and the browser is well formed. Refused is
//! what two recipients could understand differently: NUL, and ambiguous lengths ([`super::framing`]).
use std::borrow::Cow;

use super::framing::{BodyFraming, FramingFields};

/// Bytes before the status line that are skipped, as in Chromium: empty lines, and the rest of a body that was
/// longer than announced.
const MAX_JUNK: usize = 4;
/// Beginning of each status line, in any case.
const HTTP: &[u8] = b"http";

/// Errors of reading a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadError {
    /// Two lengths, or a length beside chunks.
    #[error("the response's length is ambiguous")]
    AmbiguousLength,
    /// There is no status line where one must be.
    #[error("the origin does not speak HTTP")]
    NotHttp,
    /// NUL in the head.
    #[error("the response's header section has a NUL character")]
    Nul,
    /// A status that is no number from 100 to 999.
    #[error("the response's status is not a number of three digits")]
    Status,
    /// The header section exceeds the limits.
    #[error("the response's header section is too large")]
    TooLarge,
    /// A transfer coding that was not requested.
    #[error("the response has an unknown transfer coding")]
    TransferCoding,
    /// The connection ended within the head.
    #[error("the connection ended within the response's header section")]
    Truncated,
}

/// What decides about a head besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadContext {
    /// The request's method is HEAD: the response has no body, whatever its head says.
    pub(crate) is_head: bool,
    /// The client decodes chunks in HTTP/1.0.
    pub(crate) reads_old_chunks: bool,
    /// Bytes before the status line were skipped.
    pub(crate) has_junk: bool,
    /// Maximum number of fields.
    pub(crate) max_fields: usize,
}

/// A head that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Status, from 100 to 999.
    pub(crate) status: u16,
    /// How the body ends.
    pub(crate) framing: BodyFraming,
    /// The head in the form of RFC 9112, with the empty line at its end.
    pub(crate) bytes: Vec<u8>,
}

/// Place of the status line in the first bytes of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusLine {
    /// It begins at this offset.
    At(usize),
    /// There is none: HTTP/0.9, or no HTTP at all.
    Missing,
    /// More bytes decide.
    Unknown,
}

impl StatusLine {
    /// Looks for the beginning of the status line.
    pub(crate) fn find(bytes: &[u8]) -> Self {
        let is_start = |at: &usize| {
            let word = bytes.get(*at..*at + HTTP.len());
            word.is_some_and(|word| word.eq_ignore_ascii_case(HTTP))
        };
        match (0..=MAX_JUNK).find(is_start) {
            Some(at) => Self::At(at),
            None if bytes.len() < MAX_JUNK + HTTP.len() => Self::Unknown,
            None => Self::Missing,
        }
    }
}

/// Returns the length of a head with the empty line at its end, if the bytes contain it. Lines may end with a
/// bare line feed. The search begins at `from`, the number of bytes that contain no end.
pub(crate) fn end_of_head(bytes: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(b"\n\r".len());
    let rest = bytes.get(from..)?;
    rest.iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .find_map(|(at, _)| match rest.get(at + 1..)? {
            [b'\n', ..] => Some(from + at + 2),
            [b'\r', b'\n', ..] => Some(from + at + 3),
            _ => None,
        })
}

/// Reads a head, from its status line to its end.
///
/// # Errors
/// A browser would not accept the head, or its length is ambiguous.
pub(crate) fn read(bytes: &[u8], context: HeadContext) -> Result<Head, HeadError> {
    if bytes.contains(&0) {
        return Err(HeadError::Nul);
    }
    let mut lines = Lines::of(bytes);
    let line = lines.next().unwrap_or_default();
    let status_line = read_status_line(line)?;
    let mut reader = FieldReader {
        head: Vec::with_capacity(bytes.len() + 64),
        fields: 0,
        framing: FramingFields::default(),
        max_fields: context.max_fields,
        is_strict: status_line.is_strict && !context.has_junk,
    };
    // Reason phrases have no meaning (RFC 9110 section 15.1), and not all their bytes may be sent on.
    let HttpStatusLine { version, status, .. } = status_line;
    reader
        .head
        .extend_from_slice(format!("HTTP/1.{version} {status} \r\n").as_bytes());
    let mut pending: Option<Cow<'_, [u8]>> = None;
    for line in lines {
        match &mut pending {
            // RFC 9112 section 5.2: obsolete line folding.
            Some(field) if line.first().is_some_and(|byte| is_lws(*byte)) => {
                let folded = field.to_mut();
                folded.push(b' ');
                folded.extend_from_slice(trim(line));
            }
            _ => {
                reader.field(pending.as_deref())?;
                pending = is_continuable(line).then_some(Cow::Borrowed(line));
                reader.is_strict &= pending.is_some();
            }
        }
    }
    reader.field(pending.as_deref())?;
    reader.is_strict &= has_strict_line_ends(bytes);
    reader.finish(status, version, context)
}

/// The lines of a head. Carriage returns and line feeds end lines, alone and together; empty lines do not count.
struct Lines<'a>(&'a [u8]);

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let is_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
        let start = self.0.iter().position(|byte| !is_end(byte))?;
        let rest = &self.0[start..];
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        self.0 = &rest[length..];
        Some(&rest[..length])
    }
}

/// Status line of HTTP/1.x.
struct HttpStatusLine {
    /// Minor version.
    version: u8,
    status: u16,
    is_strict: bool,
}

/// Reads a status line: versions above 1.1 are 1.1 and unknown ones 1.0; without a number, the status is 200.
fn read_status_line(line: &[u8]) -> Result<HttpStatusLine, HeadError> {
    let (name, rest) = match line.iter().position(|byte| *byte == b' ') {
        Some(space) => (&line[..space], &line[space..]),
        None => (line, &[][..]),
    };
    let is_1_1 = version(name).is_some_and(|version| version >= (1, 1));
    // Only spaces: behind a tab, Chromium sees no number.
    let number = rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len());
    let rest = &rest[number..];
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&rest[..digits]).unwrap_or_default();
    let status = match number {
        "" => 200,
        number => number.parse().map_err(|_| HeadError::Status)?,
    };
    if !(100..=999).contains(&status) {
        return Err(HeadError::Status);
    }
    Ok(HttpStatusLine {
        version: u8::from(is_1_1),
        status,
        is_strict: matches!(name, b"HTTP/1.1" | b"HTTP/1.0") && digits == 3,
    })
}

/// Returns the version that a word such as `HTTP/1.1` names.
fn version(word: &[u8]) -> Option<(u8, u8)> {
    let numbers = word.get(HTTP.len()..)?.strip_prefix(b"/")?;
    let dot = numbers.iter().position(|byte| *byte == b'.')?;
    let digit = |byte: Option<&u8>| byte.filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0');
    Some((digit(numbers.first())?, digit(numbers.get(dot + 1))?))
}

/// True if a line is a field that the next line may continue: it has a colon, and does not begin with white space.
fn is_continuable(line: &[u8]) -> bool {
    line.contains(&b':') && !is_lws(line[0])
}

/// Collects the fields of a head.
struct FieldReader {
    head: Vec<u8>,
    fields: usize,
    framing: FramingFields,
    max_fields: usize,
    /// False once the head had something that RFC 9112 forbids.
    is_strict: bool,
}

impl FieldReader {
    /// Reads one unfolded line; one that browsers skip is skipped.
    fn field(&mut self, line: Option<&[u8]>) -> Result<(), HeadError> {
        let Some(line) = line else { return Ok(()) };
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Ok(());
        };
        let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
        let trimmed = trim(name);
        self.is_strict &= trimmed.len() == name.len();
        if !is_token(trimmed) {
            self.is_strict = false;
            return Ok(());
        }
        self.fields += 1;
        if self.fields > self.max_fields {
            return Err(HeadError::TooLarge);
        }
        if self.framing.take(trimmed, value) {
            return Ok(());
        }
        let Some(value) = self.well_formed(trimmed, value) else {
            return Ok(());
        };
        self.write(trimmed, &value);
        Ok(())
    }

    /// Returns a value without control characters (RFC 9110 section 5.5), or `None` if browsers ignore the field.
    fn well_formed<'a>(&mut self, name: &[u8], value: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        if !value.iter().any(|byte| is_control(*byte)) {
            return Some(Cow::Borrowed(value));
        }
        self.is_strict = false;
        // RFC 6265bis section 5.6: the cookie is ignored. A coding of such a name is none.
        let is = |field: &[u8]| name.eq_ignore_ascii_case(field);
        if is(b"set-cookie") || is(b"content-encoding") {
            return None;
        }
        let is_url = is(b"location");
        // A URL parser removes those at both ends (URL standard, "C0 control or space").
        let value = if is_url { trim_controls(value) } else { value };
        // What a URL parser makes of the others (URL standard, "C0 control percent-encode set"). A media type stays one that
        // browsers do not know: with a space in the place of the character, they would show text as HTML.
        let is_encoded = is_url || is(b"content-type");
        let mut formed = Vec::with_capacity(value.len());
        for &byte in value {
            match (is_control(byte), is_encoded) {
                (false, _) => formed.push(byte),
                (true, true) => formed.extend_from_slice(format!("%{byte:02X}").as_bytes()),
                // Not removed with its field: the field may be a policy or forbid storing.
                (true, false) => formed.push(b' '),
            }
        }
        Some(Cow::Owned(trim(&formed).to_vec()))
    }

    fn write(&mut self, name: &[u8], value: &[u8]) {
        self.head.extend_from_slice(name);
        self.head.extend_from_slice(b": ");
        self.head.extend_from_slice(value);
        self.head.extend_from_slice(b"\r\n");
    }

    fn finish(mut self, status: u16, version: u8, context: HeadContext) -> Result<Head, HeadError> {
        let has_body = !(context.is_head || matches!(status, 100..=199 | 204 | 205 | 304));
        let declared = if has_body {
            self.framing.declared(version, context.reads_old_chunks)?
        } else {
            self.framing.declared_without_body()
        };
        self.is_strict &= declared.is_strict;
        match declared.framing {
            BodyFraming::Chunked => {
                // HTTP/1.0 has no chunks (RFC 9112 section 6.1).
                if let Some(version) = self.head.get_mut(b"HTTP/1.".len()) {
                    *version = b'1';
                }
                self.write(b"transfer-encoding", b"chunked");
            }
            BodyFraming::Length(length) if has_body || context.is_head || status == 304 => {
                self.write(b"content-length", length.to_string().as_bytes());
            }
            BodyFraming::Length(_) | BodyFraming::None | BodyFraming::Close => {}
        }
        if !self.is_strict {
            // The origin's next message might be misunderstood: one of the two is not what it seems.
            self.write(b"connection", b"close");
        }
        self.head.extend_from_slice(b"\r\n");
        Ok(Head {
            status,
            framing: if has_body {
                declared.framing
            } else {
                BodyFraming::None
            },
            bytes: self.head,
        })
    }
}

fn trim_controls(mut value: &[u8]) -> &[u8] {
    while let [..=b' ', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., ..=b' '] = value {
        value = rest;
    }
    value
}

/// True if each line of a head ends with CR LF, and neither character stands elsewhere.
fn has_strict_line_ends(bytes: &[u8]) -> bool {
    let mut before = b' ';
    bytes
        .iter()
        .all(|&byte| (byte == b'\n') == (std::mem::replace(&mut before, byte) == b'\r'))
}

/// True for the bytes of a field name (RFC 9110 section 5.6.2).
fn is_token(name: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_tchar)
}

pub(super) fn is_control(byte: u8) -> bool {
    byte != b'\t' && byte.is_ascii_control()
}

/// Splits a line into name and value; `None` if browsers skip the line, or if it would change the length of the body.
pub(super) fn field_of_trailer(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (trim(&line[..colon]), trim(&line[colon + 1..]));
    let is_framing = [&b"content-length"[..], b"transfer-encoding"]
        .iter()
        .any(|framing| name.eq_ignore_ascii_case(framing));
    (is_token(name) && !is_framing && !is_lws(line[0])).then_some((name, value))
}

fn is_lws(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = bytes
        && is_lws(*first)
    {
        bytes = rest;
    }
    while let [rest @ .., last] = bytes
        && is_lws(*last)
    {
        bytes = rest;
    }
    bytes
}

//! Headers of a delta and of its windows (RFC 3284 sections 4.1 to 4.3, with xdelta3's additions).
use super::{
    integer::{self, IntegerFault, MAX_SIZE},
    limits::{DecodeError, Limits},
};

/// "VCD" with the high bits set, and version 0.
pub(super) const MAGIC: [u8; 4] = [0xd6, 0xc3, 0xc4, 0];
const HEADER_SECONDARY: u8 = 1;
const HEADER_CODE_TABLE: u8 = 2;
/// xdelta3: an application header, by default file names.
const HEADER_APPLICATION: u8 = 4;
pub(super) const WINDOW_SOURCE: u8 = 1;
/// The segment is a part of the earlier target; xdelta3 neither writes nor reads such windows.
const WINDOW_TARGET: u8 = 2;
/// xdelta3: an Adler-32 of the window.
pub(super) const WINDOW_CHECKSUM: u8 = 4;
pub(super) const CHECKSUM_SIZE: usize = 4;

/// Maximum length of a window's header: two indicators, seven integers and a checksum.
pub(super) const MAX_WINDOW_HEADER: usize = 2 + 7 * MAX_SIZE + CHECKSUM_SIZE;
/// Maximum length of the file header before the application header's text: magic, indicator, length.
pub(super) const MAX_FILE_HEADER: usize = MAGIC.len() + 1 + MAX_SIZE;

/// Result of a header parser.
#[derive(Debug)]
pub(super) enum Parsed<T> {
    /// The header and its length in bytes.
    Complete(T, usize),
    /// More bytes are needed.
    Incomplete,
}

/// Origin of a window's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Source,
    Target,
}

/// Number of bytes from which a window may take its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lengths {
    pub(super) source: u64,
    /// Length of all previous windows.
    pub(super) target: u64,
}

/// A window's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowHeader {
    pub(super) origin: Origin,
    pub(super) segment_start: usize,
    pub(super) segment_length: usize,
    pub(super) target_length: usize,
    pub(super) data: usize,
    pub(super) instructions: usize,
    pub(super) addresses: usize,
    pub(super) checksum: Option<u32>,
}

impl WindowHeader {
    /// Total length of the three sections.
    pub(super) fn body(&self) -> usize {
        self.data + self.instructions + self.addresses
    }
}

/// Errors of parsing a field.
enum Fault {
    Incomplete,
    Wrong(DecodeError),
}

impl From<IntegerFault> for Fault {
    fn from(fault: IntegerFault) -> Self {
        match fault {
            IntegerFault::Incomplete => Self::Incomplete,
            IntegerFault::Overflow => Self::Wrong(DecodeError::Integer),
        }
    }
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        Self::Wrong(error)
    }
}

fn parsed<T>(result: Result<(T, usize), Fault>) -> Result<Parsed<T>, DecodeError> {
    match result {
        Ok((value, size)) => Ok(Parsed::Complete(value, size)),
        Err(Fault::Incomplete) => Ok(Parsed::Incomplete),
        Err(Fault::Wrong(error)) => Err(error),
    }
}

fn byte(input: &mut &[u8]) -> Result<u8, Fault> {
    let (first, rest) = input.split_first().ok_or(Fault::Incomplete)?;
    *input = rest;
    Ok(*first)
}

/// Parses the file header up to the application header's text, and returns the length of that text.
pub(super) fn file_header(bytes: &[u8]) -> Result<Parsed<u64>, DecodeError> {
    parsed(parse_file_header(bytes))
}

fn parse_file_header(bytes: &[u8]) -> Result<(u64, usize), Fault> {
    let mut input = bytes;
    for (index, expected) in MAGIC.into_iter().enumerate() {
        let found = byte(&mut input)?;
        if found != expected {
            let last = index + 1 == MAGIC.len();
            return Err(Fault::Wrong(if last {
                DecodeError::Version(found)
            } else {
                DecodeError::NotVcdiff
            }));
        }
    }
    let indicator = byte(&mut input)?;
    if indicator & !(HEADER_SECONDARY | HEADER_CODE_TABLE | HEADER_APPLICATION) != 0 {
        return Err(DecodeError::UnknownHeaderBits(indicator).into());
    }
    if indicator & HEADER_SECONDARY != 0 {
        let id = byte(&mut input)?;
        return Err(DecodeError::SecondaryCompression { id }.into());
    }
    if indicator & HEADER_CODE_TABLE != 0 {
        return Err(DecodeError::CodeTable.into());
    }
    let text = if indicator & HEADER_APPLICATION == 0 {
        0
    } else {
        integer::take(&mut input)?
    };
    Ok((text, bytes.len() - input.len()))
}

/// Parses a window's header and checks it against source, earlier target and limits.
pub(super) fn window_header(
    bytes: &[u8],
    lengths: Lengths,
    limits: &Limits,
) -> Result<Parsed<WindowHeader>, DecodeError> {
    parsed(parse_window_header(bytes, lengths, limits))
}

fn parse_window_header(
    bytes: &[u8],
    lengths: Lengths,
    limits: &Limits,
) -> Result<(WindowHeader, usize), Fault> {
    let mut input = bytes;
    let indicator = byte(&mut input)?;
    if indicator & !(WINDOW_SOURCE | WINDOW_TARGET | WINDOW_CHECKSUM) != 0 {
        return Err(DecodeError::UnknownWindowBits(indicator).into());
    }
    let origin = match indicator & (WINDOW_SOURCE | WINDOW_TARGET) {
        0 => None,
        WINDOW_SOURCE => Some(Origin::Source),
        WINDOW_TARGET => Some(Origin::Target),
        _ => return Err(DecodeError::TwoSegments.into()),
    };
    let (mut segment_start, mut segment_length) = (0, 0);
    if let Some(origin) = origin {
        let length = integer::take(&mut input)?;
        let start = integer::take(&mut input)?;
        (segment_start, segment_length) = segment(origin, start, length, lengths, limits)?;
    }
    let claimed = integer::take(&mut input)?;
    let coded_start = input.len();
    let target_length = integer::take(&mut input)?;
    if target_length > limits.max_window.bytes() || u32::try_from(target_length).is_err() {
        return Err(DecodeError::WindowTooLarge(limits.max_window).into());
    }
    let compressed = byte(&mut input)?;
    if compressed != 0 {
        return Err(DecodeError::CompressedSections(compressed).into());
    }
    let mut room = limits.max_coded_window.bytes();
    let mut section = || -> Result<usize, Fault> {
        let length = integer::take(&mut input)?;
        let left = room.checked_sub(length);
        room = left.ok_or(DecodeError::CodedWindowTooLarge(limits.max_coded_window))?;
        Ok(usize::try_from(length).map_err(|_| DecodeError::Integer)?)
    };
    let (data, instructions, addresses) = (section()?, section()?, section()?);
    let mut checksum = None;
    if indicator & WINDOW_CHECKSUM != 0 {
        let (field, rest) = input
            .split_first_chunk::<CHECKSUM_SIZE>()
            .ok_or(Fault::Incomplete)?;
        checksum = Some(u32::from_be_bytes(*field));
        input = rest;
    }
    let header = WindowHeader {
        origin: origin.unwrap_or(Origin::Source),
        segment_start,
        segment_length,
        target_length: usize::try_from(target_length).map_err(|_| DecodeError::Integer)?,
        data,
        instructions,
        addresses,
        checksum,
    };
    let parts = (coded_start - input.len() + header.body()) as u64;
    if claimed != parts {
        return Err(DecodeError::CodedLength { claimed, parts }.into());
    }
    Ok((header, bytes.len() - input.len()))
}

/// Start and length of a segment, if its origin contains it.
fn segment(
    origin: Origin,
    start: u64,
    length: u64,
    lengths: Lengths,
    limits: &Limits,
) -> Result<(usize, usize), DecodeError> {
    let (whole, outside) = match origin {
        Origin::Source => (
            lengths.source,
            DecodeError::SourceSegment {
                start,
                length,
                source_length: lengths.source,
            },
        ),
        Origin::Target => (
            lengths.target,
            DecodeError::TargetSegment {
                start,
                length,
                target_length: lengths.target,
            },
        ),
    };
    let end = start.checked_add(length).ok_or(outside)?;
    if end > whole {
        return Err(outside);
    }
    if origin == Origin::Target && end > limits.max_history.bytes() {
        return Err(DecodeError::HistoryTooLarge(limits.max_history));
    }
    let place = |value| usize::try_from(value).map_err(|_| outside);
    Ok((place(start)?, place(length)?))
}

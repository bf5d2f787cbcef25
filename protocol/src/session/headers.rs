//! Header sets (docs/protocol/session.md section 5): a request's or response's fields, coded against the built-in
//! dictionary and against an earlier set that the peer holds.
use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::dictionary::STATIC_FIELDS;

/// Largest header section, names and values together. Browsers and servers stop between 8 and 256 KiB.
pub const MAX_FIELD_SECTION: usize = 64 * 1024;
/// Most fields of a set.
const MAX_FIELDS: usize = 512;
/// Sets that both ends keep, counted back from the newest fetch.
const KEPT_FETCHES: u64 = 256;
/// How old a base may be, so that a set which is still on the way cannot have pushed it out at the peer.
const MAX_BASE_AGE: u64 = 128;

/// A field: lower-case name and value as bytes (RFC 9110 section 5).
pub type HeaderField = (String, Vec<u8>);

/// A coded set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct HeaderSet {
    /// The fetch whose set is the base; 0 for none.
    base: u64,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum Piece {
    /// Fields of the base that stand there in a row.
    Base { first: u16, count: u16 },
    /// Name and value of a dictionary entry.
    Static(u16),
    /// The name of a dictionary entry with another value.
    StaticName(u16, Vec<u8>),
    /// The name of a field of the base with another value.
    BaseName(u16, Vec<u8>),
    /// Neither known.
    Literal(String, Vec<u8>),
}

/// A set that cannot be decoded or is too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderSetError {
    /// The base is not among the sets kept.
    #[error("header set refers to an unknown base")]
    UnknownBase,
    /// An index points outside the dictionary or the base.
    #[error("header set has an index out of range")]
    BadIndex,
    /// More than [`MAX_FIELD_SECTION`] bytes or too many fields.
    #[error("header section is larger than {MAX_FIELD_SECTION} bytes or {MAX_FIELDS} fields")]
    TooLarge,
}

/// The sets of one direction of one session that may serve as bases.
#[derive(Debug, Default)]
pub struct HeaderSets {
    sets: BTreeMap<u64, Vec<HeaderField>>,
}

impl HeaderSets {
    /// No sets yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps the set of `fetch`, and forgets those that are more than 256 fetches older than the newest.
    pub fn insert(&mut self, fetch: u64, fields: Vec<HeaderField>) {
        self.sets.insert(fetch, fields);
        if let Some((&newest, _)) = self.sets.last_key_value() {
            let oldest = newest.saturating_sub(KEPT_FETCHES - 1);
            self.sets = self.sets.split_off(&oldest);
        }
    }

    /// Whether the set of `base` may be used to code the set of `fetch`.
    fn usable(&self, base: u64, fetch: u64) -> Option<&[HeaderField]> {
        if base == 0 || fetch.saturating_sub(base) > MAX_BASE_AGE {
            return None;
        }
        self.sets.get(&base).map(Vec::as_slice)
    }
}

/// Codes the fields of `fetch` against the dictionary and, where it helps, the set of `base` (0 for none), which the
/// peer must be known to hold.
///
/// # Errors
/// The section is too large.
pub fn encode_header_set(
    fields: &[HeaderField],
    fetch: u64,
    base: u64,
    sets: &HeaderSets,
) -> Result<HeaderSet, HeaderSetError> {
    check_size(fields)?;
    let known = sets.usable(base, fetch).unwrap_or(&[]);
    let mut pieces: Vec<Piece> = Vec::with_capacity(fields.len());
    for field in fields {
        if let Some(at) = known.iter().position(|held| held == field) {
            let at = index(at)?;
            if let Some(Piece::Base { first, count }) = pieces.last_mut()
                && *first + *count == at
            {
                *count += 1;
            } else {
                pieces.push(Piece::Base { first: at, count: 1 });
            }
            continue;
        }
        pieces.push(literal(field, known)?);
    }
    let uses_base = pieces
        .iter()
        .any(|piece| matches!(piece, Piece::Base { .. } | Piece::BaseName(..)));
    Ok(HeaderSet {
        base: if uses_base { base } else { 0 },
        pieces,
    })
}

fn literal((name, value): &HeaderField, known: &[HeaderField]) -> Result<Piece, HeaderSetError> {
    let whole = STATIC_FIELDS
        .iter()
        .position(|(n, v)| n == name && !v.is_empty() && v.as_bytes() == value.as_slice());
    if let Some(at) = whole {
        return Ok(Piece::Static(index(at)?));
    }
    if let Some(at) = STATIC_FIELDS.iter().position(|(n, v)| n == name && v.is_empty()) {
        return Ok(Piece::StaticName(index(at)?, value.clone()));
    }
    if let Some(at) = known.iter().position(|(n, _)| n == name) {
        return Ok(Piece::BaseName(index(at)?, value.clone()));
    }
    Ok(Piece::Literal(name.clone(), value.clone()))
}

fn index(at: usize) -> Result<u16, HeaderSetError> {
    u16::try_from(at).map_err(|_| HeaderSetError::TooLarge)
}

/// Restores the fields of `fetch`.
///
/// # Errors
/// The base is unknown or an index is wrong (the peer's fault), or the section is too large.
pub fn decode_header_set(
    set: &HeaderSet,
    fetch: u64,
    sets: &HeaderSets,
) -> Result<Vec<HeaderField>, HeaderSetError> {
    let known = match set.base {
        0 => &[],
        base => sets.usable(base, fetch).ok_or(HeaderSetError::UnknownBase)?,
    };
    let mut fields = Vec::new();
    let mut size = 0;
    for piece in &set.pieces {
        let before = fields.len();
        match piece {
            Piece::Base { first, count } => {
                let (first, count) = (usize::from(*first), usize::from(*count));
                let run = known.get(first..first + count).ok_or(HeaderSetError::BadIndex)?;
                fields.extend_from_slice(run);
            }
            Piece::Static(at) => {
                let (name, value) = STATIC_FIELDS
                    .get(usize::from(*at))
                    .ok_or(HeaderSetError::BadIndex)?;
                fields.push(((*name).to_owned(), value.as_bytes().to_vec()));
            }
            Piece::StaticName(at, value) => {
                let (name, _) = STATIC_FIELDS
                    .get(usize::from(*at))
                    .ok_or(HeaderSetError::BadIndex)?;
                fields.push(((*name).to_owned(), value.clone()));
            }
            Piece::BaseName(at, value) => {
                let (name, _) = known.get(usize::from(*at)).ok_or(HeaderSetError::BadIndex)?;
                fields.push((name.clone(), value.clone()));
            }
            Piece::Literal(name, value) => fields.push((name.clone(), value.clone())),
        }
        size += fields[before..]
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum::<usize>();
        if size > MAX_FIELD_SECTION || fields.len() > MAX_FIELDS {
            return Err(HeaderSetError::TooLarge);
        }
    }
    Ok(fields)
}

fn check_size(fields: &[HeaderField]) -> Result<(), HeaderSetError> {
    let size: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if size > MAX_FIELD_SECTION || fields.len() > MAX_FIELDS {
        Err(HeaderSetError::TooLarge)
    } else {
        Ok(())
    }
}

//! Header sets (docs/protocol/session.md section 5): the fields of a request or response, encoded against the
//! built-in dictionary and an earlier set that the peer holds.
use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::{dictionary::STATIC_FIELDS, id::FetchId, wire::OptionalFetchId};

/// Maximum size of a header section, names and values together. Browsers and servers have limits between 8
/// and 256 KiB.
pub const MAX_FIELD_SECTION: usize = 64 * 1024;
/// Maximum number of fields of a set.
const MAX_FIELDS: usize = 512;
/// Number of fetches, counted from the newest, whose sets both ends keep.
const KEPT_FETCHES: u64 = 256;
/// Maximum age of a base in fetches, so that sets in flight cannot have displaced the base at the peer.
const MAX_BASE_AGE: u64 = 128;

/// A field: lower-case name and value as bytes (RFC 9110 section 5).
pub type HeaderField = (String, Vec<u8>);

/// An encoded header set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct HeaderSet {
    /// The fetch whose set is the base.
    base: OptionalFetchId,
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum Piece {
    /// Consecutive fields of the base.
    Base { first: u16, count: u16 },
    /// Name and value of a dictionary entry.
    Static(u16),
    /// Name of a dictionary entry, with another value.
    StaticName(u16, Vec<u8>),
    /// Name of a field of the base, with another value.
    BaseName(u16, Vec<u8>),
    /// Name and value.
    Literal(String, Vec<u8>),
    /// A field of the base with the same name and a shared value prefix: index, length of the prefix, rest of
    /// the value.
    BasePrefix(u16, u16, Vec<u8>),
    /// A dictionary entry with a shared value prefix: index, length of the prefix, rest of the value.
    StaticPrefix(u16, u16, Vec<u8>),
}

/// Errors of encoding or decoding a header set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderSetError {
    /// The base is not among the kept sets.
    #[error("header set refers to an unknown base")]
    UnknownBase,
    /// An index is outside the dictionary or the base.
    #[error("header set has an index out of range")]
    BadIndex,
    /// The set has more than [`MAX_FIELD_SECTION`] bytes or too many fields.
    #[error("header section is larger than {MAX_FIELD_SECTION} bytes or {MAX_FIELDS} fields")]
    TooLarge,
}

/// Use of dictionary and bases when header sets are encoded. Each decoder reads both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldCoding {
    /// The smallest encoding.
    #[default]
    Shared,
    /// Names and values as they are: for measurements.
    Literal,
}

/// Header sets of one direction of one session, which may serve as bases.
#[derive(Debug, Default)]
pub struct HeaderSets {
    coding: FieldCoding,
    sets: BTreeMap<FetchId, Vec<HeaderField>>,
    /// URLs of requests.
    urls: BTreeMap<FetchId, String>,
}

impl HeaderSets {
    /// Creates an empty collection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty collection with this coding of new sets.
    pub fn with_coding(coding: FieldCoding) -> Self {
        Self {
            coding,
            ..Self::default()
        }
    }

    /// Stores the set of `fetch`, and drops all sets except those of the newest 256 fetches.
    pub fn insert(&mut self, fetch: FetchId, fields: Vec<HeaderField>) {
        self.sets.insert(fetch, fields);
        if let Some((&newest, _)) = self.sets.last_key_value() {
            let oldest = newest.before(KEPT_FETCHES - 1);
            self.sets = self.sets.split_off(&oldest);
            self.urls = self.urls.split_off(&oldest);
        }
    }

    /// Stores the URL and the set of the request `fetch`.
    pub fn insert_request(&mut self, fetch: FetchId, url: String, fields: Vec<HeaderField>) {
        self.urls.insert(fetch, url);
        self.insert(fetch, fields);
    }

    /// URL of `base`, if `base` may be used to encode `fetch`.
    fn url(&self, base: FetchId, fetch: FetchId) -> Option<&str> {
        self.usable(base, fetch)?;
        self.urls.get(&base).map(String::as_str)
    }

    /// Set of `base`, if it may be used to encode the set of `fetch`.
    fn usable(&self, base: FetchId, fetch: FetchId) -> Option<&[HeaderField]> {
        if fetch.since(base) > MAX_BASE_AGE {
            return None;
        }
        self.sets.get(&base).map(Vec::as_slice)
    }
}

/// Encoded URL and fields of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodedRequest {
    /// Value of [`Fetch::url_shared`](super::Fetch::url_shared).
    pub url_shared: u16,
    /// Value of [`Fetch::url`](super::Fetch::url).
    pub url: String,
    /// Value of [`Fetch::headers`](super::Fetch::headers).
    pub headers: HeaderSet,
}

/// Encodes the URL and the fields of the request `fetch`, like [`encode_header_set`].
///
/// # Errors
/// The header section is too large.
pub fn encode_request(
    url: &str,
    fields: &[HeaderField],
    fetch: FetchId,
    base: Option<FetchId>,
    sets: &HeaderSets,
) -> Result<CodedRequest, HeaderSetError> {
    let mut headers = encode_header_set(fields, fetch, base, sets)?;
    let mut shared = base
        .and_then(|base| sets.url(base, fetch))
        .map_or(0, |known| alike(known.as_bytes(), url.as_bytes()));
    while !url.is_char_boundary(shared) {
        shared -= 1;
    }
    let mut url_shared = u16::try_from(shared).unwrap_or(0);
    if shared < WORTH_SHARING || sets.coding == FieldCoding::Literal {
        url_shared = 0;
    }
    if headers.pieces.is_empty() && headers.base.get().is_none() {
        // A base would add its fields.
        url_shared = 0;
    } else if url_shared > 0 {
        headers.base = base.into();
    }
    Ok(CodedRequest {
        url_shared,
        url: url.get(url_shared.into()..).unwrap_or_default().to_owned(),
        headers,
    })
}

/// Restores the URL of a request that shares `shared` bytes with the URL of its base.
///
/// # Errors
/// The base is unknown, or its URL does not have a prefix of this length.
pub fn decode_url(
    shared: u16,
    rest: &str,
    headers: &HeaderSet,
    fetch: FetchId,
    sets: &HeaderSets,
) -> Result<String, HeaderSetError> {
    if shared == 0 {
        return Ok(rest.to_owned());
    }
    let known = headers.base.get().and_then(|base| sets.url(base, fetch));
    let known = known.ok_or(HeaderSetError::UnknownBase)?;
    let front = known.get(..shared.into()).ok_or(HeaderSetError::BadIndex)?;
    Ok(format!("{front}{rest}"))
}

/// Least length of a shared prefix that is encoded.
const WORTH_SHARING: usize = 4;

/// Length of the common prefix.
fn alike(one: &[u8], other: &[u8]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

/// Encodes the fields of `fetch` against the dictionary and, where useful, the set of `base`, which the peer
/// must be known to hold.
///
/// # Errors
/// The header section is too large.
pub fn encode_header_set(
    fields: &[HeaderField],
    fetch: FetchId,
    base: Option<FetchId>,
    sets: &HeaderSets,
) -> Result<HeaderSet, HeaderSetError> {
    check_size(fields)?;
    if sets.coding == FieldCoding::Literal {
        let pieces = fields
            .iter()
            .map(|(name, value)| Piece::Literal(name.clone(), value.clone()));
        return Ok(HeaderSet {
            base: None.into(),
            pieces: pieces.collect(),
        });
    }
    let known = base.and_then(|base| sets.usable(base, fetch)).unwrap_or(&[]);
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
    let all = Piece::Base {
        first: 0,
        count: index(known.len())?,
    };
    if !known.is_empty() && pieces == [all] {
        // A header set that is only a base reference equals that base.
        return Ok(HeaderSet {
            base: base.into(),
            pieces: Vec::new(),
        });
    }
    let uses_base = pieces.iter().any(|piece| {
        matches!(
            piece,
            Piece::Base { .. } | Piece::BaseName(..) | Piece::BasePrefix(..)
        )
    });
    Ok(HeaderSet {
        base: base.filter(|_| uses_base).into(),
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
    let of_base = known
        .iter()
        .map(|(held, value)| (held.as_str(), value.as_slice()));
    if let Some((at, shared)) = longest(of_base, name, value) {
        let rest = value[shared..].to_vec();
        return Ok(Piece::BasePrefix(index(at)?, index(shared)?, rest));
    }
    let of_dictionary = STATIC_FIELDS
        .iter()
        .map(|(held, value)| (*held, value.as_bytes()));
    if let Some((at, shared)) = longest(of_dictionary, name, value) {
        let rest = value[shared..].to_vec();
        return Ok(Piece::StaticPrefix(index(at)?, index(shared)?, rest));
    }
    if let Some(at) = STATIC_FIELDS.iter().position(|(n, v)| n == name && v.is_empty()) {
        return Ok(Piece::StaticName(index(at)?, value.clone()));
    }
    if let Some(at) = known.iter().position(|(n, _)| n == name) {
        return Ok(Piece::BaseName(index(at)?, value.clone()));
    }
    Ok(Piece::Literal(name.clone(), value.clone()))
}

/// Finds the field of this name with the longest common value prefix; returns its index and the prefix
/// length.
fn longest<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    name: &str,
    value: &[u8],
) -> Option<(usize, usize)> {
    let named = fields.enumerate().filter(|(_, (held, _))| *held == name);
    let shared = named.map(|(at, (_, held))| (alike(held, value).min(u16::MAX.into()), at));
    let (shared, at) = shared.max()?;
    (shared >= WORTH_SHARING).then_some((at, shared))
}

fn index(at: usize) -> Result<u16, HeaderSetError> {
    u16::try_from(at).map_err(|_| HeaderSetError::TooLarge)
}

/// Restores the fields of `fetch`.
///
/// # Errors
/// The base is unknown or an index is invalid (the peer's fault), or the header section is too large.
pub fn decode_header_set(
    set: &HeaderSet,
    fetch: FetchId,
    sets: &HeaderSets,
) -> Result<Vec<HeaderField>, HeaderSetError> {
    let known = match set.base.get() {
        None => &[],
        Some(base) => sets.usable(base, fetch).ok_or(HeaderSetError::UnknownBase)?,
    };
    if set.pieces.is_empty() {
        return Ok(known.to_vec());
    }
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
            Piece::BasePrefix(at, shared, rest) => {
                let (name, held) = known.get(usize::from(*at)).ok_or(HeaderSetError::BadIndex)?;
                let front = held.get(..usize::from(*shared)).ok_or(HeaderSetError::BadIndex)?;
                fields.push((name.clone(), [front, rest].concat()));
            }
            Piece::StaticPrefix(at, shared, rest) => {
                let held = STATIC_FIELDS.get(usize::from(*at));
                let (name, held) = held.ok_or(HeaderSetError::BadIndex)?;
                let front = held.as_bytes().get(..usize::from(*shared));
                let front = front.ok_or(HeaderSetError::BadIndex)?;
                fields.push(((*name).to_owned(), [front, rest].concat()));
            }
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

//! Stored record of one page or of the pages of one pattern, and its serialized form.
#[cfg(test)]
mod tests;

use std::time::Duration;

use longhaul_types::{UnixTime, varint};

use super::request_form::{LiteralRequest, RequestForm};
use crate::Destination;

/// A subresource that the browser requested and the markup does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    /// Relative to the page, possibly with marks for parts of the page's URL.
    pub(super) url: String,
    pub(super) destination: Destination,
    pub(super) form: RequestForm,
    /// Visits since the last request.
    pub(super) misses: u8,
    /// New in every visit: stored so that the URL is not learned again.
    pub(super) volatile: bool,
    /// The host could not be reached at the last request.
    pub(super) absent: bool,
    /// Keyed hash of a body: the object is planned only for visits that get it, too.
    pub(super) body: Option<u64>,
    pub(super) seen: UnixTime,
    pub(super) evidence: Evidence,
}

impl Extra {
    fn flags(&self) -> u8 {
        let flags = [
            (self.volatile, VOLATILE),
            (self.evidence.of_more, OF_MORE),
            (self.absent, ABSENT),
            (self.body.is_some(), OF_BODY),
        ];
        let set = flags.into_iter().filter(|(is_set, _)| *is_set);
        set.fold(0, |sum, (_, flag)| sum | flag)
    }
}

/// A subresource that was pushed and not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    /// Hash of the URL in the form of [`Extra::url`].
    pub(super) hash: u64,
    pub(super) strikes: u8,
    /// End of the exclusion from the plan.
    pub(super) until: UnixTime,
    pub(super) evidence: Evidence,
}

/// Number of different pages that showed something: one or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evidence {
    /// Hash of the first page's URL.
    pub(super) first: u32,
    pub(super) of_more: bool,
}

impl Evidence {
    pub(super) fn of(page: u32) -> Self {
        Self {
            first: page,
            of_more: false,
        }
    }

    /// Returns true if this page was the first.
    pub(super) fn is_of(self, page: u32) -> bool {
        self.first == page
    }

    pub(super) fn add(&mut self, page: u32) {
        self.of_more |= page != self.first;
    }
}

/// A request that one device made, and that other devices are not told yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Witnessed {
    /// Keyed hash of the URL.
    pub(super) url: u64,
    /// Keyed hash of the device.
    pub(super) device: u64,
    /// The request, if its URL stood in the document of the page.
    pub(super) literal: Option<LiteralRequest>,
    pub(super) seen: UnixTime,
}

/// Stored data of a page or a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// In the order of their first requests.
    pub(super) extras: Vec<Extra>,
    /// Oldest first.
    pub(super) suppressed: Vec<Suppressed>,
    /// Oldest first.
    pub(super) witnessed: Vec<Witnessed>,
}

/// Errors of reading a record; the caller discards the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Another version wrote the record.
    #[error("the learned record has the unknown version {0}")]
    Version(u8),
    /// The record exceeds the maximum size.
    #[error("the learned record is larger than allowed")]
    TooLarge,
    /// The record is truncated, or contains invalid bytes.
    #[error("the learned record is damaged")]
    Damaged,
}

impl Record {
    /// Removes the extras for which the record has no room, and continues with shorter ones. Returns their number.
    pub(super) fn fit(&mut self) -> usize {
        let (before, mut room, mut last) = (self.extras.len(), MAX_URLS, String::new());
        self.extras.truncate(MAX_EXTRAS);
        self.extras.retain(|extra| {
            let rest = extra.url.len() - common_prefix(&last, &extra.url);
            let fits = rest <= room;
            if fits {
                room -= rest;
                last.clone_from(&extra.url);
            }
            fits
        });
        before - self.extras.len()
    }

    /// Returns the serialized form, at most [`MAX_RECORD`] bytes. [`Self::fit`] precedes it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        varint::encode(self.extras.len() as u64, &mut out);
        let mut last = "";
        for extra in &self.extras {
            let shared = common_prefix(last, &extra.url);
            let rest = &extra.url[shared..];
            varint::encode(shared as u64, &mut out);
            varint::encode(rest.len() as u64, &mut out);
            out.extend_from_slice(rest.as_bytes());
            out.push(extra.destination.number());
            out.push(extra.form.code());
            out.push(extra.misses);
            out.push(extra.flags());
            if let Some(body) = extra.body {
                out.extend_from_slice(&body.to_be_bytes());
            }
            encode_time(extra.seen, &mut out);
            out.extend_from_slice(&extra.evidence.first.to_be_bytes());
            last = &extra.url;
        }
        let skipped = self.suppressed.len().saturating_sub(MAX_SUPPRESSED);
        varint::encode((self.suppressed.len() - skipped) as u64, &mut out);
        for suppressed in self.suppressed.iter().skip(skipped) {
            out.extend_from_slice(&suppressed.hash.to_be_bytes());
            out.push(suppressed.strikes);
            out.push(u8::from(suppressed.evidence.of_more) << 1);
            encode_time(suppressed.until, &mut out);
            out.extend_from_slice(&suppressed.evidence.first.to_be_bytes());
        }
        let skipped = self.witnessed.len().saturating_sub(MAX_WITNESSED);
        varint::encode((self.witnessed.len() - skipped) as u64, &mut out);
        for witnessed in self.witnessed.iter().skip(skipped) {
            out.extend_from_slice(&witnessed.url.to_be_bytes());
            out.extend_from_slice(&witnessed.device.to_be_bytes());
            out.push(u8::from(witnessed.literal.is_some()));
            if let Some(literal) = witnessed.literal {
                out.push(literal.destination.number());
                out.push(literal.form.code());
            }
            encode_time(witnessed.seen, &mut out);
        }
        out
    }

    /// Parses the result of [`Self::encode`].
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        if bytes.len() > MAX_RECORD {
            return Err(RecordError::TooLarge);
        }
        let mut input = Input(bytes);
        let version = input.byte()?;
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let mut record = Self::default();
        let mut room = MAX_URLS;
        for _ in 0..input.count(MAX_EXTRAS)? {
            let last = record.extras.last().map_or("", |extra| extra.url.as_str());
            let extra = input.extra(last, &mut room)?;
            record.extras.push(extra);
        }
        for _ in 0..input.count(MAX_SUPPRESSED)? {
            record.suppressed.push(input.suppressed()?);
        }
        for _ in 0..input.count(MAX_WITNESSED)? {
            record.witnessed.push(input.witnessed()?);
        }
        if input.0.is_empty() {
            Ok(record)
        } else {
            Err(RecordError::Damaged)
        }
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn bytes(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RecordError> {
        self.bytes(N)?.try_into().map_err(|_| RecordError::Damaged)
    }

    fn byte(&mut self) -> Result<u8, RecordError> {
        Ok(self.array::<1>()?[0])
    }

    fn number(&mut self) -> Result<u64, RecordError> {
        varint::decode(&mut self.0).map_err(|_| RecordError::Damaged)
    }

    fn count(&mut self, most: usize) -> Result<usize, RecordError> {
        let count = usize::try_from(self.number()?).map_err(|_| RecordError::Damaged)?;
        if count <= most {
            Ok(count)
        } else {
            Err(RecordError::TooLarge)
        }
    }

    fn time(&mut self) -> Result<UnixTime, RecordError> {
        Ok(UnixTime::new(Duration::from_secs(self.number()?)))
    }

    /// Reads an extra. The URL begins with bytes of `last`, the URL before it; `room` is what is left for further ones.
    fn extra(&mut self, last: &str, room: &mut usize) -> Result<Extra, RecordError> {
        let shared = self.count(MAX_URL)?;
        let length = self.count(MAX_URL)?;
        *room = room.checked_sub(length).ok_or(RecordError::TooLarge)?;
        let rest = std::str::from_utf8(self.bytes(length)?).map_err(|_| RecordError::Damaged)?;
        let url = format!("{}{rest}", last.get(..shared).ok_or(RecordError::Damaged)?);
        // A longer prefix would be another form of the same record.
        if common_prefix(last, &url) != shared {
            return Err(RecordError::Damaged);
        }
        if url.len() > MAX_URL {
            return Err(RecordError::TooLarge);
        }
        let LiteralRequest { destination, form } = self.literal()?;
        let misses = self.byte()?;
        let flags = self.flags(VOLATILE | OF_MORE | ABSENT | OF_BODY)?;
        let body = (flags & OF_BODY != 0).then(|| self.array());
        Ok(Extra {
            body: body.transpose()?.map(u64::from_be_bytes),
            url,
            destination,
            form,
            misses,
            volatile: flags & VOLATILE != 0,
            absent: flags & ABSENT != 0,
            seen: self.time()?,
            evidence: self.evidence(flags)?,
        })
    }

    fn literal(&mut self) -> Result<LiteralRequest, RecordError> {
        Ok(LiteralRequest {
            destination: Destination::try_from(self.byte()?).map_err(|_| RecordError::Damaged)?,
            form: RequestForm::of_code(self.byte()?).ok_or(RecordError::Damaged)?,
        })
    }

    fn suppressed(&mut self) -> Result<Suppressed, RecordError> {
        let hash = u64::from_be_bytes(self.array()?);
        let strikes = self.byte()?;
        let flags = self.flags(OF_MORE)?;
        Ok(Suppressed {
            hash,
            strikes,
            until: self.time()?,
            evidence: self.evidence(flags)?,
        })
    }

    fn witnessed(&mut self) -> Result<Witnessed, RecordError> {
        Ok(Witnessed {
            url: u64::from_be_bytes(self.array()?),
            device: u64::from_be_bytes(self.array()?),
            literal: match self.byte()? {
                0 => None,
                1 => Some(self.literal()?),
                _ => return Err(RecordError::Damaged),
            },
            seen: self.time()?,
        })
    }

    fn flags(&mut self, known: u8) -> Result<u8, RecordError> {
        let flags = self.byte()?;
        if flags & !known == 0 {
            Ok(flags)
        } else {
            Err(RecordError::Damaged)
        }
    }

    fn evidence(&mut self, flags: u8) -> Result<Evidence, RecordError> {
        Ok(Evidence {
            first: u32::from_be_bytes(self.array()?),
            of_more: flags & OF_MORE != 0,
        })
    }
}

/// Encodes a time in whole seconds.
fn encode_time(time: UnixTime, out: &mut Vec<u8>) {
    varint::encode(time.since_epoch().as_secs(), out);
}

/// Length of the longest common prefix of two URLs, in bytes.
fn common_prefix(one: &str, other: &str) -> usize {
    let equal = one
        .bytes()
        .zip(other.bytes())
        .take_while(|(one, other)| one == other);
    let mut length = equal.count();
    while !other.is_char_boundary(length) {
        length -= 1;
    }
    length
}

/// Version 1 did not distinguish the page's own requests from those of its frames; version 2 did not contain the form
/// of the requests, and told other devices more. Version 3 did not distinguish requests whose URLs stand in the document;
/// version 4 knew no bodies.
const VERSION: u8 = 5;
const VOLATILE: u8 = 1;
const OF_MORE: u8 = 2;
const ABSENT: u8 = 4;
const OF_BODY: u8 = 8;
/// Maximum number of extras: heavy pages load some hundreds of objects from scripts.
pub(super) const MAX_EXTRAS: usize = 512;
/// Maximum number of suppressed objects: about a quarter of the largest plan.
pub(super) const MAX_SUPPRESSED: usize = 256;
/// Maximum number of requests that one device made: those of one heavy page load.
pub(super) const MAX_WITNESSED: usize = 512;
/// Maximum length of a URL; longer URLs contain data of the visit.
pub(super) const MAX_URL: usize = 1024;
/// Maximum length of all URLs together, without the prefix that each has in common with the one before.
const MAX_URLS: usize = 64 * 1024;
/// Maximum size of a record: with all parts at their maximum, a record is smaller.
pub(super) const MAX_RECORD: usize = 114 * 1024;

//! Stored record of one page or of the pages of one pattern, and its serialized form.
use std::time::Duration;

use longhaul_types::{UnixTime, varint};

use crate::Destination;

/// A subresource that the browser requested and the markup does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extra {
    /// Relative to the page, possibly with marks for parts of the page's URL.
    pub(super) url: String,
    pub(super) destination: Destination,
    /// Visits since the last request.
    pub(super) misses: u8,
    /// New in every visit: stored so that the URL is not learned again.
    pub(super) volatile: bool,
    pub(super) seen: UnixTime,
    pub(super) evidence: Evidence,
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

/// Stored data of a page or a pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// In the order of their first requests.
    pub(super) extras: Vec<Extra>,
    /// Oldest first.
    pub(super) suppressed: Vec<Suppressed>,
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
    /// Returns the serialized form, at most [`MAX_RECORD`] bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        let mut room = MAX_URLS;
        let fitting = self.extras.iter().take(MAX_EXTRAS).take_while(|extra| {
            let fits = extra.url.len() <= room;
            room = room.saturating_sub(extra.url.len());
            fits
        });
        let extras: Vec<&Extra> = fitting.collect();
        varint::encode(extras.len() as u64, &mut out);
        for extra in extras {
            varint::encode(extra.url.len() as u64, &mut out);
            out.extend_from_slice(extra.url.as_bytes());
            out.push(extra.destination.number());
            out.push(extra.misses);
            out.push(u8::from(extra.volatile) | u8::from(extra.evidence.of_more) << 1);
            encode_time(extra.seen, &mut out);
            out.extend_from_slice(&extra.evidence.first.to_be_bytes());
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
        for _ in 0..input.count(MAX_EXTRAS)? {
            record.extras.push(input.extra()?);
        }
        for _ in 0..input.count(MAX_SUPPRESSED)? {
            record.suppressed.push(input.suppressed()?);
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

    fn extra(&mut self) -> Result<Extra, RecordError> {
        let length = self.count(MAX_URL)?;
        let url = std::str::from_utf8(self.bytes(length)?).map_err(|_| RecordError::Damaged)?;
        let destination = Destination::try_from(self.byte()?).map_err(|_| RecordError::Damaged)?;
        let misses = self.byte()?;
        let flags = self.flags(VOLATILE | OF_MORE)?;
        Ok(Extra {
            url: url.to_owned(),
            destination,
            misses,
            volatile: flags & VOLATILE != 0,
            seen: self.time()?,
            evidence: self.evidence(flags)?,
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

/// Version 1 did not distinguish the page's own requests from those of its frames.
const VERSION: u8 = 2;
const VOLATILE: u8 = 1;
const OF_MORE: u8 = 2;
/// Maximum number of extras: heavy pages load some dozens of objects from scripts.
pub(super) const MAX_EXTRAS: usize = 64;
/// Maximum number of suppressed objects: about a quarter of the largest plan.
pub(super) const MAX_SUPPRESSED: usize = 256;
/// Maximum length of a URL; longer URLs contain data of the visit.
pub(super) const MAX_URL: usize = 1024;
/// Maximum length of all URLs together: with the other data at their maximum, the record stays below
/// [`MAX_RECORD`].
const MAX_URLS: usize = 8 * 1024;
/// Maximum size of a record.
pub(super) const MAX_RECORD: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn full() -> Record {
        let seen = UnixTime::new(Duration::from_secs(1_760_000_000));
        let evidence = Evidence {
            first: u32::MAX,
            of_more: true,
        };
        let extras = (0..100).map(|index| Extra {
            url: format!("/{}{index}", "x".repeat(900)),
            destination: Destination::Script,
            misses: 3,
            volatile: true,
            seen,
            evidence,
        });
        let suppressed = (0..300).map(|index| Suppressed {
            hash: index,
            strikes: 9,
            until: seen,
            evidence,
        });
        Record {
            extras: extras.collect(),
            suppressed: suppressed.collect(),
        }
    }

    #[test]
    fn records_round_trip_within_their_bounds() {
        let record = full();
        let bytes = record.encode();
        assert!(bytes.len() <= MAX_RECORD, "{}", bytes.len());
        let read = Record::decode(&bytes).unwrap();
        assert_eq!(read.extras, record.extras[..9]);
        assert_eq!(read.suppressed, record.suppressed[44..]);
        assert_eq!(Record::decode(&read.encode()), Ok(read));
        assert_eq!(Record::decode(&Record::default().encode()), Ok(Record::default()));
    }

    #[test]
    fn damaged_records_are_detected() {
        let bytes = full().encode();
        for length in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..length]), Err(RecordError::Damaged));
        }
        assert_eq!(Record::decode(&[1]), Err(RecordError::Version(1)));
        assert_eq!(Record::decode(&[VERSION, 0x40, 65]), Err(RecordError::TooLarge));
        assert_eq!(
            Record::decode(&vec![1; MAX_RECORD + 1]),
            Err(RecordError::TooLarge)
        );
        let mut longer = Record::default().encode();
        longer.push(0);
        assert_eq!(Record::decode(&longer), Err(RecordError::Damaged));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let mut versioned = vec![VERSION];
            versioned.extend_from_slice(&bytes);
            for input in [&bytes, &versioned] {
                if let Ok(record) = Record::decode(input) {
                    prop_assert_eq!(&record.encode(), input);
                }
            }
        }
    }
}

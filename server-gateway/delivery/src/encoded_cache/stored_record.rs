//! Records of the encoded cache.
use bytes::Bytes;
use longhaul_cache::{Partition, RecordKey};
use longhaul_codec::{CodedBody, Coder, Coding};
use longhaul_types::ContentHash;

/// Coding of a stored result. Other codings are too fast to be worth storing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoredCoding {
    Brotli { quality: u8 },
    Mix,
}

impl StoredCoding {
    /// Returns `None` if results of this coding are not stored.
    pub(super) fn of(coding: Coding, coder: Coder) -> Option<Self> {
        match (coding, coder) {
            (Coding::Mix, _) => Some(Self::Mix),
            (Coding::Brotli, Coder::Brotli { quality }) => Some(Self::Brotli { quality }),
            (Coding::Brotli | Coding::Zstd | Coding::Identity, _) => None,
        }
    }

    pub(super) const fn coding(self) -> Coding {
        match self {
            Self::Brotli { .. } => Coding::Brotli,
            Self::Mix => Coding::Mix,
        }
    }

    /// The coder that makes this result; `None` for context mixing, which is not among the coders of
    /// `choose`.
    pub(super) const fn coder(self) -> Option<Coder> {
        match self {
            Self::Brotli { quality } => Some(Coder::Brotli { quality }),
            Self::Mix => None,
        }
    }

    /// Returns true if this result is at least as small as that of `wanted`, or if `wanted` is a faster
    /// coding.
    pub(super) const fn serves(self, wanted: Coder) -> bool {
        match (self, wanted) {
            (Self::Brotli { quality: has }, Coder::Brotli { quality }) => has >= quality,
            (Self::Mix, _) | (Self::Brotli { .. }, Coder::Identity | Coder::Zstd { .. }) => true,
        }
    }

    const fn code(self) -> u8 {
        match self {
            Self::Brotli { quality } => quality,
            Self::Mix => MIXED,
        }
    }

    const fn of_code(code: u8) -> Option<Self> {
        match code {
            0..=11 => Some(Self::Brotli { quality: code }),
            MIXED => Some(Self::Mix),
            _ => None,
        }
    }
}

/// A stored result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) coding: StoredCoding,
    /// Decoded length in bytes.
    pub(super) length: u64,
    /// Length of the coded windows in bytes.
    pub(super) size: u64,
    /// CHK of the coded windows.
    pub(super) data: ContentHash,
}

/// Version of the record format; records of other versions are ignored.
const VERSION: u8 = 1;
/// Marks context mixing in the place of a quality.
const MIXED: u8 = u8::MAX;
const SIZE: usize = 1 + 1 + 8 + 8 + 32;

/// Key of a result: CHK of the decoded bytes, and coding.
pub(super) fn key(chk: &ContentHash, coding: Coding) -> RecordKey {
    let mut key = chk.as_bytes().to_vec();
    key.push(coding.code());
    RecordKey::new(&Partition::Shared, None, &key)
}

impl Record {
    /// Returns `None` if results of this coding are not stored.
    pub(super) fn of(body: &CodedBody, coder: Coder) -> Option<Self> {
        Some(Self {
            coding: StoredCoding::of(body.coding(), coder)?,
            length: body.length(),
            size: body.data().len() as u64,
            data: ContentHash::of(body.data()),
        })
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut record = Vec::with_capacity(SIZE);
        record.extend_from_slice(&[VERSION, self.coding.code()]);
        record.extend_from_slice(&self.length.to_le_bytes());
        record.extend_from_slice(&self.size.to_le_bytes());
        record.extend_from_slice(self.data.as_bytes());
        record.into()
    }

    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let (&[VERSION, code], rest) = record.split_first_chunk::<2>()? else {
            return None;
        };
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        Some(Self {
            coding: StoredCoding::of_code(code)?,
            length: u64::from_le_bytes(*length),
            size: u64::from_le_bytes(*size),
            data: ContentHash::from_bytes(rest.try_into().ok()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_encodings_round_trip_and_other_records_are_rejected() {
        let record = Record {
            coding: StoredCoding::Brotli { quality: 10 },
            length: 70_000,
            size: 9_000,
            data: ContentHash::of(b"coded"),
        };
        let mixed = Record {
            coding: StoredCoding::Mix,
            ..record
        };
        assert_eq!(Record::decode(&mixed.encode()), Some(mixed));
        let wire = record.encode();
        assert_eq!(wire.len(), SIZE);
        assert_eq!(Record::decode(&wire), Some(record));
        for cut in 0..SIZE {
            assert_eq!(Record::decode(&wire[..cut]), None);
        }
        let mut other = wire.to_vec();
        other[0] = 2;
        assert_eq!(Record::decode(&other), None);
        let mut other = wire.to_vec();
        other[1] = 12;
        assert_eq!(Record::decode(&other), None);
    }

    #[test]
    fn stored_encodings_of_higher_effort_serve_lower_ones() {
        let brotli = |quality| StoredCoding::Brotli { quality };
        assert!(StoredCoding::Mix.serves(Coder::Brotli { quality: 11 }));
        assert!(brotli(11).serves(Coder::Brotli { quality: 5 }));
        assert!(brotli(5).serves(Coder::Brotli { quality: 5 }));
        assert!(!brotli(5).serves(Coder::Brotli { quality: 10 }));
        assert!(brotli(5).serves(Coder::Zstd { level: 3 }));
    }
}

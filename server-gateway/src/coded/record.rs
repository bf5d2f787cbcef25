//! What is remembered of a kept result.
use bytes::Bytes;
use longhaul_cache::{Partition, RecordKey};
use longhaul_codec::{CodedBody, Coder, Coding};
use longhaul_types::ContentHash;

/// How a kept result was made. Other codings take no time that would be worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Brotli { quality: u8 },
    Mix,
}

impl Means {
    /// `None` if results of it are not kept.
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

    /// The coder of the link's choice that makes it; context mixing is not chosen among these.
    pub(super) const fn coder(self) -> Option<Coder> {
        match self {
            Self::Brotli { quality } => Some(Coder::Brotli { quality }),
            Self::Mix => None,
        }
    }

    /// Whether this is at least as small as what that coder would make, or whatever it is takes less time.
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

/// A kept result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) means: Means,
    /// Decoded bytes.
    pub(super) length: u64,
    /// Bytes of the coded windows.
    pub(super) size: u64,
    /// The CHK of the coded windows.
    pub(super) data: ContentHash,
}

/// Of this form of the record; others are as if they were not there.
const VERSION: u8 = 1;
/// In the place of a quality.
const MIXED: u8 = u8::MAX;
const SIZE: usize = 1 + 1 + 8 + 8 + 32;

/// Results are found by what they decode to, and by their coding.
pub(super) fn key(chk: &ContentHash, coding: Coding) -> RecordKey {
    let mut key = chk.as_bytes().to_vec();
    key.push(coding.code());
    RecordKey::new(&Partition::Shared, None, &key)
}

impl Record {
    /// `None` if the result is not one that is kept.
    pub(super) fn of(body: &CodedBody, coder: Coder) -> Option<Self> {
        Some(Self {
            means: Means::of(body.coding(), coder)?,
            length: body.length(),
            size: body.data().len() as u64,
            data: ContentHash::of(body.data()),
        })
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut record = Vec::with_capacity(SIZE);
        record.extend_from_slice(&[VERSION, self.means.code()]);
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
            means: Means::of_code(code)?,
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
    fn records_come_back_and_others_are_refused() {
        let record = Record {
            means: Means::Brotli { quality: 10 },
            length: 70_000,
            size: 9_000,
            data: ContentHash::of(b"coded"),
        };
        let mixed = Record {
            means: Means::Mix,
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
    fn more_effort_serves_less() {
        let brotli = |quality| Means::Brotli { quality };
        assert!(Means::Mix.serves(Coder::Brotli { quality: 11 }));
        assert!(brotli(11).serves(Coder::Brotli { quality: 5 }));
        assert!(brotli(5).serves(Coder::Brotli { quality: 5 }));
        assert!(!brotli(5).serves(Coder::Brotli { quality: 10 }));
        assert!(brotli(5).serves(Coder::Zstd { level: 3 }));
    }
}

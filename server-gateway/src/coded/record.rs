//! What is remembered of a kept result.
use bytes::Bytes;
use longhaul_codec::{CodedBody, Coder, Coding};
use longhaul_types::ContentHash;

/// A kept result, which is in Brotli: other codings take no time that would be worth it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) quality: u8,
    /// Decoded bytes.
    pub(super) length: u64,
    /// Bytes of the coded windows.
    pub(super) size: u64,
    /// The CHK of the coded windows.
    pub(super) data: ContentHash,
}

/// Of this form of the record; others are as if they were not there.
const VERSION: u8 = 1;
const SIZE: usize = 1 + 1 + 8 + 8 + 32;

/// Results are found by what they decode to, and by their coding.
pub(super) fn key(chk: &ContentHash) -> Vec<u8> {
    let mut key = chk.as_bytes().to_vec();
    key.push(Coding::Brotli.code());
    key
}

impl Record {
    /// `None` if the result is not one that is kept.
    pub(super) fn of(body: &CodedBody, coder: Coder) -> Option<Self> {
        let Coder::Brotli { quality } = coder else {
            return None;
        };
        Some(Self {
            quality,
            length: body.length(),
            size: body.data().len() as u64,
            data: ContentHash::of(body.data()),
        })
    }

    pub(super) const fn coder(&self) -> Coder {
        Coder::Brotli {
            quality: self.quality,
        }
    }

    /// Whether this is at least as small as what that coder would make, or whatever it is takes less time.
    pub(super) const fn serves(&self, wanted: Coder) -> bool {
        match wanted {
            Coder::Brotli { quality } => self.quality >= quality,
            Coder::Identity | Coder::Zstd { .. } => true,
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut record = Vec::with_capacity(SIZE);
        record.extend_from_slice(&[VERSION, self.quality]);
        record.extend_from_slice(&self.length.to_le_bytes());
        record.extend_from_slice(&self.size.to_le_bytes());
        record.extend_from_slice(self.data.as_bytes());
        record.into()
    }

    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let (&[VERSION, quality], rest) = record.split_first_chunk::<2>()? else {
            return None;
        };
        let (length, rest) = rest.split_first_chunk::<8>()?;
        let (size, rest) = rest.split_first_chunk::<8>()?;
        Some(Self {
            quality,
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
            quality: 10,
            length: 70_000,
            size: 9_000,
            data: ContentHash::of(b"coded"),
        };
        let wire = record.encode();
        assert_eq!(wire.len(), SIZE);
        assert_eq!(Record::decode(&wire), Some(record));
        for cut in 0..SIZE {
            assert_eq!(Record::decode(&wire[..cut]), None);
        }
        let mut other = wire.to_vec();
        other[0] = 2;
        assert_eq!(Record::decode(&other), None);
    }

    #[test]
    fn more_effort_serves_less() {
        let record = |quality| Record {
            quality,
            length: 1,
            size: 1,
            data: ContentHash::of(b""),
        };
        assert!(record(11).serves(Coder::Brotli { quality: 5 }));
        assert!(record(5).serves(Coder::Brotli { quality: 5 }));
        assert!(!record(5).serves(Coder::Brotli { quality: 10 }));
        assert!(record(5).serves(Coder::Zstd { level: 3 }));
    }
}

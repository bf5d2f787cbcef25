//! The previous manifest of a page on a device, stored as base of the next one.
use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_session::ManifestId;
use longhaul_types::{ContentHash, varint};
use url::Url;

/// Version of the record format; records of other versions are discarded.
const VERSION: u8 = 1;
/// Maximum decoded length of a stored manifest: records are limited to 1 MiB, and 1,000 entries of 500 bytes
/// fit.
const MAX_MANIFEST: usize = 640 * 1024;

/// The kept form of a manifest, which the agent may also have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestMemory {
    /// Decoded bytes of the kept form.
    pub(crate) bytes: Vec<u8>,
    /// CHKs of the entries, by the URL in the entry.
    pub(crate) hashes: BTreeMap<String, ContentHash>,
}

impl ManifestMemory {
    pub(crate) fn id(&self) -> ManifestId {
        ManifestId::of(&self.bytes)
    }

    /// Loads the previous manifest of `page` in the requester's partition.
    pub(crate) async fn load(cache: &Cache, partition: &Partition, page: &Url) -> Option<Self> {
        let record = cache.record(RecordKind::Manifest, &key(partition, page)).await?;
        Self::decode(&record)
    }

    pub(crate) async fn store(&self, cache: &Cache, partition: &Partition, page: &Url) {
        if self.bytes.len() <= MAX_MANIFEST {
            let record = Bytes::from(self.encode());
            cache
                .put_record(RecordKind::Manifest, &key(partition, page), record)
                .await;
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        varint::encode(self.bytes.len() as u64, &mut out);
        out.extend_from_slice(&self.bytes);
        for (url, hash) in &self.hashes {
            varint::encode(url.len() as u64, &mut out);
            out.extend_from_slice(url.as_bytes());
            out.extend_from_slice(hash.as_bytes());
        }
        out
    }

    fn decode(record: &[u8]) -> Option<Self> {
        let (&VERSION, mut rest) = record.split_first()? else {
            return None;
        };
        let bytes = text(&mut rest)?.to_vec();
        let mut hashes = BTreeMap::new();
        while !rest.is_empty() {
            let url = String::from_utf8(text(&mut rest)?.to_vec()).ok()?;
            let (hash, behind) = rest.split_first_chunk::<32>()?;
            rest = behind;
            hashes.insert(url, ContentHash::from_bytes(*hash));
        }
        Some(Self { bytes, hashes })
    }
}

/// The key depends on the partition, because a manifest reveals what a user loaded.
fn key(partition: &Partition, page: &Url) -> RecordKey {
    RecordKey::new(partition, Some(page.as_str()), b"")
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(varint::decode(rest).ok()?).ok()?;
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip_and_damage_is_noticed() {
        let memory = ManifestMemory {
            bytes: vec![7; 300],
            hashes: [("/a.css", 1_u8), ("http://b.test/x", 2)]
                .map(|(url, n)| (url.to_owned(), ContentHash::of(&[n])))
                .into(),
        };
        let record = memory.encode();
        assert_eq!(ManifestMemory::decode(&record), Some(memory.clone()));
        for cut in 0..record.len() {
            assert_ne!(
                ManifestMemory::decode(&record[..cut]).as_ref(),
                Some(&memory),
                "cut at {cut}"
            );
        }
        let empty = ManifestMemory::default();
        assert_eq!(ManifestMemory::decode(&empty.encode()), Some(empty));
        assert_eq!(ManifestMemory::decode(&[9, 0]), None);
        let start = ContentHash::of(&[7; 300]).as_bytes()[..8].try_into().unwrap();
        assert_eq!(memory.id(), ManifestId::from_bytes(start));
    }
}

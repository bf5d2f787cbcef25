//! The previous manifest of a page on a device, stored as base of the next one.
//!
//! The id of a manifest covers its records, and a record does not name the body that is pushed for it. Two loads of a page
//! within a second can have equal manifests and different bodies. The agent may have kept the one and the gateway the
//! other, and "as before" would name two different bodies. Therefore a store that replaces a manifest of the same id by
//! another load's keeps only the bodies that are equal in both.
use std::collections::BTreeMap;

use bytes::Bytes;
use longhaul_cache::{Cache, Partition, RecordKey, RecordKind};
use longhaul_session::ManifestId;
use longhaul_types::{ContentHash, varint};
use url::Url;

/// Version of the record format; records of other versions are discarded.
const VERSION: u8 = 2;
/// Maximum decoded length of a stored manifest: records are limited to 1 MiB, and 1,000 entries of 500 bytes
/// fit.
const MAX_MANIFEST: usize = 640 * 1024;

/// CHK of an entry whose body differs between loads with equal manifests. No body has it.
const AMBIGUOUS: ContentHash = ContentHash::from_bytes([0; 32]);

/// Number that tells page loads apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoadNumber(u64);

impl LoadNumber {
    /// Chooses a number at random: loads before a restart of the gateway have others.
    pub(crate) fn random() -> Self {
        Self(getrandom::u64().unwrap_or_default())
    }
}

/// The kept form of a manifest, which the agent may also have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestMemory {
    /// The page load that wrote the manifest.
    pub(crate) load: LoadNumber,
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

    /// Stores the manifest, in place of that of the page's earlier load or of an earlier state of this one.
    pub(crate) async fn store(mut self, cache: &Cache, partition: &Partition, page: &Url) {
        if self.bytes.len() <= MAX_MANIFEST {
            if let Some(stored) = Self::load(cache, partition, page).await {
                self.replace(&stored);
            }
            let record = Bytes::from(self.encode());
            cache
                .put_record(RecordKind::Manifest, &key(partition, page), record)
                .await;
        }
    }

    /// Marks the bodies that an agent which has kept `stored` would mistake.
    fn replace(&mut self, stored: &Self) {
        if self.bytes != stored.bytes {
            return;
        }
        for (url, hash) in &mut self.hashes {
            let before = stored.hashes.get(url);
            let is_sure = if self.load == stored.load {
                before != Some(&AMBIGUOUS)
            } else {
                before == Some(hash)
            };
            if !is_sure {
                *hash = AMBIGUOUS;
            }
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        out.extend_from_slice(&self.load.0.to_be_bytes());
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
        let (load, behind) = rest.split_first_chunk::<8>()?;
        rest = behind;
        let load = LoadNumber(u64::from_be_bytes(*load));
        let bytes = text(&mut rest)?.to_vec();
        let mut hashes = BTreeMap::new();
        while !rest.is_empty() {
            let url = String::from_utf8(text(&mut rest)?.to_vec()).ok()?;
            let (hash, behind) = rest.split_first_chunk::<32>()?;
            rest = behind;
            hashes.insert(url, ContentHash::from_bytes(*hash));
        }
        Some(Self { load, bytes, hashes })
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

    /// A load's manifest with the bodies of `/a` and `/b`.
    fn memory(load: u64, records: u8, bodies: [u8; 2]) -> ManifestMemory {
        let [a, b] = bodies.map(|body| ContentHash::of(&[body]));
        ManifestMemory {
            load: LoadNumber(load),
            bytes: vec![records; 9],
            hashes: [("/a".to_owned(), a), ("/b".to_owned(), b)].into(),
        }
    }

    fn replaced(mut new: ManifestMemory, stored: &ManifestMemory) -> ManifestMemory {
        new.replace(stored);
        new
    }

    #[test]
    fn bodies_that_differ_between_equal_manifests_are_ambiguous() {
        let stored = memory(1, 0, [1, 2]);
        let other = replaced(memory(2, 0, [1, 3]), &stored);
        assert_eq!(other.hashes["/a"], ContentHash::of(&[1]));
        assert_eq!(other.hashes["/b"], AMBIGUOUS);
        // They stay so, for this load and for the next one.
        assert_eq!(replaced(memory(2, 0, [1, 3]), &other), other);
        assert_eq!(replaced(memory(3, 0, [1, 3]), &other).hashes, other.hashes);
    }

    #[test]
    fn bodies_of_another_manifest_and_of_the_same_load_are_sure() {
        let new = memory(2, 1, [1, 3]);
        assert_eq!(replaced(new.clone(), &memory(1, 0, [1, 2])), new);
        let mut early = new.clone();
        early.hashes.remove("/b");
        assert_eq!(replaced(new.clone(), &early), new);
        // Another load whose body was unknown.
        early.load = LoadNumber(1);
        assert_eq!(replaced(new, &early).hashes["/b"], AMBIGUOUS);
    }

    #[test]
    fn records_round_trip_and_damage_is_noticed() {
        let memory = ManifestMemory {
            load: LoadNumber(7),
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

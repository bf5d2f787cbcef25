//! Kept manifests: the base of the manifest of the page's next load, and the body of each URL.
use std::collections::BTreeMap;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use longhaul_session::{ManifestId, Record, RecordReader, keepable};
use longhaul_types::ContentHash;

/// Layout version, the first byte of a kept manifest; every change of the layout gets a new number.
const LAYOUT: u8 = 1;
/// Maximum size of a kept manifest: the codec's window, beyond which a base has no effect, is no larger.
const MAX_KEPT: usize = 512 * 1024;
const CHK: usize = 32;

/// A kept manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptManifest {
    id: ManifestId,
    bytes: Bytes,
    /// The CHKs of the entries' bodies, if known.
    chks: Vec<Option<ContentHash>>,
    bodies: BTreeMap<String, ContentHash>,
}

impl KeptManifest {
    /// Creates a kept manifest with its entries' bodies; returns `None` if it is too large or malformed.
    pub(super) fn new(bytes: &[u8], mut chks: Vec<Option<ContentHash>>) -> Option<Self> {
        if bytes.len() > MAX_KEPT {
            return None;
        }
        let bytes = Bytes::from(keepable(bytes).ok()?);
        let mut reader = RecordReader::new();
        reader.push(&bytes);
        let mut bodies = BTreeMap::new();
        let mut known = chks.iter_mut();
        while let Some(record) = reader.next().ok()? {
            let Record::Entry(entry) = record else { continue };
            match known.next() {
                Some(chk) if entry.url.is_empty() => *chk = None,
                Some(Some(chk)) => {
                    bodies.insert(entry.url, *chk);
                }
                Some(None) | None => {}
            }
        }
        Some(Self {
            id: ManifestId::of(&bytes),
            bytes,
            chks,
            bodies,
        })
    }

    /// Forgets the bodies that differ in `stored`, a kept manifest of an earlier load, if the manifests are equal: their id
    /// does not say which of both loads the gateway has kept.
    pub(super) fn replace(&mut self, stored: &Self) {
        if self.bytes != stored.bytes {
            return;
        }
        for (chk, before) in self.chks.iter_mut().zip(&stored.chks) {
            if before.is_some() && before != chk {
                *chk = None;
            }
        }
        self.bodies
            .retain(|url, chk| stored.bodies.get(url).is_none_or(|before| before == chk));
    }

    /// The manifest's id.
    pub(crate) const fn id(&self) -> ManifestId {
        self.id
    }

    /// The manifest's decoded bytes.
    pub(crate) const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the body of the entry with this absolute URL; `origin` is the page's origin.
    pub(crate) fn body_of(&self, origin: &str, url: &str) -> Option<ContentHash> {
        let path = url.strip_prefix(origin).filter(|path| path.starts_with('/'));
        let by_path = path.and_then(|path| self.bodies.get(path));
        by_path.or_else(|| self.bodies.get(url)).copied()
    }

    /// The bodies of the entries.
    pub(crate) fn hashes(&self) -> impl Iterator<Item = ContentHash> {
        self.chks.iter().copied().flatten()
    }

    /// Encodes the manifest as a record of the cache.
    pub(super) fn to_record(&self) -> Bytes {
        let mut record = BytesMut::with_capacity(self.bytes.len() + CHK * (self.chks.len() + 1) + 5);
        record.put_u8(LAYOUT);
        record.put_u32(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        record.put_slice(&self.bytes);
        for chk in &self.chks {
            record.put_slice(chk.as_ref().map_or(&[0; CHK], ContentHash::as_bytes).as_slice());
        }
        record.freeze()
    }

    /// Decodes a record of the cache; returns `None` if its layout is unknown.
    pub(crate) fn from_record(mut record: Bytes) -> Option<Self> {
        if record.try_get_u8().ok()? != LAYOUT {
            return None;
        }
        let length = usize::try_from(record.try_get_u32().ok()?).ok()?;
        if record.len() < length {
            return None;
        }
        let bytes = record.split_to(length);
        let chk = |bytes: &[u8]| {
            let bytes: [u8; CHK] = bytes.try_into().ok()?;
            (bytes != [0; CHK]).then(|| ContentHash::from_bytes(bytes))
        };
        let chks = record.chunks_exact(CHK).map(chk).collect();
        Self::new(&bytes, chks)
    }
}

#[cfg(test)]
mod tests {
    use longhaul_session::{Entry, encode_record};

    use super::*;

    fn manifest() -> KeptManifest {
        let mut bytes = Vec::new();
        for url in ["/a.css", "http://cdn.test/b.js", "/c.png"] {
            let entry = Entry {
                url: url.to_owned(),
                destination: 2,
            };
            encode_record(&Record::Entry(entry), &mut bytes).unwrap();
        }
        let chks = vec![Some(ContentHash::of(b"a")), Some(ContentHash::of(b"b")), None];
        KeptManifest::new(&bytes, chks).unwrap()
    }

    #[test]
    fn a_kept_manifest_round_trips() {
        let kept = manifest();
        let again = KeptManifest::from_record(kept.to_record()).unwrap();
        assert_eq!(again, kept);
        assert_eq!(
            again.body_of("http://site.test", "http://site.test/a.css"),
            Some(ContentHash::of(b"a"))
        );
        assert_eq!(
            again.body_of("http://site.test", "http://cdn.test/b.js"),
            Some(ContentHash::of(b"b"))
        );
        for other in [
            "http://site.test/c.png",
            "http://cdn.test/a.css",
            "http://site.testing/a.css",
        ] {
            assert_eq!(again.body_of("http://site.test", other), None, "{other}");
        }
        assert_eq!(again.hashes().count(), 2);
    }

    #[test]
    fn a_body_that_differs_between_equal_manifests_is_forgotten() {
        let stored = manifest();
        let mut kept = KeptManifest {
            chks: vec![
                Some(ContentHash::of(b"a")),
                Some(ContentHash::of(b"changed")),
                Some(ContentHash::of(b"c")),
            ],
            ..manifest()
        };
        kept = KeptManifest::from_record(kept.to_record()).unwrap();
        kept.replace(&stored);
        let body = |url| kept.body_of("http://site.test", url);
        assert_eq!(body("http://site.test/a.css"), Some(ContentHash::of(b"a")));
        assert_eq!(body("http://cdn.test/b.js"), None);
        assert_eq!(body("http://site.test/c.png"), Some(ContentHash::of(b"c")));
        assert_eq!(kept.hashes().count(), 2);
    }

    #[test]
    fn truncated_and_unknown_records_are_no_manifest() {
        let record = manifest().to_record();
        for cut in 0..40 {
            assert_eq!(KeptManifest::from_record(record.slice(..cut)), None, "{cut}");
        }
        let mut other = record.to_vec();
        other[0] = 9;
        assert_eq!(KeptManifest::from_record(other.into()), None);
    }
}

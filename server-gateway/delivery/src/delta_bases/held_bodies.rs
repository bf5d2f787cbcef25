//! The record of the bodies of one origin that an agent holds.
use bytes::Bytes;
use longhaul_http::request_context::CredentialsKey;
use longhaul_types::ContentHash;

use super::delta_key::{DeltaKey, TextKind};

/// Version of the record format; records of other versions are discarded.
const VERSION: u8 = 2;
/// Maximum number of bodies per origin: those of a few pages.
const MAX_BODIES: usize = 128;
/// Encoded size of one body in bytes: hash, URL, template, length, credentials, kind.
const SIZE: usize = 32 + 8 + 8 + 8 + 17 + 1;

/// A body that the agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeldBody {
    pub(super) hash: ContentHash,
    url: u64,
    template: u64,
    /// Decoded length in bytes.
    pub(super) length: u64,
    credentials: Option<CredentialsKey>,
    kind: TextKind,
}

/// The held bodies of an origin, the newest last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBodies(Vec<HeldBody>);

impl HeldBody {
    pub(super) fn of(delta_key: &DeltaKey, hash: ContentHash, length: u64) -> Self {
        Self {
            hash,
            url: delta_key.url,
            template: delta_key.template,
            length,
            credentials: delta_key.credentials,
            kind: delta_key.kind,
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.hash.as_bytes());
        for number in [self.url, self.template, self.length] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(self.credentials.is_some().into());
        let credentials = self.credentials.as_ref().map(CredentialsKey::as_bytes);
        out.extend_from_slice(credentials.unwrap_or(&[0; 16]));
        out.push(self.kind as u8);
    }

    fn decode(mut record: &[u8]) -> Option<Self> {
        let hash = ContentHash::from_bytes(*take::<32>(&mut record)?);
        let mut number = || take(&mut record).map(|bytes| u64::from_le_bytes(*bytes));
        let (url, template, length) = (number()?, number()?, number()?);
        let [tag] = *take(&mut record)?;
        let credentials = CredentialsKey::from_bytes(*take(&mut record)?);
        let [kind] = *take(&mut record)?;
        Some(Self {
            hash,
            url,
            template,
            length,
            credentials: (tag != 0).then_some(credentials),
            kind: TextKind::of_code(kind)?,
        })
    }
}

impl HeldBodies {
    /// Adds a body and removes the previous version of its URL. Returns true if the record changed.
    pub(super) fn add(&mut self, held: HeldBody) -> bool {
        if self.0.last() == Some(&held) {
            return false;
        }
        let is_same = |other: &HeldBody| {
            other.hash == held.hash || (other.url == held.url && other.credentials == held.credentials)
        };
        self.0.retain(|other| !is_same(other));
        if self.0.len() >= MAX_BODIES {
            self.0.remove(0);
        }
        self.0.push(held);
        true
    }

    /// Usable bodies that may be similar to a response, the most similar first: the previous version of the
    /// URL, then bodies of its template, then of its kind; within each group the newest first.
    pub(super) fn likely(&self, delta_key: &DeltaKey, usable: impl Fn(&HeldBody) -> bool) -> Vec<HeldBody> {
        let mut likely: Vec<_> = self
            .0
            .iter()
            .rev()
            .filter(|held| held.kind == delta_key.kind && held.credentials == delta_key.credentials)
            .filter(|held| usable(held))
            .cloned()
            .collect();
        // The sort is stable: the newest stay first.
        likely.sort_by_key(|held| (held.url != delta_key.url, held.template != delta_key.template));
        likely
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = vec![VERSION];
        for held in &self.0 {
            held.encode(&mut out);
        }
        out.into()
    }

    /// Returns `None` if the record is damaged.
    pub(super) fn decode(record: &[u8]) -> Option<Self> {
        let (&VERSION, rest) = record.split_first()? else {
            return None;
        };
        let chunks = rest.chunks_exact(SIZE);
        if !chunks.remainder().is_empty() || rest.len() / SIZE > MAX_BODIES {
            return None;
        }
        chunks.map(HeldBody::decode).collect::<Option<Vec<_>>>().map(Self)
    }
}

fn take<'a, const N: usize>(record: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = record.split_first_chunk()?;
    *record = rest;
    Some(first)
}

#[cfg(test)]
mod tests {
    use longhaul_cache::Partition;

    use super::*;

    fn held(n: u8, url: u64, template: u64, credentials: Option<CredentialsKey>) -> HeldBody {
        HeldBody {
            hash: ContentHash::of(&[n]),
            url,
            template,
            length: 1000 + u64::from(n),
            credentials,
            kind: TextKind::Script,
        }
    }

    #[test]
    fn records_round_trip_and_damage_is_noticed() {
        let mut bodies = HeldBodies::default();
        for n in 0..5 {
            bodies.add(held(n, n.into(), 1, Some(CredentialsKey::from_bytes([9; 16]))));
        }
        let record = bodies.encode();
        assert_eq!(HeldBodies::decode(&record), Some(bodies));
        for cut in 0..record.len() {
            let decoded = HeldBodies::decode(&record[..cut]);
            assert!(decoded.is_none() || (cut - 1) % SIZE == 0, "{cut}");
        }
        assert_eq!(HeldBodies::decode(&[]), None);
    }

    #[test]
    fn the_most_similar_bodies_come_first_and_the_oldest_are_removed() {
        let mut bodies = HeldBodies::default();
        for (n, url, template) in [(1, 10, 5), (2, 11, 5), (3, 12, 6)] {
            bodies.add(held(n, url, template, None));
        }
        let delta_key = DeltaKey {
            partition: Partition::Shared,
            origin: String::new(),
            url: 10,
            template: 5,
            kind: TextKind::Script,
            credentials: None,
        };
        let order = |bodies: &HeldBodies, delta_key: &DeltaKey| -> Vec<u64> {
            bodies
                .likely(delta_key, |_| true)
                .iter()
                .map(|held| held.length - 1000)
                .collect()
        };
        assert_eq!(order(&bodies, &delta_key), [1, 2, 3]);
        assert!(bodies.add(held(4, 10, 5, None)), "a new version");
        assert!(!bodies.add(held(4, 10, 5, None)), "nothing new");
        assert_eq!(order(&bodies, &delta_key), [4, 2, 3]);
        for n in 0..200 {
            bodies.add(held(n, 100 + u64::from(n), 7, None));
        }
        assert_eq!(bodies.0.len(), MAX_BODIES);
    }

    #[test]
    fn a_full_record_is_read_and_a_longer_one_is_damaged() {
        let mut bodies = HeldBodies::default();
        let body = |n: usize| held(u8::try_from(n).unwrap(), n as u64, 1, None);
        for n in 0..MAX_BODIES {
            bodies.add(body(n));
        }
        let mut record = bodies.encode().to_vec();
        assert_eq!(HeldBodies::decode(&record), Some(bodies));
        body(MAX_BODIES).encode(&mut record);
        assert_eq!(HeldBodies::decode(&record), None);
    }
}

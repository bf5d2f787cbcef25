//! Kinds of small records that other parts keep here.
use longhaul_http::site::SchemefulSite;

use crate::Partition;

/// The most records of one kind; beyond it the one that was not used for longest is dropped.
pub const MAX_RECORDS: usize = 4_096;
/// The longest record in bytes; a longer one is not kept.
pub const MAX_RECORD: usize = 1 << 20;

/// Under which a record is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey {
    /// Whose requests it may serve.
    pub(crate) partition: Partition,
    /// A hash of partition and name.
    pub(crate) hash: [u8; 32],
    /// The site that it is about, by its domain; none if it is about none.
    pub(crate) domain: Option<String>,
}

impl RecordKey {
    /// The key of a record that serves everybody and is about no site.
    pub fn shared(name: &[u8]) -> Self {
        Self::new(&Partition::Shared, None, name)
    }

    /// The key of a record for the requests of a partition. `url`: what it is about, by which it is forgotten with its
    /// site. `name` tells it from others of its kind there.
    pub fn new(partition: &Partition, url: Option<&str>, name: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul cache record key");
        let (tag, owner, key) = match partition {
            Partition::Shared => (0, None, ""),
            Partition::Private(private) => (1, Some(private.owner), private.key.as_str()),
        };
        hasher.update(&[tag]);
        if let Some(owner) = owner {
            hasher.update(&owner.device);
            hasher.update(&owner.client.0.to_le_bytes());
        }
        for part in [key.as_bytes(), url.unwrap_or_default().as_bytes(), name] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self {
            partition: partition.clone(),
            hash: *hasher.finalize().as_bytes(),
            domain: url
                .and_then(SchemefulSite::of_url)
                .map(|site| site.domain().to_owned()),
        }
    }
}

/// A kind of record: each has its own keys and its own bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The last manifest of a page.
    Manifest = 1,
    /// What was learned about a page: what its scripts load.
    Plan = 2,
    /// What a browser sends per destination.
    RequestTemplate = 3,
    /// Which bodies of an origin an agent holds, as bases for others.
    Bases = 4,
    /// What became of a picture at a level.
    Variant = 5,
    /// What a body was coded to.
    Coded = 6,
}

impl RecordKind {
    pub(crate) const ALL: [Self; 6] = [
        Self::Manifest,
        Self::Plan,
        Self::RequestTemplate,
        Self::Bases,
        Self::Variant,
        Self::Coded,
    ];

    pub(crate) fn code(self) -> i64 {
        self as i64
    }
}

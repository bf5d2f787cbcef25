//! Kinds of small records of other components.
use longhaul_http::site::SchemefulSite;

use crate::Partition;

/// Maximum number of records of one kind; beyond it the least recently used one is dropped.
pub const MAX_RECORDS: usize = 4_096;
/// Maximum length of a record in bytes; longer records are not stored.
pub const MAX_RECORD: usize = 1 << 20;

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey {
    /// Partition of the requests that the record may serve.
    pub(crate) partition: Partition,
    /// Hash of partition, URL and name.
    pub(crate) hash: [u8; 32],
    /// Registrable domain of the site that the record concerns, if any.
    pub(crate) domain: Option<String>,
}

impl RecordKey {
    /// Returns the key of a record that serves all requests and concerns no site.
    pub fn shared(name: &[u8]) -> Self {
        Self::new(&Partition::Shared, None, name)
    }

    /// Returns the key of a record for the requests of a partition. `url` is the record's subject; the record
    /// is deleted with the URL's site. `name` distinguishes records of the same kind and URL.
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

/// The kind of a record; each kind has its own keys and limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// The last manifest of a page.
    Manifest = 1,
    /// The learned plan of a page: the objects that its scripts load.
    Plan = 2,
    /// The request fields that a browser sends per destination.
    RequestTemplate = 3,
    /// The bodies of an origin that an agent holds, as bases for other bodies.
    Bases = 4,
    /// The result of transcoding an image at a level.
    Variant = 5,
    /// The coded result of a body.
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

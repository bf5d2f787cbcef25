//! Messages of page bundles (docs/protocol/session.md section 7): manifests, pushed bodies, and the agent's
//! reports about them.
use bincode::{Decode, Encode};
use longhaul_types::ClientId;

use super::{
    hash_prefix::{ManifestId, ShortHash},
    id::{EntryId, FetchId, ForgetId, PageId},
};

/// Begins the manifest of a page load; `Body` and windows follow, whose decoded bytes are records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Manifest {
    /// Page load.
    pub page: PageId,
    /// Manifest against which the windows are encoded, if any: one that the agent named in its `Fetch`.
    pub base: Option<ManifestId>,
}

/// Dictionaries of the agent: all sets up to `set`. Follows `Hello`; without this message the agent has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Dictionaries {
    /// Newest set.
    pub set: u32,
}

/// Hosts whose HTTPS the agent accelerates, and whose objects the gateway may push for `https` pages. Follows
/// `Hello` and each change; without this message there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum AcceleratedHosts {
    /// No host.
    #[default]
    Nothing,
    /// These names and their subdomains, in lower case.
    Only(Vec<String>),
    /// All hosts except these names with their subdomains and the built-in exclusions.
    AllBut(Vec<String>),
}

/// Begins a pushed body; `Body` and windows follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Push {
    /// Page load.
    pub page: PageId,
    /// Entry of its manifest.
    pub entry: EntryId,
}

/// Answer to a fetch that matches an entry of a manifest. Nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Promised {
    /// Number of the fetch.
    pub fetch: FetchId,
    /// Page load.
    pub page: PageId,
    /// Entry of its manifest.
    pub entry: EntryId,
}

/// Requests a push (again): the agent lacks a body that the gateway believes it holds, or the body arrived
/// damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Want {
    /// Page load.
    pub page: PageId,
    /// Entry of its manifest.
    pub entry: EntryId,
}

/// Lists entries that the browser waits for; the gateway raises their priority.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ask {
    /// Page load.
    pub page: PageId,
    /// Entries of its manifest, most urgent first.
    pub entries: Vec<EntryId>,
}

/// Lists the entries that the browser used, after the end of a page load.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Used {
    /// Page load.
    pub page: PageId,
    /// Little-endian bit string: bit i is set if entry i was used.
    pub taken: Vec<u8>,
}

impl Used {
    /// Creates the list of those of a manifest's first `count` entries for which `is_taken` is true.
    pub fn new(page: PageId, count: usize, is_taken: impl Fn(EntryId) -> bool) -> Self {
        let mut taken = Vec::new();
        for entry in EntryId::all().take(count).filter(|entry| is_taken(*entry)) {
            let (byte, bit) = Self::place(entry);
            if taken.len() <= byte {
                taken.resize(byte + 1, 0_u8);
            }
            taken[byte] |= 1 << bit;
        }
        Self { page, taken }
    }

    /// Byte of an entry's bit, and the number of the bit in it.
    fn place(entry: EntryId) -> (usize, usize) {
        (entry.position() / 8, entry.position() % 8)
    }

    /// Returns true if the browser used the entry.
    pub fn is_taken(&self, entry: EntryId) -> bool {
        let (byte, bit) = Self::place(entry);
        self.taken.get(byte).is_some_and(|byte| byte >> bit & 1 == 1)
    }
}

/// Lists bodies that the agent no longer holds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Evicted {
    /// Their names.
    pub hashes: Vec<ShortHash>,
}

/// Lists the bodies of a page's previous manifest that the agent holds, for a gateway without the mirror.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Holding {
    /// Page load.
    pub page: PageId,
    /// Their names.
    pub hashes: Vec<ShortHash>,
}

/// Requests deletion of the data that the gateway keeps for this device: responses, learned plans, manifests,
/// and the mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Number of the deletion.
    pub id: ForgetId,
    /// Client of the agent; `None` for all clients.
    pub client: Option<ClientId>,
    /// Registrable domain of a site; `None` for all sites.
    pub site: Option<String>,
}

/// Confirms a `Forget`: the gateway's files no longer contain the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Forgotten {
    /// Number of the `Forget`.
    pub id: ForgetId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_and_unused_entries_are_distinguished() {
        let page = PageId::of(FetchId::new(7));
        let used = Used::new(page, 20, |entry| [0, 9].contains(&entry.number()));
        assert_eq!(used.taken, [1, 2]);
        let entries = EntryId::all().take(30);
        let taken: Vec<EntryId> = entries.filter(|entry| used.is_taken(*entry)).collect();
        assert_eq!(taken, [EntryId::new(0), EntryId::new(9)]);
        assert!(Used::new(page, 20, |_| false).taken.is_empty());
    }
}

//! The messages of page bundles (docs/protocol/session.md section 7): manifests, pushed bodies, and what the agent
//! says of them.
use bincode::{Decode, Encode};

/// Begins the manifest of a page load; `Body` and windows follow, whose decoded bytes are records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Manifest {
    /// The page load, by its fetch.
    pub page: u64,
    /// The manifest against which the windows are coded, if any: one that the agent named in its `Fetch`.
    pub base: Option<ManifestId>,
}

/// The first 8 bytes of the CHK of a manifest's decoded bytes.
pub type ManifestId = [u8; 8];

/// The dictionaries that the agent has: those of every set up to this one. Follows `Hello`; without it there are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Dictionaries {
    /// The newest set.
    pub set: u32,
}

/// The hosts whose HTTPS the agent accelerates: what the gateway may push of `https` pages. Follows `Hello`, and whenever
/// it changes; without it there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum AcceleratedHosts {
    /// None.
    #[default]
    Nothing,
    /// These names and those below them, in lower case.
    Only(Vec<String>),
    /// All but these names and those below them, and what is excluded unless it is named.
    AllBut(Vec<String>),
}

/// The first bytes of a CHK, where a mistake costs a repetition and no more.
pub type ShortHash = [u8; 6];

/// Begins a pushed body; `Body` and windows follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Push {
    /// The page load.
    pub page: u64,
    /// The entry of its manifest.
    pub entry: u32,
}

/// The answer to a fetch that a manifest promises already. Nothing follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Promised {
    /// The fetch that it answers.
    pub fetch: u64,
    /// The page load.
    pub page: u64,
    /// The entry of its manifest.
    pub entry: u32,
}

/// The agent does not have a body that the gateway takes it to hold, or it came damaged: it is to be pushed (again).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Want {
    /// The page load.
    pub page: u64,
    /// The entry of its manifest.
    pub entry: u32,
}

/// The browser asked for these: they move up.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Ask {
    /// The page load.
    pub page: u64,
    /// Entries of its manifest, most wanted first.
    pub entries: Vec<u32>,
}

/// What the browser took of a page load, once that is over.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Used {
    /// The page load.
    pub page: u64,
    /// Bit i of the little-endian bit string: entry i was taken.
    pub taken: Vec<u8>,
}

impl Used {
    /// Of so many entries, those for which `is_taken`.
    pub fn new(page: u64, entries: u32, is_taken: impl Fn(u32) -> bool) -> Self {
        let mut taken = Vec::new();
        for entry in (0..entries).filter(|entry| is_taken(*entry)) {
            // A u32 of entries divided by eight fits any usize.
            let byte = usize::try_from(entry / 8).unwrap_or(usize::MAX);
            if taken.len() <= byte {
                taken.resize(byte + 1, 0_u8);
            }
            taken[byte] |= 1 << (entry % 8);
        }
        Self { page, taken }
    }

    /// Whether the browser took the entry.
    pub fn is_taken(&self, entry: u32) -> bool {
        let byte = usize::try_from(entry / 8)
            .ok()
            .and_then(|byte| self.taken.get(byte));
        byte.is_some_and(|byte| byte >> (entry % 8) & 1 == 1)
    }
}

/// Bodies that the agent holds no longer.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Evicted {
    /// Their CHKs' first bytes.
    pub hashes: Vec<ShortHash>,
}

/// What the agent holds of a page's last manifest, for a gateway that does not know.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Holding {
    /// The page load.
    pub page: u64,
    /// The CHKs' first bytes.
    pub hashes: Vec<ShortHash>,
}

/// The gateway is to forget what it keeps of this device: responses, learned plans, and what the agent holds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Forget {
    /// Numbered upwards by the agent, from 1.
    pub id: u64,
    /// Of one client of the agent, or of all.
    pub client: Option<u64>,
    /// Of one site, by its registrable domain, or of all.
    pub site: Option<String>,
}

/// What a `Forget` named is forgotten: nothing of it is in the gateway's files any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Forgotten {
    /// The number of the `Forget`.
    pub id: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_entries_are_told_apart() {
        let used = Used::new(7, 20, |entry| entry == 0 || entry == 9);
        assert_eq!(used.taken, [1, 2]);
        let taken: Vec<u32> = (0..30).filter(|entry| used.is_taken(*entry)).collect();
        assert_eq!(taken, [0, 9]);
        assert!(Used::new(7, 20, |_| false).taken.is_empty());
    }
}

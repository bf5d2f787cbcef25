//! What a cache is asked to forget.
use longhaul_types::ClientId;

use crate::Owner;

/// What is to be forgotten. Bodies go with the last response that names them, and so do all that no response names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forget {
    /// Whose; everybody's if none is given.
    pub whose: Whose,
    /// What of it.
    pub what: ForgetWhat,
}

/// Whose responses and records are to be forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Everybody's, shared ones included.
    Everybody,
    /// All clients' of a device.
    Device([u8; 32]),
    /// One client's.
    Client(Owner),
}

/// Which responses and records are to be forgotten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForgetWhat {
    /// All.
    All,
    /// What was fetched from a site, or for it: by its registrable domain.
    Site(String),
    /// What was fetched from an origin (`Clear-Site-Data`), by scheme, host and port.
    Origin(String),
}

impl Whose {
    /// A client of the device that has the cache.
    pub const fn local(client: ClientId) -> Self {
        Self::Client(Owner::local(client))
    }
}

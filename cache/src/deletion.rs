//! Deletion requests.
use longhaul_types::ClientId;

use crate::Owner;

/// Data to be deleted. A body is deleted with the last response that refers to it; bodies without any
/// response are always deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Owners of the data.
    pub whose: OwnerSelection,
    /// Selection among the owners' data.
    pub what: DeletionScope,
}

/// Owners of the responses and records to be deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerSelection {
    /// All owners; includes shared responses.
    Everybody,
    /// All clients of a device.
    Device([u8; 32]),
    /// One client.
    Client(Owner),
}

/// Selection of responses and records to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeletionScope {
    /// All.
    All,
    /// Data fetched from a site or for a site, by its registrable domain.
    Site(String),
    /// Data fetched from an origin (`Clear-Site-Data`), by scheme, host and port.
    Origin(String),
}

impl OwnerSelection {
    /// A client of the local device.
    pub const fn local(client: ClientId) -> Self {
        Self::Client(Owner::local(client))
    }
}

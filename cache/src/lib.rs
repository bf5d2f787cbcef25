//! Store of bodies by content hash, of responses by URL, and of the bodies that a peer holds.
//!
//! One thread owns one SQLite file; [`Cache`] is its asynchronous handle. All data in the file can be fetched
//! again, so failures of the store never prevent browsing: a damaged file is set aside and replaced by a new
//! one; on a full disk the store shrinks and then stops accepting data; if no file can be written, the store
//! works in memory. Returned data are correct: every body is verified by its hash.
//!
//! * Bodies are found by their [`ContentHash`](longhaul_types::ContentHash) and stored once, for any number
//!   of responses. Eviction prefers bodies that are cheap to fetch again (see [`Cost`]).
//! * Responses are found by [`Partition`] and URL, one per value of the request fields that `Vary` names.
//! * Records are small values of other components (manifests, learned plans), bounded and dropped by age.
//! * Mirrors are the gateway's records of the bodies that devices hold.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
mod command;
mod config;
mod cost;
mod deletion;
mod mirror;
mod reader;
mod record;
mod response;
mod shared;
mod store;
mod usage;
mod writer;

pub use cache::{Cache, Opened};
pub use config::{CacheConfig, OpenError, ResetReason, Storage};
pub use cost::Cost;
pub use deletion::{Deletion, DeletionScope, OwnerSelection};
pub use mirror::{MAX_DEVICES, MAX_HELD, Mirror, PartitionLabel};
pub use reader::{ReadError, StoredBody};
pub use record::{MAX_RECORD, MAX_RECORDS, RecordKey, RecordKind};
pub use response::{
    MAX_RESPONSE, MAX_VARIANTS, OriginBytes, Owner, Partition, PrivatePartition, StoredResponse,
};
pub use usage::Usage;
pub use writer::{BodyWriter, StoreError};

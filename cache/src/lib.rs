//! The store of bodies by content hash, of responses by URL, and of what a peer holds.
//!
//! One thread owns one SQLite file; [`Cache`] is its asynchronous handle. Everything in the file can be fetched
//! again, so the store never stands in the way of browsing: a damaged file is set aside and a new one begun, on a
//! full disk the store shrinks and then stops taking, and where no file can be written it works in memory. What it
//! does return is right: every body is compared with its hash before it is handed out.
//!
//! * Bodies are found by their [`ContentHash`](longhaul_types::ContentHash) and kept once, however many responses
//!   have them. What is dear to fetch again is kept longest (see [`Cost`]).
//! * Responses are found by [`Partition`] and URL, one per value of the request fields that `Vary` names.
//! * Records are small texts of other parts (manifests, learned plans), bounded and dropped by age.
//! * Mirrors are what the gateway believes each device to hold.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cache;
mod command;
mod config;
mod cost;
mod forget;
mod mirror;
mod reader;
mod record;
mod response;
mod store;
mod usage;
mod writer;

pub use cache::Cache;
pub use config::{CacheConfig, OpenError, Opened, ResetReason, Storage};
pub use cost::Cost;
pub use forget::{Forget, ForgetWhat, Whose};
pub use mirror::{MAX_DEVICES, MAX_HELD, Mirror, PartitionLabel};
pub use reader::{ReadError, StoredBody};
pub use record::{MAX_RECORD, MAX_RECORDS, RecordKey, RecordKind};
pub use response::{MAX_RESPONSE, MAX_VARIANTS, Owner, Partition, PrivatePartition, StoredResponse};
pub use usage::Usage;
pub use writer::{BodyWriter, StoreError};

//! Page loads at the agent: manifests and pushed bodies (docs/protocol/session.md section 7).
//!
//! A page's fetch starts a `PageLoad`. Manifest and pushes arrive in any order; requests wait in the page
//! load for the entries that they match (`crate::request`). One task per page load (`storing_task`) stores
//! complete responses in the cache and ends the page load: when the browser has left the page, or some time
//! after the page load is complete.
mod entry_state;
mod kept_manifest;
mod lifecycle;
mod manifest_entry;
mod manifest_reader;
mod page_load;
mod page_loads;
mod page_state;
mod push_reader;
mod pushed_body;
mod request_match;
mod storing_task;
mod unreachable_hosts;
mod written_sites;

pub(crate) use entry_state::{EntryBodyState, HeadState, HeldBody};
pub(crate) use kept_manifest::KeptManifest;
pub(crate) use lifecycle::PageLoadGuard;
pub(crate) use manifest_entry::FailedFetch;
pub(crate) use page_load::{PageLoad, PageLoadStart};
pub use page_loads::PageLoads;
pub(crate) use page_state::{DocumentProgress, ManifestProgress, PageResponse};
pub(crate) use pushed_body::{BodyFault, PushedBody, PushedBodyReader};
pub(crate) use request_match::{BrowserRequest, MismatchReason, match_response};

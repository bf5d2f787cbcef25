//! The phases of a request.
use std::sync::Arc;

use longhaul_session::{EntryHead, EntryId};

use super::outcome::RequestOutcome;
use crate::{
    gateway::{GatewaySession, SendPhase},
    pageload::PageLoad,
};

/// Phase of a request.
#[derive(Debug)]
pub(super) enum Phase {
    /// Looks up the agent's cache and the page loads.
    Lookup,
    /// Waits for the manifest of the request's page.
    WaitingForManifest(Arc<PageLoad>),
    /// Waits for the `Head` record of an entry.
    Promised(Promise),
    /// Waits for the first bytes of the entry's body.
    Arriving(Promise, Arc<EntryHead>),
    /// Waits for a session, or for the direct fallback.
    Waiting,
    /// Sent in a session; waits for the gateway's answer.
    Sent(Arc<GatewaySession>, SendPhase),
    /// Fetches directly, without the gateway.
    Direct,
    /// Finished.
    Over(RequestOutcome),
}

/// An entry of a manifest that matches the request.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub(super) load: Arc<PageLoad>,
    pub(super) entry: EntryId,
    /// True if the requester is a style sheet of the page and not its document.
    pub(super) by_style_sheet: bool,
    pub(super) visit: PromiseVisit,
}

/// The visit to a page that a page load belongs to, as the request's requester sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PromiseVisit {
    /// The visit that the request belongs to.
    This,
    /// An earlier visit to the same page, or a visit to another page of the origin: its responses of
    /// [`Scope::ThisPage`](longhaul_session::Scope::ThisPage) were fetched before the requester's document, and what
    /// the browser wrote in between would be missing.
    Earlier,
}

//! The components that make pages load faster: page loads with pushes, accelerated HTTPS, and smaller images.
use std::time::Duration;

use arc_swap::ArcSwap;
use longhaul_types::Techniques;

use crate::{https::Https, images::ImageSettings, pageload::PageLoads};

/// Handle of the components that accelerate pages.
#[derive(Debug)]
pub struct Acceleration {
    /// Techniques that are switched off for measurements.
    pub without: Techniques,
    /// Page loads in progress.
    pub page_loads: PageLoads,
    /// Settings of page bundles, which may change while the agent runs.
    pub push: ArcSwap<PushPolicy>,
    /// State of accelerated HTTPS.
    pub https: Https,
    /// The user's image settings.
    pub images: ImageSettings,
}

/// How requests use page bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PushPolicy {
    /// True if the gateway fetches and pushes the objects of pages.
    pub enabled: bool,
    /// Minimum time without data of the page after which a request no longer waits for an announced object.
    pub stall_timeout: Duration,
    /// Time after which the browser gets the head of an announced response whose body has not begun to arrive.
    pub head_after: Duration,
    /// Maximum delay, in addition to half a round-trip time, of an object's entry after the bytes that made
    /// the browser request the object.
    pub reordering: Duration,
    /// Time after the head of a document that a page navigated to; if the page is idle during this time, it
    /// counts as left.
    pub leaving: Duration,
}

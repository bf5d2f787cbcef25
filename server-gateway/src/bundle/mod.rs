//! Bundles: what a page loads, announced in a manifest and pushed before the browser asks.
//!
//! `load` is one page load: its `tap` looks through the page while it is sent, `subresource` fetches what is found, and
//! `drive` starts both fetches and pushes in the order of the `plan`. `manifest` writes the records, `push` the bodies,
//! `memory` keeps a manifest as the next one's base, `learned` what visits taught, of which
//! `publicity` says whom it may be told to. `mirror` is what the agent holds.
mod context;
mod counters;
mod learned;
mod load;
mod manifest;
mod memory;
mod mirror;
mod plan;
mod publicity;
mod push;
mod registry;

pub(crate) use self::{
    context::{BundleContext, lock},
    counters::BundleCounters,
    mirror::{Mirror, short},
    registry::Bundles,
};

//! Page bundles: the objects that a page loads, announced in a manifest and pushed before the browser
//! requests them.
//!
//! * `load` is one page load. Its `tap` parses the page while it is sent, `subresource` fetches the objects
//!   found, `drive` starts fetches and pushes in the order of the `plan`.
//! * `manifest` writes the records, `push` the bodies. `memory` stores a manifest as base of the next one.
//! * `learned` stores the learned plans; `publicity` decides which part other devices may use.
pub(crate) mod context;
pub(crate) mod counters;
mod learned;
mod load;
mod manifest;
mod memory;
pub(crate) mod page_loads;
mod plan;
mod publicity;
mod push;
pub(crate) mod registry;

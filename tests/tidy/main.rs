//! Rules of the workspace as tests: allowed dependencies between crates, their features, banned dependencies and licences,
//! file sizes and names, links of documents, functions that docs/INTERNALS.md names.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    reason = "a test reports by panicking, in its helpers too"
)]

mod carriers;
mod circles;
mod compile_time;
mod documents;
mod graph;
mod layers;
mod paths;
mod sources;
mod walks;

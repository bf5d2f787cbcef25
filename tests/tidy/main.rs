//! The rules of the house as tests: who may depend on whom, what never gets in, how large a file may grow.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    reason = "a test reports by panicking, in its helpers too"
)]

mod circles;
mod documents;
mod graph;
mod paths;
mod sources;

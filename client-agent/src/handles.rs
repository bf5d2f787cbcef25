//! The handles that a browser's connection passes to its requests.
use std::sync::Arc;

use crate::{
    acceleration::Acceleration, counters::Counters, journal::Journal, store::Storage, upstream::Upstream,
};

/// Handles of the agent's components. Only the code that accepts requests takes all of them; other code takes
/// the handles that it uses.
#[derive(Clone, Debug)]
pub struct Handles {
    /// The ways to origins.
    pub upstream: Arc<Upstream>,
    /// The cache, and the rules for its use.
    pub storage: Arc<Storage>,
    /// Page loads, accelerated HTTPS, and images.
    pub acceleration: Arc<Acceleration>,
    /// Counters of the dashboard.
    pub counters: Arc<Counters>,
    /// The last requests.
    pub journal: Journal,
}

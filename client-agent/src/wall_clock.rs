//! The wall clock, which cache freshness and certificates use.
use std::time::{SystemTime, UNIX_EPOCH};

use longhaul_types::UnixTime;

/// Returns the wall-clock time.
pub(crate) fn now() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

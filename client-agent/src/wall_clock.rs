//! The wall clock, which cache freshness and certificates use.
use std::time::SystemTime;

use longhaul_types::UnixTime;

/// Returns the wall-clock time.
pub(crate) fn now() -> UnixTime {
    SystemTime::now().into()
}

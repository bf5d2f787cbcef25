//! The wall clock.
use std::time::SystemTime;

use longhaul_types::UnixTime;

/// The time now. With a clock before 1970 every response is stale, and none is reused.
pub fn now() -> UnixTime {
    SystemTime::now().into()
}

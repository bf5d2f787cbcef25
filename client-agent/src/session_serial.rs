//! The number of a session in this process.
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// Number of a session of this process. It distinguishes the sessions in which page loads began; the gateway
/// does not see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SessionSerial(u64);

impl SessionSerial {
    /// A number that no other session of this process has.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Relaxed))
    }
}

impl fmt::Display for SessionSerial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

//! The limit of open files on Unix.
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Maximum number of open files: twice the maximum number of connections, and a reserve.
const MAX_FILES: u64 = 8192;

/// Raises the limit of open files up to the system's hard limit: the usual soft limit of 1024 is less than
/// some browsers' connections and the direct connections for them need.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _best_effort = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(MAX_FILES)), hard);
    }
}

//! Changes of the device list by other processes.
use std::{fs, time::SystemTime};

use super::{Devices, DevicesError, file::FILE};
use crate::admission::state::StateDir;

/// Detects changes of the device list by other processes.
#[derive(Debug)]
pub struct DevicesWatch {
    state: StateDir,
    seen: Option<Fingerprint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    modified: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl DevicesWatch {
    /// Creates a watch of the list in a state directory. The first call of `look` always reports a change, so
    /// that no change between a load and the start of the watch is missed.
    pub fn new(state: StateDir) -> Self {
        Self { state, seen: None }
    }

    /// Returns the new list if the file changed since the last call.
    ///
    /// # Errors
    /// The file changed and cannot be read; it is read again after its next change.
    pub fn look(&mut self) -> Option<Result<Devices, DevicesError>> {
        let now = fs::metadata(self.state.file(FILE)).ok().map(|found| Fingerprint {
            modified: found.modified().ok(),
            length: found.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&found),
        });
        if now == self.seen {
            return None;
        }
        self.seen = now;
        Some(Devices::load(&self.state))
    }
}

//! Changes of a file by other processes.
use std::{fs, path::PathBuf, time::SystemTime};

/// Detects changes of a file.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    seen: Option<Fingerprint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    modified: Option<SystemTime>,
    length: u64,
    #[cfg(unix)]
    inode: u64,
}

impl FileWatch {
    /// Creates a watch. The first call of `has_changed` reports a change if the file exists.
    pub const fn new(path: PathBuf) -> Self {
        Self { path, seen: None }
    }

    /// Returns true if the file changed since the last call.
    pub fn has_changed(&mut self) -> bool {
        let now = fs::metadata(&self.path).ok().map(|found| Fingerprint {
            modified: found.modified().ok(),
            length: found.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(&found),
        });
        let changed = now != self.seen;
        self.seen = now;
        changed
    }
}

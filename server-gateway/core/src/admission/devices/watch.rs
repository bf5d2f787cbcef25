//! Changes of the device list by other processes.
use super::{Devices, DevicesError, file::FILE};
use crate::admission::{file_watch::FileWatch, state::StateDir};

/// Detects changes of the device list by other processes.
#[derive(Debug)]
pub struct DevicesWatch {
    state: StateDir,
    file: FileWatch,
}

impl DevicesWatch {
    /// Creates a watch of the list in a state directory. The first call of `look` always reports a change, so
    /// that no change between a load and the start of the watch is missed.
    pub fn new(state: StateDir) -> Self {
        let file = FileWatch::new(state.file(FILE));
        Self { state, file }
    }

    /// Returns the new list if the file changed since the last call.
    ///
    /// # Errors
    /// The file changed and cannot be read; it is read again after its next change.
    pub fn look(&mut self) -> Option<Result<Devices, DevicesError>> {
        self.file.has_changed().then(|| Devices::load(&self.state))
    }
}

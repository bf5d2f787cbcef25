//! The directories that are created for the state directory, recorded before the first of them exists and until
//! the last of them is removed.
//!
//! The journal is in the state directory. It cannot tell what a process did that died before it wrote the
//! journal, or after it removed it. This record can: it is a file beside the outermost of the directories.
use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    disk::{self, Disk, beside, parent},
    error::ChangeError,
};

/// The record that a dead process left, if any: its directories, outermost first.
pub(crate) fn recorded(state_dir: &Path) -> Result<Vec<PathBuf>, ChangeError> {
    for path in places(state_dir) {
        let bytes = match disk::read(&path) {
            // Another user's directory cannot have a record of this user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            read => read.map_err(ChangeError::file(&path, "read"))?,
        };
        let Some(bytes) = bytes else { continue };
        let text = String::from_utf8_lossy(&bytes);
        // The directory of the record may be writable for others.
        let directories = text.lines().map(PathBuf::from);
        return Ok(directories
            .filter(|directory| state_dir.starts_with(directory))
            .collect());
    }
    Ok(Vec::new())
}

/// Writes the record, durably; `directories` are outermost first.
pub(crate) fn record(disk: &Disk, state_dir: &Path, directories: &[PathBuf]) -> Result<(), ChangeError> {
    let Some(outermost) = directories.first() else {
        return Ok(());
    };
    let path = place(state_dir, parent(outermost));
    let lines: String = directories
        .iter()
        .map(|directory| format!("{}\n", directory.display()))
        .collect();
    disk.write(&path, lines.as_bytes(), 0o600)
        .map_err(ChangeError::file(&path, "written"))
}

/// Removes the record, and what a dead process left of it.
pub(crate) fn forget(disk: &Disk, state_dir: &Path) -> Result<(), ChangeError> {
    for path in places(state_dir) {
        for path in [beside(&path), path] {
            if path.symlink_metadata().is_ok() {
                disk.remove(&path).map_err(ChangeError::file(&path, "removed"))?;
            }
        }
    }
    Ok(())
}

/// All places where a record may be.
fn places(state_dir: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    let folders = state_dir.ancestors().skip(1);
    let folders = folders.filter(|folder| !folder.as_os_str().is_empty());
    folders.map(|folder| place(state_dir, folder))
}

fn place(state_dir: &Path, folder: &Path) -> PathBuf {
    let name = state_dir.file_name().unwrap_or_default().to_string_lossy();
    folder.join(format!(".{name}.directories"))
}

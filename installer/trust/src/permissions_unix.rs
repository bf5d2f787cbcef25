//! Unix only: modes and owners of files.
use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    path::Path,
};

/// The permission bits of a file.
pub(crate) fn mode(metadata: &Metadata) -> u32 {
    metadata.permissions().mode() & 0o7777
}

/// Creates a new file that only its owner can read; an existing file is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// Sets the permission bits of an open file.
pub(crate) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Gives an open file the owner of another one; only root may change owners.
pub(crate) fn set_owner(file: &File, like: &Metadata) -> io::Result<()> {
    let now = file.metadata()?;
    if (now.uid(), now.gid()) == (like.uid(), like.gid()) {
        return Ok(());
    }
    fchown(file, Some(like.uid()), Some(like.gid()))
}

/// Creates one directory.
pub(crate) fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

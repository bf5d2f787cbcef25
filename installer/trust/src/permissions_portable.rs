//! Systems without modes and owners: files have the permissions of their directory.
use std::{
    fs::{self, File, Metadata},
    io,
    path::Path,
};

/// The permission bits of a file: none here.
pub(crate) fn mode(_metadata: &Metadata) -> u32 {
    0
}

/// Creates a new file; an existing file is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

/// Does nothing.
pub(crate) fn set_mode(_file: &File, _mode: u32) -> io::Result<()> {
    Ok(())
}

/// Does nothing.
pub(crate) fn set_owner(_file: &File, _like: &Metadata) -> io::Result<()> {
    Ok(())
}

/// Creates one directory.
pub(crate) fn create_directory(path: &Path, _mode: u32) -> io::Result<()> {
    fs::create_dir(path)
}

/// Does nothing: directories cannot be synchronised.
pub(crate) fn sync_directory(_path: &Path) -> io::Result<()> {
    Ok(())
}

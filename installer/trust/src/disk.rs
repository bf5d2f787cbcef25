//! Durable changes of files: each is complete or has no effect.
#[cfg(test)]
use std::cell::Cell;
use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

#[cfg(not(unix))]
pub(crate) use crate::permissions_portable as permissions;
#[cfg(unix)]
pub(crate) use crate::permissions_unix as permissions;

/// Mode of directories: the umask of the process applies.
pub(crate) const DIRECTORY: u32 = 0o777;
/// Mode of directories with secrets.
pub(crate) const PRIVATE_DIRECTORY: u32 = 0o700;

/// Writes and removes files.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Number of operations after which the process "dies".
    #[cfg(test)]
    pub(crate) left: Option<Cell<u32>>,
}

impl Disk {
    /// Writes a file of the same directory and renames it, so that readers see the old or the new bytes.
    ///
    /// The new file has the owner of the old one.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
        let beside = beside(path);
        remove_if_present(&beside)?;
        self.live()?;
        let mut file = permissions::create_private(&beside)?;
        self.live()?;
        file.write_all(bytes)?;
        permissions::set_mode(&file, mode)?;
        if let Ok(old) = fs::metadata(path) {
            permissions::set_owner(&file, &old)?;
        }
        sync(&file)?;
        self.live()?;
        fs::rename(&beside, path)?;
        self.live()?;
        sync_directory(parent(path))
    }

    /// Removes a file; it is no error if there is none.
    pub(crate) fn remove(&self, path: &Path) -> io::Result<()> {
        self.live()?;
        remove_if_present(path)?;
        self.live()
    }

    /// Creates one directory; it is no error if it exists.
    pub(crate) fn create_directory(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.live()?;
        match permissions::create_directory(path, mode) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            done => done,
        }?;
        self.live()
    }

    /// Removes a directory if it is empty, and returns true if it does not exist any more.
    pub(crate) fn remove_if_empty(&self, path: &Path) -> io::Result<bool> {
        self.live()?;
        match fs::remove_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => return Ok(false),
            Err(error) => return Err(error),
        }
        self.live()?;
        Ok(true)
    }

    #[cfg(not(test))]
    #[expect(
        clippy::unused_self,
        clippy::unnecessary_wraps,
        reason = "tests stop the process here"
    )]
    const fn live(&self) -> io::Result<()> {
        Ok(())
    }

    #[cfg(test)]
    fn live(&self) -> io::Result<()> {
        let Some(left) = &self.left else { return Ok(()) };
        if left.get() == 0 {
            return Err(io::Error::other(KILLED));
        }
        left.set(left.get() - 1);
        Ok(())
    }
}

/// Message of the error that stands for the death of the process.
#[cfg(test)]
pub(crate) const KILLED: &str = "killed";

/// The temporary file of [`Disk::write`].
pub(crate) fn beside(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.longhaul-new"))
}

/// Reads a file; `None` if it does not exist.
pub(crate) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The directories that must be created before `path` exists, outermost first.
pub(crate) fn missing_directories(path: &Path) -> Vec<PathBuf> {
    let missing = path
        .ancestors()
        .take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    let mut missing: Vec<PathBuf> = missing.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

pub(crate) fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
}

/// Makes a file durable. Tests "kill" this process, not the machine, and would only wait.
fn sync(file: &fs::File) -> io::Result<()> {
    if cfg!(test) { Ok(()) } else { file.sync_all() }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    if cfg!(test) {
        Ok(())
    } else {
        permissions::sync_directory(path)
    }
}

fn remove_if_present(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

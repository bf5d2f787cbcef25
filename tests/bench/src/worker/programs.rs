//! Where programs are.
use std::{
    env,
    path::{Path, PathBuf},
};

/// Where Debian and its relatives keep servers; a user's PATH often lacks it.
const SERVER_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// A program that is not there.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// One of Longhaul's own.
    #[error("`{name}` is not in {}; build it with `cargo build --release`, or set LONGHAUL_BIN_DIR to where it is", folder.display())]
    Ours {
        /// The program.
        name: &'static str,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// It is an older one.
    #[error("this version's agent knows no image levels; use --image-level original")]
    NoImageLevels,
    /// A page without its pictures is not the same page.
    #[error(
        "image level `text` loads no pictures, so its loads compare with no other; use high, medium or low"
    )]
    NoTextLevel,
    /// It is an older one.
    #[error("this version's gateway has no --coding-effort; leave `longhaul-fixed` away")]
    NoFixedEffort,
    /// Or this.
    #[error("this version's agent has no --no-push; leave `longhaul-nopush` away")]
    NoPushFlag,
    /// Or this.
    #[error("this version's agent has no --https-accelerate; leave `longhaul-https` away")]
    NoHttpsFlag,
    /// Another's.
    #[error("`{name}` is not installed; on Debian: apt-get install {name}")]
    Other {
        /// The program and its package.
        name: &'static str,
    },
    /// This program's own place is unknown.
    #[error(
        "cannot find out where this program is ({0}); set LONGHAUL_BIN_DIR to the folder of Longhaul's programs"
    )]
    OwnPlace(#[source] std::io::Error),
}

/// The folder of Longhaul's programs: `LONGHAUL_BIN_DIR`, else the one of this program.
///
/// # Errors
/// The system does not say where this program is.
pub fn bin_dir() -> Result<PathBuf, ProgramError> {
    if let Some(folder) = env::var_os("LONGHAUL_BIN_DIR").filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let own = env::current_exe().map_err(ProgramError::OwnPlace)?;
    Ok(own.parent().unwrap_or_else(|| Path::new(".")).to_owned())
}

/// One of Longhaul's programs.
///
/// # Errors
/// It is not there.
pub fn ours(folder: &Path, name: &'static str) -> Result<PathBuf, ProgramError> {
    let path = folder.join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(ProgramError::Ours {
        name,
        folder: folder.to_owned(),
    })
}

/// A program of the system.
///
/// # Errors
/// It is not installed.
pub fn installed(name: &'static str) -> Result<PathBuf, ProgramError> {
    find(name).ok_or(ProgramError::Other { name })
}

/// A program of the system, where it is.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

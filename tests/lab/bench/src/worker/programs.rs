//! Locations of programs.
use std::{
    env,
    path::{Path, PathBuf},
};

/// Folders of servers in Debian and related distributions; a user's PATH often lacks them.
const SERVER_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// Errors of missing programs.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// One of Longhaul's programs is missing.
    #[error("`{name}` is not in {}; build it with `cargo build --release`, or set LONGHAUL_BIN_DIR to its folder", folder.display())]
    Ours {
        /// The program.
        name: &'static str,
        /// The searched folder.
        folder: PathBuf,
    },
    /// The program is older than image levels.
    #[error("this version of the agent has no image levels; use --image-level original")]
    NoImageLevels,
    /// A page without its pictures is not comparable.
    #[error(
        "image level `text` loads no pictures, so its loads are not comparable with others; use high, medium or low"
    )]
    NoTextLevel,
    /// The program is older than the fixed effort.
    #[error("this version of the gateway has no --coding-effort; omit the system `longhaul-fixed`")]
    NoFixedEffort,
    /// The program is older than the flag for pushes.
    #[error("this version of the agent has no --no-push; omit the system `longhaul-nopush`")]
    NoPushFlag,
    /// The program is older than the flag for https.
    #[error("this version of the agent has no --https-accelerate; omit the system `longhaul-https`")]
    NoHttpsFlag,
    /// The program is older than the proxy for clients without an agent.
    #[error(
        "this version of the gateway has no --clientless-listen; omit the systems `clientless` and `clientless-pipelined`"
    )]
    NoClientless,
    /// A program of the system is missing.
    #[error("`{name}` is not installed; on Debian: apt-get install {package}")]
    Other {
        /// Name of the program.
        name: &'static str,
        /// Debian's package.
        package: &'static str,
    },
    /// The location of this program is unknown.
    #[error(
        "cannot determine the location of this program ({0}); set LONGHAUL_BIN_DIR to the folder of Longhaul's programs"
    )]
    OwnPlace(#[source] std::io::Error),
}

/// Returns the folder of Longhaul's programs: `LONGHAUL_BIN_DIR`, else the folder of this program.
///
/// # Errors
/// The operating system does not report the location of this program.
pub fn bin_dir() -> Result<PathBuf, ProgramError> {
    if let Some(folder) = env::var_os("LONGHAUL_BIN_DIR").filter(|folder| !folder.is_empty()) {
        return Ok(folder.into());
    }
    let own = env::current_exe().map_err(ProgramError::OwnPlace)?;
    Ok(own.parent().unwrap_or_else(|| Path::new(".")).to_owned())
}

/// Returns the path of one of Longhaul's programs.
///
/// # Errors
/// It does not exist.
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

/// Returns the path of a program of the system, whose Debian package has its name.
///
/// # Errors
/// It is not installed.
pub fn installed(name: &'static str) -> Result<PathBuf, ProgramError> {
    installed_from(name, name)
}

/// Returns the path of a program of the system.
///
/// # Errors
/// It is not installed.
pub fn installed_from(name: &'static str, package: &'static str) -> Result<PathBuf, ProgramError> {
    find(name).ok_or(ProgramError::Other { name, package })
}

/// Returns the path of a program of the system, if it exists.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(SERVER_FOLDERS.map(PathBuf::from));
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

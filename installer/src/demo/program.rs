//! Where the other programs of Longhaul are.
use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

/// The gateway's and the agent's executables.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) gateway: PathBuf,
    pub(super) agent: PathBuf,
}

/// A program that is not where it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// This program's own place is unknown.
    #[error(
        "cannot find out where this program is: {0}; set LONGHAUL_BIN_DIR to the directory of Longhaul's programs"
    )]
    OwnPlace(#[source] io::Error),
    /// Not there.
    #[error(
        "`{name}` is not in {}; it belongs beside `longhaul` (cargo build --release builds all), or set \
         LONGHAUL_BIN_DIR to its directory", directory.display()
    )]
    Missing {
        /// The program.
        name: &'static str,
        /// Where it was looked for.
        directory: PathBuf,
    },
}

impl Programs {
    pub(super) fn find() -> Result<Self, ProgramError> {
        let directory = directory()?;
        Ok(Self {
            gateway: program(&directory, "longhaul-gateway")?,
            agent: program(&directory, "longhaul-agent")?,
        })
    }
}

/// The agent's executable.
///
/// # Errors
/// It is not beside this program.
pub(crate) fn find_agent() -> Result<PathBuf, ProgramError> {
    program(&directory()?, "longhaul-agent")
}

fn directory() -> Result<PathBuf, ProgramError> {
    if let Some(directory) = env::var_os("LONGHAUL_BIN_DIR").filter(|directory| !directory.is_empty()) {
        return Ok(PathBuf::from(directory));
    }
    let own = env::current_exe().map_err(ProgramError::OwnPlace)?;
    Ok(own.parent().unwrap_or_else(|| Path::new(".")).to_owned())
}

fn program(directory: &Path, name: &'static str) -> Result<PathBuf, ProgramError> {
    let path = directory
        .join(name)
        .with_extension(OsStr::new(env::consts::EXE_EXTENSION));
    if path.is_file() {
        Ok(path)
    } else {
        Err(ProgramError::Missing {
            name,
            directory: directory.to_owned(),
        })
    }
}

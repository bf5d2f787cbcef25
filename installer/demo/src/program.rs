//! Location of Longhaul's other programs.
use std::{
    env,
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
};

/// Executables of gateway and agent.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) gateway: PathBuf,
    pub(super) agent: PathBuf,
}

/// Errors of finding a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The location of this program is unknown.
    #[error(
        "cannot find out where this program is: {0}; set LONGHAUL_BIN_DIR to the directory of Longhaul's programs"
    )]
    OwnPlace(#[source] io::Error),
    /// The program does not exist.
    #[error(
        "`{name}` is not in {}; it belongs beside `longhaul` (cargo build --release builds all), or set \
         LONGHAUL_BIN_DIR to its directory", directory.display()
    )]
    Missing {
        /// Name of the program.
        name: &'static str,
        /// Directory that was searched.
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

/// Returns the agent's executable.
///
/// # Errors
/// The executable is not beside this program.
pub fn find_agent() -> Result<PathBuf, ProgramError> {
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

//! The command `longhaul-manuals`, which the build of the packages runs.
#![forbid(unsafe_code)]

use std::{env, io, path::PathBuf};

fn main() -> io::Result<()> {
    let directory = env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "usage: longhaul-manuals DIRECTORY"))?;
    longhaul_manuals::write(&directory)
}

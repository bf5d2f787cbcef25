//! The command `longhaul-bench`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use longhaul_bench::environment::BuildSource;

/// Only this file reads `LONGHAUL_COMMIT`: a library that reads it is compiled again for each commit. A program that
/// knows its commit does not contain the name of a folder, so that packages are equal wherever they are built.
const SOURCE: BuildSource = match option_env!("LONGHAUL_COMMIT") {
    Some(commit) => BuildSource::Commit(commit),
    None => BuildSource::Folder(env!("CARGO_MANIFEST_DIR")),
};

fn main() -> ExitCode {
    longhaul_bench::main(SOURCE)
}

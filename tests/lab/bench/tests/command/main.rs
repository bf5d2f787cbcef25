//! Tests of the command as run by users: with real worlds, real programs and real mistakes.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::print_stderr,
    reason = "functions shared by tests are test code, but clippy's exemption covers only #[test] functions"
)]

mod codec;
mod mistakes;
mod pages;
mod recorded;
mod screenshots;
mod survival;
mod visits;

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// The command under test.
const BENCH: &str = env!("CARGO_BIN_EXE_longhaul-bench");

/// Returns the command without the settings of this machine's user.
fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(BENCH);
    command.args(arguments).env_remove("LONGHAUL_BIN_DIR");
    command
}

fn run(command: &mut Command) -> Output {
    command.output().expect("longhaul-bench runs")
}

fn stderr_text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("a results file");
    serde_json::from_str(&text).expect("JSON")
}

fn path(folder: &tempfile::TempDir, name: &str) -> PathBuf {
    folder.path().join(name)
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Returns true if this machine allows worlds; prints a message if not.
fn worlds() -> bool {
    match longhaul_world::sandbox::Sandbox::probe() {
        Ok(_) => true,
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            false
        }
    }
}

/// Returns true if the agent and the gateway have been built in the command's folder; prints a message if
/// not.
fn programs() -> bool {
    let built = Path::new(BENCH).with_file_name("longhaul-gateway").exists();
    if !built {
        eprintln!("SKIPPED: longhaul-gateway is not in the folder of {BENCH}; `make test` builds it first");
    }
    built
}

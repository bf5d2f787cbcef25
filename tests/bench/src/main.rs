//! The command `longhaul-bench`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_bench::main()
}

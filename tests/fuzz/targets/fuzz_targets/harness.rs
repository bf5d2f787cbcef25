//! Runs the harness that `LONGHAUL_HARNESS` names: one program for all, so that it is built once.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static NAME: OnceLock<String> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    let name = NAME.get_or_init(|| std::env::var("LONGHAUL_HARNESS").expect("LONGHAUL_HARNESS names a harness"));
    longhaul_fuzz::run(name, bytes);
});

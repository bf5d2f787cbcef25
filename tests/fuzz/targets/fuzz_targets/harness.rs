//! Runs the harness in `LONGHAUL_HARNESS`: one program for all harnesses, so that it is built once. Its seeds
//! are written into the corpus in the folder `LONGHAUL_FUZZ_CORPUS`, if that is set.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

static NAME: OnceLock<String> = OnceLock::new();

fn name() -> &'static str {
    NAME.get_or_init(|| std::env::var("LONGHAUL_HARNESS").expect("LONGHAUL_HARNESS contains the name of a harness"))
}

fuzz_target!(
    init: {
        // Before libfuzzer reads its corpus.
        if let Some(folder) = std::env::var_os("LONGHAUL_FUZZ_CORPUS") {
            longhaul_fuzz::write_seeds(name(), folder.as_ref()).expect("LONGHAUL_FUZZ_CORPUS is a writable folder");
        }
    },
    |bytes: &[u8]| longhaul_fuzz::run(name(), bytes)
);

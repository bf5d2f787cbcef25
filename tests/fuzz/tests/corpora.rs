//! Runs every harness with its seeds, its committed corpus and random mutations of both.
#![forbid(unsafe_code)]

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use longhaul_fuzz::{HARNESSES, Harness};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Mutated inputs per harness; a fuzzer tests further inputs.
const MUTATIONS: usize = 4_000;
const SEED: u64 = 0x10a9_4a01;

/// Returns the seeds of a harness, the inputs that found faults (a file each), and the inputs that a fuzzer found (a line of
/// base64 each).
fn corpus(harness: &Harness) -> Vec<Vec<u8>> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folder = all.join(harness.name);
    let mut inputs = (harness.seeds)();
    let found = std::fs::read_to_string(all.join(format!("{}.base64", harness.name))).unwrap_or_default();
    let decoded = found.lines().map(|line| STANDARD.decode(line));
    inputs.extend(decoded.map(|input| input.unwrap_or_else(|error| panic!("{}: {error}", harness.name))));
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    inputs.extend(files.iter().filter_map(|file| std::fs::read(file).ok()));
    inputs
}

fn below(rng: &mut ChaCha8Rng, limit: usize) -> usize {
    usize::try_from(rng.next_u64() % (limit.max(1) as u64)).unwrap_or_default()
}

fn mutate(rng: &mut ChaCha8Rng, inputs: &[Vec<u8>]) -> Vec<u8> {
    let mut input = inputs[below(rng, inputs.len())].clone();
    for _ in 0..1 + below(rng, 4) {
        let at = below(rng, input.len());
        match below(rng, 5) {
            0 if !input.is_empty() => input[at] = rng.next_u64().to_le_bytes()[0],
            1 if !input.is_empty() => input[at] ^= 1 << below(rng, 8),
            2 => input.truncate(at),
            3 => {
                let other = &inputs[below(rng, inputs.len())];
                input.extend_from_slice(&other[below(rng, other.len())..]);
            }
            _ => input.insert(at, rng.next_u64().to_le_bytes()[0]),
        }
    }
    input
}

#[test]
fn every_harness_passes_its_corpus_and_mutations() {
    for harness in HARNESSES {
        let inputs = corpus(harness);
        assert!(!inputs.is_empty(), "{} has no initial input", harness.name);
        for input in &inputs {
            (harness.run)(input);
        }
        let mut rng = ChaCha8Rng::seed_from_u64(SEED);
        for round in 0..MUTATIONS {
            let input = mutate(&mut rng, &inputs);
            let found = std::panic::catch_unwind(|| (harness.run)(&input));
            assert!(
                found.is_ok(),
                "{} round {round} of seed {SEED:#x}: {input:02x?}",
                harness.name
            );
        }
    }
}

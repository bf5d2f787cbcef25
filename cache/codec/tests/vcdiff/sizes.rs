//! Sizes of the product's deltas compared with those of `xdelta3 -9 -S none`.
use longhaul_codec::vcdiff::{self, DeltaEffort, Limits};

use crate::{
    pairs::{self, Pair},
    recorded,
    xdelta::Xdelta,
};

/// Pairs of each of five kinds: 205 pairs.
const GENERATED: u64 = 41;

#[derive(Debug, Default)]
struct Sizes {
    pairs: usize,
    fast: usize,
    best: usize,
    xdelta: usize,
}

/// Sums the sizes on two threads; every delta is decoded as a check.
fn sizes(pairs: &[Pair]) -> Sizes {
    let (one, two) = pairs.split_at(pairs.len() / 2);
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(|| sum(two));
        (sum(one), other.join().unwrap())
    });
    Sizes {
        pairs: one.pairs + two.pairs,
        fast: one.fast + two.fast,
        best: one.best + two.best,
        xdelta: one.xdelta + two.xdelta,
    }
}

fn sum(pairs: &[Pair]) -> Sizes {
    let xdelta = Xdelta::new();
    let mut sizes = Sizes::default();
    for pair in pairs {
        let ours = |effort| {
            let delta = vcdiff::encode(&pair.old, &pair.new, effort);
            let decoded = vcdiff::decode(&pair.old, &delta, Limits::default());
            assert!(
                decoded.as_ref() == Ok(&pair.new),
                "{}: {:?}",
                pair.name,
                decoded.err()
            );
            delta.len()
        };
        sizes.pairs += 1;
        sizes.fast += ours(DeltaEffort::Fast);
        sizes.best += ours(DeltaEffort::Best);
        // xdelta3's smallest output: no checksum and no application header, like the product's. The buffer of
        // 4 MiB for the source saves most of xdelta3's time and costs less than a thousandth of the size.
        let options = ["-9", "-n", "-A", "-B", "4194304"];
        sizes.xdelta += xdelta.encode(&options, &pair.old, &pair.new).len();
    }
    sizes
}

fn check(sizes: &Sizes) {
    println!("{sizes:?}");
    assert!(
        sizes.best * 100 <= sizes.xdelta * 90,
        "best is not well below xdelta3: {sizes:?}"
    );
    assert!(
        sizes.fast * 100 <= sizes.xdelta * 105,
        "fast is not about xdelta3's: {sizes:?}"
    );
}

#[test]
fn deltas_of_generated_pairs_are_smaller_than_those_of_xdelta3() {
    println!("seed {:#x}", pairs::SEED);
    let sizes = sizes(&pairs::generated(pairs::SEED, GENERATED));
    assert!(sizes.pairs >= 200);
    check(&sizes);
}

#[test]
fn deltas_of_recorded_pages_are_smaller_than_those_of_xdelta3() {
    let Some(mut pairs) = recorded::recorded() else {
        eprintln!("SKIPPED: no recorded pages; set LONGHAUL_CORPUS to their folder");
        return;
    };
    // All editions and siblings take minutes in an ordinary build: `vcdiff_pairs` measures them; this test
    // takes every fourth.
    let mut number = 0;
    pairs.retain(|_| {
        number += 1;
        number % 4 == 1
    });
    check(&sizes(&pairs));
}

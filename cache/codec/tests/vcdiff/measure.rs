//! Prints sizes and encoding times of deltas and of the alternatives with the same base: VCDIFF alone and
//! compressed again, Zstandard with the base as dictionary, and the programs `xdelta3 -9 -S none` and `zstd
//! -19 --patch-from`.
//!
//! `cargo run --release -p longhaul-codec --example vcdiff_pairs [--ours] [--every=N] [OLD NEW]...`
//!
//! Without files it measures the generated pairs and those of the recorded pages, by size, or every N-th of
//! them; with `--ours` without the programs. The times of the programs include their start.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "the table is the output, and a measurement ends at the first surprise"
)]

mod pairs;
mod recorded;
mod xdelta;

use std::{
    collections::BTreeMap,
    io::Write as _,
    process::Command,
    time::{Duration, Instant},
};

use longhaul_codec::{
    BodyEncoder, Coder,
    vcdiff::{self, DeltaEffort, Limits},
};
use longhaul_types::ByteCount;
use mbrotli::{Compressor, EncoderConfig};
use pairs::Pair;
use xdelta::Xdelta;

/// Generated pairs of each kind.
const GENERATED: u64 = 40;
/// Large generated pairs of each kind.
const LARGE: u64 = 4;

#[derive(Clone, Copy, Default)]
struct Cost {
    size: usize,
    time: Duration,
}

/// The pairs of one kind and size.
#[derive(Default)]
struct Group {
    pairs: usize,
    old: usize,
    new: usize,
    /// By method, in the order of their first run.
    costs: Vec<(String, Cost)>,
}

impl Group {
    fn add(&mut self, method: &str, cost: Cost) {
        let place = self.costs.iter().position(|(name, _)| name == method);
        let place = place.unwrap_or_else(|| {
            self.costs.push((method.to_owned(), Cost::default()));
            self.costs.len() - 1
        });
        let sum = &mut self.costs[place].1;
        sum.size += cost.size;
        sum.time += cost.time;
    }

    fn run(&mut self, method: &str, run: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        let start = Instant::now();
        let made = run();
        let (time, size) = (start.elapsed(), made.len());
        self.add(method, Cost { size, time });
        made
    }
}

fn brotli(text: &[u8], quality: u8) -> Vec<u8> {
    let quality = quality.try_into().expect("a quality");
    let mut coder = Compressor::new(EncoderConfig::default().with_quality(quality)).expect("a configuration");
    coder.compress(text).expect("brotli compresses")
}

/// Zstandard over the whole text at once, with the whole base.
fn zstd_whole(pair: &Pair, level: i32) -> Vec<u8> {
    let mut encoder =
        zstd::stream::Encoder::with_ref_prefix(Vec::new(), level, &pair.old).expect("zstd takes the base");
    let log = (pair.old.len() + pair.new.len()).max(1 << 10).ilog2() + 1;
    encoder.window_log(log).expect("zstd takes the window");
    encoder.include_checksum(false).expect("zstd has no checksum");
    encoder.write_all(&pair.new).expect("zstd compresses");
    encoder.finish().expect("zstd compresses")
}

/// The windows of a body with a base, as on the wire.
fn windows(pair: &Pair, coder: Coder) -> Vec<u8> {
    let mut wire = Vec::new();
    let length = Some(ByteCount::new(pair.new.len() as u64));
    let mut encoder =
        BodyEncoder::with_base([7; 32], coder, length, &pair.old).expect("the coder takes the base");
    encoder.push(&pair.new, &mut wire).expect("the coder compresses");
    encoder.finish(&mut wire).expect("the coder compresses");
    wire
}

/// Runs `zstd -19 --patch-from`; returns nothing if the program is missing.
fn zstd_program(files: &Xdelta, pair: &Pair) -> Vec<u8> {
    let (old, new) = (files.path("zstd-old"), files.path("zstd-new"));
    std::fs::write(&old, &pair.old).expect("a temporary file");
    std::fs::write(&new, &pair.new).expect("a temporary file");
    let from = format!("--patch-from={}", old.display());
    let mut command = Command::new("zstd");
    command.args(["-19", "--single-thread", "--no-check", "-q", "-c", &from]);
    command
        .arg(&new)
        .output()
        .map_or_else(|_| Vec::new(), |output| output.stdout)
}

fn measure(files: Option<&Xdelta>, pair: &Pair, group: &mut Group) {
    group.pairs += 1;
    group.old += pair.old.len();
    group.new += pair.new.len();
    for quality in [5, 11] {
        group.run(&format!("brotli-{quality} without base"), || {
            brotli(&pair.new, quality)
        });
    }
    for level in [3, 9, 19] {
        group.run(&format!("body windows, zstd-{level} with base"), || {
            windows(pair, Coder::Zstd { level })
        });
    }
    for quality in [5, 9, 10, 11] {
        group.run(&format!("body windows, brotli-{quality} with base"), || {
            windows(pair, Coder::Brotli { quality })
        });
    }
    for level in [3, 9, 19] {
        group.run(&format!("zstd-{level} with whole base"), || {
            zstd_whole(pair, level)
        });
    }
    for effort in [DeltaEffort::Fast, DeltaEffort::Best] {
        let delta = group.run(&format!("vcdiff {effort:?}"), || {
            vcdiff::encode(&pair.old, &pair.new, effort)
        });
        let mut decoded = Vec::new();
        group.run(&format!("(decoding vcdiff {effort:?})"), || {
            decoded = vcdiff::decode(&pair.old, &delta, Limits::default()).expect("decodes");
            Vec::new()
        });
        assert!(decoded == pair.new, "{}: another text came back", pair.name);
        for quality in [5, 9, 11] {
            group.run(&format!("  + brotli-{quality} of vcdiff {effort:?}"), || {
                brotli(&delta, quality)
            });
        }
        group.run(&format!("  + zstd-19 of vcdiff {effort:?}"), || {
            zstd::bulk::compress(&delta, 19).expect("zstd compresses")
        });
        if let Some(files) = files {
            let theirs = files.decode(&pair.old, &delta);
            assert!(
                theirs.as_ref() == Ok(&pair.new),
                "{}: xdelta3 decodes something else",
                pair.name
            );
        }
    }
    if let Some(files) = files {
        let options = ["-9", "-n", "-A"];
        group.run("xdelta3 -9", || files.encode(&options, &pair.old, &pair.new));
        group.run("zstd -19 --patch-from", || zstd_program(files, pair));
    }
}

fn print(name: &str, group: &Group) {
    println!(
        "{name}: {} pairs, on average {} bytes old and {} new; bytes and ms a pair",
        group.pairs,
        group.old / group.pairs,
        group.new / group.pairs
    );
    let xdelta = group.costs.iter().find(|(method, _)| method == "xdelta3 -9");
    for (method, cost) in &group.costs {
        let size = cost.size as f64 / group.pairs as f64;
        let ms = cost.time.as_secs_f64() * 1e3 / group.pairs as f64;
        let share = xdelta.map_or(f64::NAN, |(_, xdelta)| cost.size as f64 / xdelta.size as f64);
        println!("  {method:36} {size:10.0} {ms:9.2} {share:7.3}");
    }
}

fn class(pair: &Pair) -> String {
    let kind = if pair.name.contains(" sibling ") {
        "recorded siblings"
    } else if pair.name.contains('…') {
        "recorded editions"
    } else {
        "generated"
    };
    let size = match pair.new.len() >> 10 {
        0..16 => "1: below 16 KiB",
        16..64 => "2: to 64 KiB",
        64..256 => "3: to 256 KiB",
        256..1024 => "4: to 1 MiB",
        _ => "5: beyond 1 MiB",
    };
    format!("{kind} {size}")
}

fn chosen(files: &[String]) -> Vec<Pair> {
    if files.is_empty() {
        println!("seed {:#x}", pairs::SEED);
        let mut pairs = pairs::generated(pairs::SEED, GENERATED);
        pairs.extend(pairs::large(pairs::SEED, LARGE));
        match recorded::recorded() {
            Some(recorded) => pairs.extend(recorded),
            None => eprintln!("SKIPPED: no recorded pages; set LONGHAUL_CORPUS to their folder"),
        }
        return pairs;
    }
    let read = |file: &String| std::fs::read(file).expect("a readable file");
    let pair = |two: &[String]| Pair {
        name: two[1].rsplit('/').next().unwrap_or_default().to_owned(),
        old: read(&two[0]),
        new: read(&two[1]),
    };
    files.chunks_exact(2).map(pair).collect()
}

fn main() {
    let (options, files): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let ours = options.iter().any(|option| option == "--ours");
    let every = options.iter().find_map(|option| option.strip_prefix("--every="));
    let every: usize = every.map_or(1, |every| every.parse().expect("--every=NUMBER"));
    let scratch = (!ours).then(Xdelta::new);
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for pair in chosen(&files).into_iter().step_by(every.max(1)) {
        let name = if files.is_empty() {
            class(&pair)
        } else {
            pair.name.clone()
        };
        measure(scratch.as_ref(), &pair, groups.entry(name).or_default());
    }
    for (name, group) in &groups {
        print(name, group);
    }
}

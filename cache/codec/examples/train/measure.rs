//! Tables of coded sizes.
use std::io;

use crate::{
    compare::{COLUMNS, Coder},
    material::Site,
};

/// Size classes: from, to, name.
const SIZES: [(usize, usize, &str); 5] = [
    (0, 1 << 10, "< 1 KB"),
    (1 << 10, 4 << 10, "1-4 KB"),
    (4 << 10, 16 << 10, "4-16 KB"),
    (16 << 10, 64 << 10, "16-64 KB"),
    (64 << 10, usize::MAX, "> 64 KB"),
];
/// Number of texts of a validation: enough for all sizes, and fast.
const SAMPLE: usize = 100;
/// Longer texts gain too little to justify the coders' time in a validation.
const LONGEST: usize = 192 * 1024;

/// Returns a sample of the sites' texts, first one per site.
pub(crate) fn sample(sites: Vec<Site>) -> Vec<Vec<u8>> {
    let mut texts = Vec::new();
    for turn in 0.. {
        let before = texts.len();
        texts.extend(
            sites
                .iter()
                .filter_map(|site| site.texts.get(turn))
                .filter(|text| (1 << 10..LONGEST).contains(&text.len()))
                .cloned(),
        );
        if texts.len() >= SAMPLE || texts.len() == before {
            break;
        }
    }
    texts.truncate(SAMPLE);
    texts
}

/// Prints a table: a row per size class, a column per coder.
pub(crate) fn table(texts: &[Vec<u8>], dictionary: &[u8]) -> io::Result<()> {
    let names: Vec<String> = COLUMNS.iter().map(|coder| coder.name()).collect();
    println!(
        "| size | objects | bytes | {} | best of br-11 and zstd-19+D |",
        names.join(" | ")
    );
    println!("| --- | --- | --- |{} --- |", " --- |".repeat(COLUMNS.len()));
    for (from, to, name) in SIZES {
        let here: Vec<&Vec<u8>> = texts
            .iter()
            .filter(|text| (from..to).contains(&text.len()))
            .collect();
        if here.is_empty() {
            continue;
        }
        let mut row = format!(
            "| {name} | {} | {} |",
            here.len(),
            here.iter().map(|text| text.len()).sum::<usize>()
        );
        for coder in COLUMNS {
            let mut sum = 0;
            for text in &here {
                sum += coder.size(text, dictionary)?;
            }
            row += &format!(" {sum} |");
        }
        let mut best = 0;
        for text in &here {
            let plain = Coder::Brotli(11).size(text, dictionary)?;
            best += plain.min(Coder::ZstdBase(19).size(text, dictionary)?);
        }
        println!("{row} {best} |");
    }
    Ok(())
}

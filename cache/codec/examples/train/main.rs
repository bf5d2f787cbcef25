//! Makes the shipped dictionaries and measures their savings (`docs/dictionaries.md`).
//!
//! ```text
//! cargo run --release -p longhaul-codec --example train -- pages FOLDER FROM...
//! cargo run --release -p longhaul-codec --example train -- packages FOLDER FROM
//! cargo run --release -p longhaul-codec --example train -- make CLASS METHOD FOLDER KIB FILE
//! cargo run --release -p longhaul-codec --example train -- validate CLASS METHOD FOLDER KIB
//! cargo run --release -p longhaul-codec --example train -- join FILE PART...
//! cargo run --release -p longhaul-codec --example train -- check CLASS FOLDER FILE
//! cargo run --release -p longhaul-codec --example train -- measure CLASS FOLDER FILE
//! cargo run --release -p longhaul-codec --example train -- product KBPS FILE...
//! ```
//!
//! CLASS is `html`, `css`, `js`, `json` or `svg`; FOLDER contains one folder per site with the site's files.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the tables are the output")]

mod compare;
mod cover;
mod greedy;
mod material;
mod measure;
mod privacy;
mod shared;
mod stage;

use std::{fs, path::Path, process::ExitCode};

use longhaul_codec::{AdaptiveEncoder, BodyTraits, dictionary};
use longhaul_types::{BitRate, ByteCount};
use material::{Class, Site};
use shared::are_on_three_sites;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The largest useful dictionary is selected from strings of more sites than `RULE` requires: strings that
/// only three of a thousand sites have would not be used.
const FLOOR_SHARE: usize = 150;
/// Minimum number of sites of a string: strings on fewer sites are particular to these sites.
const RULE: u32 = 3;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["pages", folder, ref from @ ..] => pages(folder, from),
        ["packages", folder, from] => packages(folder, from),
        ["make", class, method, folder, kib, file] => make(class, method, folder, kib, file),
        ["validate", class, method, folder, kib] => validate(class, method, folder, kib),
        ["join", file, ref parts @ ..] => join(file, parts),
        ["check", class, folder, file] => check(class, folder, file),
        ["measure", class, folder, file] => measure_file(class, folder, file),
        ["product", kbps, ref files @ ..] => product(kbps, files),
        _ => Err(
            "usage: train pages FOLDER FROM... | packages FOLDER FROM | make CLASS METHOD FOLDER KIB FILE | validate CLASS METHOD FOLDER KIB | \
                  join FILE PART... | check CLASS FOLDER FILE | measure CLASS FOLDER FILE | \
                  product KBPS FILE..."
                .into(),
        ),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pages(folder: &str, from: &[&str]) -> Outcome<()> {
    println!("{} pages", stage::pages(from, Path::new(folder))?);
    Ok(())
}

fn packages(folder: &str, from: &str) -> Outcome<()> {
    println!(
        "{} packages",
        stage::packages(Path::new(from), Path::new(folder))?
    );
    Ok(())
}

/// Trainer that selects the fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    Greedy,
    Cover,
}

impl Method {
    fn parse(name: &str) -> Outcome<Self> {
        match name {
            "greedy" => Ok(Self::Greedy),
            "cover" => Ok(Self::Cover),
            _ => Err("the method is greedy or cover".into()),
        }
    }
}

fn read(class: &str, folder: &str) -> Outcome<(Class, Vec<Site>)> {
    let class = Class::parse(class).ok_or("no such class")?;
    let sites = material::read(Path::new(folder), class)?;
    println!("{} sites, {} bytes", sites.len(), bytes(&sites));
    Ok((class, sites))
}

fn bytes(sites: &[Site]) -> usize {
    sites.iter().flat_map(|site| &site.texts).map(Vec::len).sum()
}

/// Returns the dictionary of `size` bytes for these sites, least useful fragment first.
fn train(sites: &mut [Site], class: Class, method: Method, size: usize) -> Outcome<Vec<Vec<u8>>> {
    material::limit(sites, class);
    for text in sites.iter_mut().flat_map(|site| &mut site.texts) {
        privacy::mask(text);
    }
    let floor = RULE.max(u32::try_from(sites.len() / FLOOR_SHARE)?);
    let longest = shared::longest(sites, floor);
    let mut chosen: Vec<Vec<u8>> = match method {
        Method::Greedy => {
            let chosen = greedy::choose(sites, &longest, size);
            chosen.into_iter().map(<[u8]>::to_vec).collect()
        }
        Method::Cover => cover::choose(sites, &longest, size)?,
    };
    // The selection uses estimated counts; `RULE` requires exact ones.
    let shared = are_on_three_sites(&chosen, sites);
    let mut shared = shared.iter();
    chosen.retain(|_| shared.next() == Some(&true));
    // Matches nearest to the text cost least.
    chosen.reverse();
    // Two acceptable fragments may form a forbidden number or word where they are joined.
    let mut joined = Vec::new();
    chosen.retain(|fragment| {
        let before = joined.len();
        joined.extend_from_slice(fragment);
        let kept = privacy::offences(&joined[before.saturating_sub(64)..]).is_empty();
        if !kept {
            joined.truncate(before);
        }
        kept
    });
    Ok(chosen)
}

fn make(class: &str, method: &str, folder: &str, kib: &str, file: &str) -> Outcome<()> {
    let (class, mut sites) = read(class, folder)?;
    let method = Method::parse(method)?;
    let fragments = train(&mut sites, class, method, kib.parse::<usize>()? * 1024)?;
    let dictionary = fragments.concat();
    verify(&fragments, &sites)?;
    fs::write(file, &dictionary)?;
    println!(
        "{file}: {} bytes, {} fragments, blake3 {}",
        dictionary.len(),
        fragments.len(),
        blake3::hash(&dictionary)
    );
    Ok(())
}

/// Joins whole files, unchanged, to a base: releases of libraries.
fn join(file: &str, parts: &[&str]) -> Outcome<()> {
    let mut joined = Vec::new();
    for part in parts {
        joined.extend(fs::read(part)?);
    }
    fs::write(file, &joined)?;
    println!("{file}: {} bytes, blake3 {}", joined.len(), blake3::hash(&joined));
    Ok(())
}

/// Fails if a fragment is on fewer than three sites or contains forbidden data.
fn verify(fragments: &[Vec<u8>], sites: &[Site]) -> Outcome<()> {
    if are_on_three_sites(fragments, sites).contains(&false) {
        return Err("a fragment is on fewer than three sites".into());
    }
    let dictionary = fragments.concat();
    match privacy::offences(&dictionary).first() {
        Some(range) => Err(format!(
            "must not enter: {:?}",
            String::from_utf8_lossy(&dictionary[range.clone()])
        )
        .into()),
        None => Ok(()),
    }
}

/// Prints how many bytes of a shipped dictionary are in strings of these sites; fails on forbidden data.
fn check(class: &str, folder: &str, file: &str) -> Outcome<()> {
    let (_, sites) = read(class, folder)?;
    let dictionary = fs::read(file)?;
    let explained: usize = cover::pieces(&dictionary, &sites).iter().map(Vec::len).sum();
    println!(
        "{explained} of {} bytes are in strings of three sites",
        dictionary.len()
    );
    Ok(())
}

fn measure_file(class: &str, folder: &str, file: &str) -> Outcome<()> {
    let (class, sites) = read(class, folder)?;
    let texts = own_files(Path::new(folder), class)?;
    drop(sites);
    measure::table(&texts, &fs::read(file)?)?;
    Ok(())
}

/// Prints the product's coded size of files on a link of this rate, without and with the shipped
/// dictionaries.
fn product(kbps: &str, files: &[&str]) -> Outcome<()> {
    let link = BitRate::kbps(kbps.parse()?);
    for file in files {
        let body = fs::read(file)?;
        let is_style = Path::new(file)
            .extension()
            .is_some_and(|extension| extension == "css");
        let traits = BodyTraits {
            content_type: Some(if is_style { "text/css" } else { "text/javascript" }),
            length: Some(ByteCount::new(body.len() as u64)),
            link: Some(link),
            ..BodyTraits::default()
        };
        let mut sizes = Vec::new();
        for set in [0, dictionary::NEWEST_SET] {
            let mut encoder = AdaptiveEncoder::new([7; 32], traits).with_dictionaries(set);
            let mut wire = Vec::new();
            encoder.push(&body, &mut wire)?;
            encoder.finish(&mut wire)?;
            sizes.push(wire.len().to_string());
        }
        println!("| {file} | {} | {} |", body.len(), sizes.join(" | "));
    }
    Ok(())
}

/// Returns the files of the class, without texts embedded in HTML files.
fn own_files(folder: &Path, class: Class) -> Outcome<Vec<Vec<u8>>> {
    let sites = material::read_files(folder, class)?;
    Ok(sites.into_iter().flat_map(|site| site.texts).collect())
}

/// Trains without a part of the sites and measures on that part.
fn validate(class: &str, method: &str, folder: &str, kib: &str) -> Outcome<()> {
    const FOLDS: usize = 5;
    let method = Method::parse(method)?;
    let (class, sites) = read(class, folder)?;
    let (held_out, mut rest): (Vec<Site>, Vec<Site>) =
        sites.into_iter().partition(|site| site.fold(FOLDS) == 0);
    println!("trained on {} sites, measured on {}", rest.len(), held_out.len());
    let dictionary = train(&mut rest, class, method, kib.parse::<usize>()? * 1024)?.concat();
    drop(rest);
    measure::table(&measure::sample(held_out), &dictionary)?;
    Ok(())
}

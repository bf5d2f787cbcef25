//! Comparison of levels and efforts with other encoders.
use std::fs;

use longhaul_transcode::{
    Compression, Outcome, RECIPE_VERSION, Request, Score, Variant, calibration::Picture, inspect, transcode,
};
use serde::Serialize;

use super::{
    ImagesError, on_all_cores,
    other_encoders::{self, Encoding},
    pictures::{Set, Source},
    speed::core_seconds,
};
use crate::{
    cli::{ImageEffort, ImageLevel, ImagesArgs},
    environment::{BuildSource, environment},
    print,
    statistics::{float, mean, quantile},
};

/// Results of one picture at one level and effort.
#[derive(Clone, Debug, Serialize)]
struct Row {
    set: String,
    picture: String,
    level: &'static str,
    effort: &'static str,
    bytes_in: usize,
    /// Size of the result; the original's if that is kept.
    bytes_out: usize,
    /// `lossy`, `lossless`, or the reason for keeping the original.
    outcome: String,
    quality: Option<f32>,
    content: Option<&'static str>,
    width: u32,
    height: u32,
    frames: u32,
    ssimulacra2: Option<f64>,
    luminance_psnr_db: Option<f64>,
    /// Size of a JPEG with the same similarity as the result.
    jpeg_bytes: Option<usize>,
    jpeg_ssimulacra2: Option<f64>,
    /// `cwebp -q 75`.
    cwebp_bytes: Option<usize>,
    cwebp_ssimulacra2: Option<f64>,
    /// Processor time on one core.
    time_s: f64,
}

#[derive(Serialize)]
struct Results<'a> {
    environment: longhaul_report::Environment,
    recipe_version: u32,
    images: &'a [Row],
}

/// Measures all pictures, prints a table for each set, and writes the rows.
pub(super) fn compare(args: &ImagesArgs, sets: &[Set], source: BuildSource) -> Result<(), ImagesError> {
    let mut rows = Vec::new();
    print(TITLE);
    for set in sets {
        let made: Vec<Row> = on_all_cores(&set.pictures, |picture| of_picture(args, set, picture))
            .into_iter()
            .flatten()
            .collect();
        for &level in &args.level {
            for &effort in &args.effort {
                let chosen: Vec<&Row> = made
                    .iter()
                    .filter(|row| row.level == level.name() && row.effort == effort.name())
                    .collect();
                print_line(&set.name, level, effort, &chosen);
            }
        }
        rows.extend(made);
    }
    if sets.len() > 1 {
        for &level in &args.level {
            for &effort in &args.effort {
                let chosen: Vec<&Row> = rows
                    .iter()
                    .filter(|row| row.level == level.name() && row.effort == effort.name())
                    .collect();
                print_line("all", level, effort, &chosen);
            }
        }
    }
    print_papers(args, &rows);
    let Some(path) = &args.json else { return Ok(()) };
    let results = Results {
        environment: environment(source, 0, std::path::Path::new(".")),
        recipe_version: RECIPE_VERSION,
        images: &rows,
    };
    let fault = |source| ImagesError::Write {
        path: path.clone(),
        source,
    };
    let text = serde_json::to_string_pretty(&results).map_err(|error| fault(error.into()))?;
    fs::write(path, text).map_err(fault)
}

fn of_picture(args: &ImagesArgs, set: &Set, source: &Source) -> Vec<Row> {
    let mut rows = Vec::new();
    for &level in &args.level {
        for &effort in &args.effort {
            let request = Request {
                level: level.transcoded(),
                effort: effort.transcoded(),
                ..Request::default()
            };
            let start = core_seconds();
            let outcome = transcode(&source.file, &request);
            let time_s = core_seconds() - start;
            let header = inspect(&source.file).ok();
            let mut row = Row {
                set: set.name.clone(),
                picture: source.name.clone(),
                level: level.name(),
                effort: effort.name(),
                bytes_in: source.file.len(),
                bytes_out: source.file.len(),
                outcome: String::new(),
                quality: None,
                content: None,
                width: header.map_or(0, |header| header.width),
                height: header.map_or(0, |header| header.height),
                frames: header
                    .and_then(|header| header.animation)
                    .map_or(1, |moving| moving.frames),
                ssimulacra2: None,
                luminance_psnr_db: None,
                jpeg_bytes: None,
                jpeg_ssimulacra2: None,
                cwebp_bytes: None,
                cwebp_ssimulacra2: None,
                time_s,
            };
            match outcome {
                Err(error) => row.outcome = error.to_string(),
                Ok(Outcome::Kept(reason)) => row.outcome = format!("kept: {reason:?}"),
                Ok(Outcome::Transcoded(variant)) => fill(&mut row, &variant, source, &request),
            }
            rows.push(row);
        }
    }
    rows
}

fn fill(row: &mut Row, variant: &Variant, source: &Source, request: &Request) {
    row.bytes_out = variant.webp.len();
    row.width = variant.width;
    row.height = variant.height;
    row.content = Some(variant.content.name());
    match variant.compression {
        Compression::Lossless => row.outcome = "lossless".to_owned(),
        Compression::Lossy(quality) => {
            row.outcome = "lossy".to_owned();
            row.quality = Some(quality);
        }
    }
    if row.frames > 1 {
        if let Score::Measured(score) = variant.score {
            row.ssimulacra2 = Some(score);
        }
        return;
    }
    let Ok(picture) = Picture::open(&source.file, request) else {
        return;
    };
    let Ok(Some(similarity)) = picture.compare(&variant.webp) else {
        return;
    };
    row.ssimulacra2 = Some(similarity.ssimulacra2);
    row.luminance_psnr_db = Some(similarity.luminance_psnr);
    if variant.compression == Compression::Lossless {
        return;
    }
    let halves = |encoding: Option<Encoding>| {
        (
            encoding.map(|encoding| encoding.bytes),
            encoding.map(|encoding| encoding.score),
        )
    };
    (row.jpeg_bytes, row.jpeg_ssimulacra2) = halves(other_encoders::smallest_jpeg_with_score(
        &picture,
        similarity.ssimulacra2,
    ));
    (row.cwebp_bytes, row.cwebp_ssimulacra2) = halves(other_encoders::cwebp(&picture));
}

const TITLE: &str = "\
set                level    effort    pictures  KB in   KB out  ratio | lossy lossless kept failed | SSIMULACRA2 mean  p10  median  PSNR-Y | \
lossy alone: KB  similar JPEG  cwebp -q 75 (score) | ms per picture\n";

fn print_line(set: &str, level: ImageLevel, effort: ImageEffort, rows: &[&Row]) {
    let sum = |of: &dyn Fn(&Row) -> usize| float(rows.iter().map(|row| of(row)).sum()) / 1000.0;
    let count = |outcome: &str| rows.iter().filter(|row| row.outcome == outcome).count();
    let (lossy, lossless) = (count("lossy"), count("lossless"));
    let kept = rows.iter().filter(|row| row.outcome.starts_with("kept")).count();
    let of_lossy = |of: &dyn Fn(&Row) -> Option<f64>| -> Vec<f64> {
        let rows = rows.iter().filter(|row| row.outcome == "lossy");
        rows.filter_map(|row| of(row)).collect()
    };
    let mut scores = of_lossy(&|row| row.ssimulacra2);
    let psnr = of_lossy(&|row| row.luminance_psnr_db);
    let rivals = rows
        .iter()
        .filter(|row| row.outcome == "lossy" && row.jpeg_bytes.is_some() && row.cwebp_bytes.is_some());
    let (mut own, mut jpeg, mut cwebp) = (0, 0, 0);
    for row in rivals {
        own += row.bytes_out;
        jpeg += row.jpeg_bytes.unwrap_or_default();
        cwebp += row.cwebp_bytes.unwrap_or_default();
    }
    let cwebp_scores = of_lossy(&|row| row.cwebp_ssimulacra2);
    let times: Vec<f64> = rows.iter().map(|row| row.time_s * 1000.0).collect();
    let (bytes_in, bytes_out) = (sum(&|row| row.bytes_in), sum(&|row| row.bytes_out));
    print(&format!(
        "{set:<18} {:<8} {:<9} {:>8} {bytes_in:>8.1} {bytes_out:>8.1} {:>6.3} | {lossy:>5} {lossless:>8} {kept:>4} {:>6} | {:>16.1} {:>4.1} {:>7.1} {:>7.2} | {:>15.1} {:>13.1} {:>11.1} ({:.1}) | {:>6.1}\n",
        level.name(),
        effort.name(),
        rows.len(),
        bytes_out / bytes_in.max(1e-9),
        rows.len() - lossy - lossless - kept,
        mean(&scores),
        quantile(&mut scores, 0.1),
        quantile(&mut scores, 0.5),
        mean(&psnr),
        float(own) / 1000.0,
        float(jpeg) / 1000.0,
        float(cwebp) / 1000.0,
        mean(&cwebp_scores),
        mean(&times),
    ));
}

/// PEP-WWAN Table IV: kilobytes of the original, then PSNR (dB, luminance) and kilobytes of Macara and of
/// NettGain.
const TABLE_IV: [(&str, f64, [f64; 4]); 6] = [
    ("image1.jpg", 48.4, [29.07, 12.9, 30.29, 16.3]),
    ("image2.gif", 4.75, [36.80, 2.87, 39.86, 2.75]),
    ("image3.jpg", 16.0, [27.98, 2.01, 29.38, 2.47]),
    ("image4.jpeg", 16.0, [27.74, 1.56, 28.48, 1.99]),
    ("image5.jpeg", 10.0, [29.07, 0.75, 30.10, 0.91]),
    ("image6.jpeg", 10.3, [28.84, 1.30, 29.58, 1.56]),
];

/// Prints sizes compared with the papers' results for products of their time.
fn print_papers(args: &ImagesArgs, rows: &[Row]) {
    print("\nPEP-WWAN Table IV, share of the original's bytes and PSNR-Y:\n");
    let share = |column: usize, product: &str| {
        let (mut before, mut after, mut quality) = (0.0, 0.0, Vec::new());
        for (_, original, figures) in TABLE_IV {
            before += original;
            after += figures.get(column + 1).copied().unwrap_or_default();
            quality.push(figures.get(column).copied().unwrap_or_default());
        }
        let (ratio, psnr) = (after / before, mean(&quality));
        print(&format!(
            "  {product:<24} ratio {ratio:.3}, {psnr:.2} dB on average\n"
        ));
    };
    share(0, "Macara");
    share(2, "NettGain");
    for &level in &args.level {
        for &effort in &args.effort {
            // As in the paper: photographs from 4.75 to 48.4 KB that are transcoded.
            let chosen: Vec<&Row> = rows
                .iter()
                .filter(|row| row.level == level.name() && row.effort == effort.name())
                .filter(|row| row.outcome == "lossy" && (4_750..=48_400).contains(&row.bytes_in))
                .collect();
            if chosen.is_empty() {
                continue;
            }
            let before: usize = chosen.iter().map(|row| row.bytes_in).sum();
            let after: usize = chosen.iter().map(|row| row.bytes_out).sum();
            let psnr: Vec<f64> = chosen.iter().filter_map(|row| row.luminance_psnr_db).collect();
            print(&format!(
                "  ours {:<8} {:<10} ratio {:.3}, {:.2} dB on average ({} pictures of 4.75 to 48.4 KB)\n",
                level.name(),
                effort.name(),
                float(after) / float(before.max(1)),
                mean(&psnr),
                chosen.len()
            ));
        }
    }
}

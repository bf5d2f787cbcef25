//! Quality table of longhaul-transcode: the quality of libwebp that reaches each score, by content and size.
use std::collections::BTreeMap;

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use longhaul_transcode::{
    ContentKind, ImageLevel, Request, SizeClass, TranscodeEffort, calibration::Picture,
};

use super::{
    on_all_cores,
    pictures::{Set, Source},
};
use crate::{
    print,
    statistics::{mean, quantile},
};

/// Qualities at which each picture is encoded; scores between them are interpolated.
const QUALITIES: &[u8] = &[8, 14, 22, 32, 44, 56, 67, 76, 84, 91, 96];
const LEVELS: [ImageLevel; 3] = [ImageLevel::High, ImageLevel::Medium, ImageLevel::Low];
/// Common widths of pictures on web sites: large pictures are reduced to these, and encoded as on web sites.
const WEB_WIDTHS: &[u32] = &[60, 130, 320, 640, 1000];
/// Minimum number of pictures in a cell; a cell with fewer uses its neighbour's value.
const MIN_PICTURES: usize = 4;
/// Maximum pixels; larger pictures are only used at the widths above, because they would take most of the
/// time.
const MAX_PIXELS: u64 = 1_000_000;

/// Scores of a picture.
struct Curve {
    content: ContentKind,
    size: SizeClass,
    scores: Vec<f64>,
    /// Scores of its sample, if it is large enough to have one.
    sample: Option<Vec<f64>>,
    name: String,
    features: [f64; 3],
}

type Cells = BTreeMap<(ContentKind, SizeClass), f64>;

/// Prints the table, its data, and its results for pictures that were not used to compute it.
pub(super) fn fit(sets: &[Set]) {
    let sources: Vec<Source> = sets.iter().flat_map(|set| set.pictures.iter().cloned()).collect();
    let sources: Vec<Source> = on_all_cores(&sources, web_sizes).into_iter().flatten().collect();
    let curves: Vec<Curve> = on_all_cores(&sources, curve).into_iter().flatten().collect();
    for curve in &curves {
        let [flat, textured, edges] = curve.features;
        let needed = LEVELS.map(|level| needed(&curve.scores, level.target().unwrap_or(0.0)));
        print(&format!(
            "{:<9} {:<9} flat {flat:.2} textured {textured:.2} edges {edges:.3}  {:>3.0} {:>3.0} {:>3.0}  {}\n",
            curve.content.name(),
            curve.size.name(),
            needed[0],
            needed[1],
            needed[2],
            curve.name
        ));
    }
    let all: Vec<&Curve> = curves.iter().collect();
    let odd: Vec<&Curve> = curves.iter().step_by(2).collect();
    let even: Vec<&Curve> = curves.iter().skip(1).step_by(2).collect();
    for level in LEVELS {
        let target = level.target().unwrap_or_default();
        print(&format!("{level}: {target}\n"));
        print_spread(&all, target);
        print_check(&cells(&odd, target), &even, &all, target);
    }
    print("\n");
    for level in LEVELS {
        let cells = cells(&all, level.target().unwrap_or_default());
        let rows: Vec<String> = ContentKind::ALL
            .iter()
            .map(|&content| row(&cells, content))
            .collect();
        print(&format!(
            "pub(super) const {}: Table = [{}];\n",
            level.name().to_ascii_uppercase(),
            rows.join(", ")
        ));
    }
}

/// Returns the file, or smaller versions of it if it is large.
fn web_sizes(source: &Source) -> Vec<Source> {
    let Ok(picture) = Picture::open(&source.file, &untouched()) else {
        return Vec::new();
    };
    let (width, height) = picture.size();
    if u64::from(width) * u64::from(height) <= MAX_PIXELS {
        return vec![source.clone()];
    }
    let Some(whole) = image::RgbImage::from_raw(width, height, picture.rgb()) else {
        return Vec::new();
    };
    let mut sources = Vec::new();
    for &to in WEB_WIDTHS.iter().filter(|&&to| to < width) {
        let rows = u32::try_from(u64::from(height) * u64::from(to) / u64::from(width)).unwrap_or(1);
        let small = image::imageops::resize(&whole, to, rows.max(1), image::imageops::FilterType::CatmullRom);
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, 82);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        let (Ok(columns), Ok(rows)) = (u16::try_from(small.width()), u16::try_from(small.height())) else {
            continue;
        };
        if encoder.encode(&small, columns, rows, ColorType::Rgb).is_ok() {
            sources.push(Source {
                name: format!("{} at {to}", source.name),
                file: file.into(),
            });
        }
    }
    sources
}

fn untouched() -> Request {
    Request {
        level: ImageLevel::High,
        ..Request::default()
    }
}

/// Returns the scores of a picture; `None` if it cannot be decoded.
fn curve(source: &Source) -> Option<Curve> {
    let picture = Picture::open(&source.file, &untouched()).ok()?;
    Some(Curve {
        content: picture.content(),
        size: picture.size_class(),
        scores: scores(&picture)?,
        sample: picture.sample().and_then(|sample| scores(&sample)),
        name: source.name.clone(),
        features: picture.features(),
    })
}

fn scores(picture: &Picture) -> Option<Vec<f64>> {
    let score = |&quality: &u8| {
        let file = picture.webp(f32::from(quality), TranscodeEffort::Standard).ok()?;
        Some(picture.compare(&file).ok()??.ssimulacra2)
    };
    QUALITIES.iter().map(score).collect()
}

/// Returns the quality at which the curve reaches the score; the highest one if it does not.
fn needed(scores: &[f64], target: f64) -> f64 {
    let points: Vec<(f64, f64)> = QUALITIES
        .iter()
        .map(|&quality| f64::from(quality))
        .zip(scores.iter().copied())
        .collect();
    let Some(&(lowest, first)) = points.first() else {
        return 0.0;
    };
    if first >= target {
        return lowest;
    }
    for pair in points.windows(2) {
        let [(low, below), (high, above)] = pair else {
            continue;
        };
        if *above >= target {
            return low + (high - low) * (target - below) / (above - below).max(1e-6);
        }
    }
    100.0
}

/// Returns the score of the curve at a quality.
fn score_at(scores: &[f64], quality: f64) -> f64 {
    let points: Vec<(f64, f64)> = QUALITIES
        .iter()
        .map(|&quality| f64::from(quality))
        .zip(scores.iter().copied())
        .collect();
    for pair in points.windows(2) {
        let [(low, below), (high, above)] = pair else {
            continue;
        };
        if quality <= *high {
            return below + (above - below) * (quality - low) / (high - low);
        }
    }
    points.last().map_or(0.0, |(_, score)| *score)
}

/// Returns the median of the required quality for pictures of each kind and size. Pictures that no quality
/// brings to the score are excluded: they are coded without loss, or kept. The requirements of icons differ
/// so much that they get at least the quality of thumbnails.
fn cells(curves: &[&Curve], target: f64) -> Cells {
    let mut cells = Cells::new();
    for content in ContentKind::ALL {
        let of_kind = |size: Option<SizeClass>| -> Vec<f64> {
            let chosen = curves
                .iter()
                .filter(|curve| curve.content == content && size.is_none_or(|size| curve.size == size));
            chosen
                .map(|curve| needed(&curve.scores, target))
                .filter(|&quality| quality < 100.0)
                .collect()
        };
        let mut all = of_kind(None);
        let fallback = if all.len() < MIN_PICTURES {
            let mut every: Vec<f64> = curves.iter().map(|curve| needed(&curve.scores, target)).collect();
            quantile(&mut every, 0.5)
        } else {
            quantile(&mut all, 0.5)
        };
        for size in SizeClass::ALL {
            let mut own = of_kind(Some(size));
            let median = if own.len() < MIN_PICTURES {
                fallback
            } else {
                quantile(&mut own, 0.5)
            };
            cells.insert((content, size), median.round());
        }
        let thumbnail = cells
            .get(&(content, SizeClass::Thumbnail))
            .copied()
            .unwrap_or_default();
        if let Some(icon) = cells.get_mut(&(content, SizeClass::Icon)) {
            *icon = icon.max(thumbnail);
        }
    }
    cells
}

fn row(cells: &Cells, content: ContentKind) -> String {
    let qualities: Vec<String> = SizeClass::ALL
        .iter()
        .map(|&size| format!("{:.0}", cells.get(&(content, size)).copied().unwrap_or(75.0)))
        .collect();
    format!("[{}]", qualities.join(", "))
}

fn print_spread(curves: &[&Curve], target: f64) {
    for content in ContentKind::ALL {
        for size in SizeClass::ALL {
            let mut qualities: Vec<f64> = curves
                .iter()
                .filter(|curve| curve.content == content && curve.size == size)
                .map(|curve| needed(&curve.scores, target))
                .collect();
            if qualities.is_empty() {
                continue;
            }
            let unreachable = qualities.iter().filter(|&&quality| quality >= 100.0).count();
            print(&format!(
                "  {:<9} {:<9} {:>4} pictures, quality {:>3.0} {:>3.0} {:>3.0} (quartiles), {unreachable} out of reach\n",
                content.name(),
                size.name(),
                qualities.len(),
                quantile(&mut qualities, 0.25),
                quantile(&mut qualities, 0.5),
                quantile(&mut qualities, 0.75),
            ));
        }
    }
}

/// Prints the results for half of the pictures with a table from the other half, and those of all pictures
/// with samples.
fn print_check(cells: &Cells, even: &[&Curve], all: &[&Curve], target: f64) {
    let reachable = |curve: &&&Curve| needed(&curve.scores, target) < 100.0;
    let by_table = even.iter().filter(reachable).filter_map(|curve| {
        let quality = cells.get(&(curve.content, curve.size))?;
        Some(score_at(&curve.scores, *quality))
    });
    print_scores("held out", by_table.collect());
    let by_sample = all.iter().filter(reachable).filter_map(|curve| {
        let quality = needed(curve.sample.as_ref()?, target);
        Some(score_at(&curve.scores, quality))
    });
    print_scores("by sample", by_sample.collect());
}

fn print_scores(name: &str, mut scores: Vec<f64>) {
    print(&format!(
        "  {name}: {} pictures, score {:.1} on average, quartiles {:.1} {:.1} {:.1}\n",
        scores.len(),
        mean(&scores),
        quantile(&mut scores, 0.25),
        quantile(&mut scores, 0.5),
        quantile(&mut scores, 0.75),
    ));
}

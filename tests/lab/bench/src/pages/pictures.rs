//! Screenshots of loaded pages: stored as files, and compared with those of direct loads.
//!
//! Pages differ from load to load by themselves. Therefore the difference between a system's screenshot and a
//! direct one is compared with that between two direct ones: a difference that is not larger is not caused by
//! the system.
use std::{
    collections::BTreeMap,
    fs,
    io::{self, Cursor},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use longhaul_report::{Row, median};

/// Two pixels differ if a channel differs by more than this, of 255: a JPEG encoded again at a high quality
/// stays below.
const CHANNEL_DIFFERENCE: u8 = 16;
/// Tolerance beyond the maximum difference of two direct loads: a thousandth of the pixels, a word or two of
/// text.
const TOLERANCE: f64 = 0.001;
/// Maximum bytes of a decoded screenshot: many more than a viewport has.
const MAX_PIXELS: usize = 64 * 1024 * 1024;
/// Maximum length of a file name without number and suffix: file systems allow 255 bytes.
const MAX_NAME: usize = 180;

/// Errors of screenshots.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// No selected browser paints.
    #[error("--screenshots needs --loader chromium: the scripted browser does not paint")]
    NoBrowser,
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The worker sent an invalid screenshot.
    #[error("the worker's screenshot of {0} is invalid")]
    Coding(String),
}

/// A folder of screenshots.
#[derive(Debug)]
pub(super) struct Pictures {
    folder: PathBuf,
}

/// Difference between two screenshots.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Difference {
    /// Share of the pixels that differ.
    differs: f64,
    /// Mean absolute difference of all channels, as a share of their range.
    mean: f64,
}

/// A decoded screenshot.
#[derive(Debug)]
struct Picture {
    width: u32,
    height: u32,
    rgb: Vec<u8>,
}

impl Pictures {
    /// Opens this folder, and creates it if it does not exist.
    pub(super) fn open(folder: &Path) -> Result<Self, PictureError> {
        fs::create_dir_all(folder).map_err(|source| PictureError::Write {
            path: folder.to_owned(),
            source,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Writes the screenshot of a load, and stores the file name in its row.
    pub(super) fn keep(&self, row: &mut Row, picture: &str) -> Result<(), PictureError> {
        let png = STANDARD
            .decode(picture)
            .map_err(|_| PictureError::Coding(row.page.clone()))?;
        let name = file_name(row);
        let path = self.folder.join(&name);
        fs::write(&path, png).map_err(|source| PictureError::Write { path, source })?;
        row.screenshot = Some(name);
        Ok(())
    }

    /// Compares the screenshots of all rows with those of direct loads under the same conditions.
    pub(super) fn compare(&self, rows: &mut [Row]) {
        let mut groups: BTreeMap<String, Vec<&mut Row>> = BTreeMap::new();
        for row in rows.iter_mut().filter(|row| row.screenshot.is_some()) {
            groups.entry(group(row)).or_default().push(row);
        }
        for mut rows in groups.into_values() {
            let pictures: Vec<_> = rows.iter().map(|row| self.picture(row)).collect();
            compare_group(&mut rows, &pictures);
        }
    }

    fn picture(&self, row: &Row) -> Option<Picture> {
        let png = fs::read(self.folder.join(row.screenshot.as_ref()?)).ok()?;
        Picture::decode(&png)
    }
}

/// Returns the properties that must be equal for a comparison: all except system, image level and repetition.
fn group(row: &Row) -> String {
    format!(
        "{}|{}|{}|{}|{}|{:.6}|{}",
        row.page, row.link, row.state, row.loader, row.scheme, row.internet_loss, row.conditions
    )
}

fn compare_group(rows: &mut [&mut Row], pictures: &[Option<Picture>]) {
    let direct: Vec<usize> = (0..rows.len())
        .filter(|at| rows.get(*at).is_some_and(|row| row.system == "direct") && pictures[*at].is_some())
        .collect();
    let mut distances: BTreeMap<(usize, usize), Difference> = BTreeMap::new();
    for (at, picture) in pictures.iter().enumerate() {
        for other in direct.iter().filter(|other| **other != at) {
            if let (Some(one), Some(other_picture)) = (picture, &pictures[*other]) {
                distances.insert((at, *other), Difference::between(one, other_picture));
            }
        }
    }
    let among_direct = distances
        .iter()
        .filter(|((at, _), _)| direct.contains(at))
        .map(|(_, difference)| difference.differs);
    let noise = among_direct.reduce(f64::max);
    for (at, row) in rows.iter_mut().enumerate() {
        let of_row: Vec<_> = direct
            .iter()
            .filter_map(|other| distances.get(&(at, *other)))
            .collect();
        let figure = |figure: fn(&Difference) -> f64| {
            median(
                &of_row
                    .iter()
                    .map(|difference| figure(difference))
                    .collect::<Vec<_>>(),
            )
        };
        row.screenshot_differs = figure(|difference| difference.differs);
        row.screenshot_mean_difference = figure(|difference| difference.mean);
        row.screenshot_noise = noise;
        row.screenshot_no_worse = row
            .screenshot_differs
            .zip(noise)
            .map(|(differs, noise)| differs <= noise + TOLERANCE);
    }
}

impl Difference {
    fn between(one: &Picture, other: &Picture) -> Self {
        if (one.width, one.height) != (other.width, other.height) {
            return Self {
                differs: 1.0,
                mean: 1.0,
            };
        }
        let (mut differing, mut sum) = (0_u64, 0_u64);
        let (pixels, _) = one.rgb.as_chunks::<3>();
        let (others, _) = other.rgb.as_chunks::<3>();
        for (one, other) in pixels.iter().zip(others) {
            let channels = one.iter().zip(other).map(|(one, other)| one.abs_diff(*other));
            differing += u64::from(channels.clone().any(|difference| difference > CHANNEL_DIFFERENCE));
            sum += channels.map(u64::from).sum::<u64>();
        }
        #[expect(clippy::cast_precision_loss, reason = "pixels of a viewport")]
        let share = |count: u64, of: usize| count as f64 / of.max(1) as f64;
        Self {
            differs: share(differing, pixels.len()),
            mean: share(sum, one.rgb.len()) / 255.0,
        }
    }
}

impl Picture {
    fn decode(png: &[u8]) -> Option<Self> {
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(png), png::Limits { bytes: MAX_PIXELS });
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().ok()?;
        let size = reader.output_buffer_size().filter(|size| *size <= MAX_PIXELS)?;
        let mut buffer = vec![0; size];
        let frame = reader.next_frame(&mut buffer).ok()?;
        buffer.truncate(frame.buffer_size());
        let rgb = match frame.color_type {
            png::ColorType::Rgb => buffer,
            png::ColorType::Rgba => buffer
                .chunks_exact(4)
                .flat_map(|pixel| [pixel[0], pixel[1], pixel[2]])
                .collect(),
            png::ColorType::Grayscale => buffer.iter().flat_map(|value| [*value; 3]).collect(),
            png::ColorType::GrayscaleAlpha => {
                buffer.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect()
            }
            png::ColorType::Indexed => return None,
        };
        Some(Self {
            width: frame.width,
            height: frame.height,
            rgb,
        })
    }
}

/// Returns the file name of a row's screenshot: the properties of the load, in characters that any file
/// system accepts.
fn file_name(row: &Row) -> String {
    let mut words = vec![&row.page, &row.link, &row.system, &row.state];
    if row.scheme != longhaul_report::AS_RECORDED {
        words.push(&row.scheme);
    }
    words.extend([&row.image_level, &row.conditions]);
    let joined: Vec<_> = words
        .into_iter()
        .filter(|word| !word.is_empty())
        .map(String::as_str)
        .collect();
    let mut name = joined.join("_");
    if row.internet_loss > 0.0 {
        name.push_str(&format!("_loss-{}", row.internet_loss));
    }
    let safe = |letter: char| {
        if letter.is_ascii_alphanumeric() || "-_.".contains(letter) {
            letter
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(safe).take(MAX_NAME).collect();
    format!("{name}_{}.png", row.run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, pixels: &[[u8; 3]]) -> Vec<u8> {
        let mut file = Vec::new();
        let height = u32::try_from(pixels.len()).unwrap() / width;
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(pixels.as_flattened()).unwrap();
        writer.finish().unwrap();
        file
    }

    fn row(system: &str, run: u32) -> Row {
        Row {
            page: "a/b".to_owned(),
            system: system.to_owned(),
            run,
            ..Row::default()
        }
    }

    /// Returns a screenshot of 1,000 pixels of which `count` are white.
    fn white(count: usize) -> String {
        let mut pixels = [[0, 0, 0]; 1000];
        pixels[..count].fill([255, 255, 255]);
        STANDARD.encode(png(50, &pixels))
    }

    #[test]
    fn only_differences_beyond_the_threshold_count() {
        let picture = |pixels: &[[u8; 3]]| Picture::decode(&png(2, pixels)).unwrap();
        let one = picture(&[[10, 10, 10], [100, 100, 100]]);
        let near = picture(&[[26, 10, 10], [100, 100, 84]]);
        let far = picture(&[[27, 10, 10], [100, 100, 100]]);
        assert_eq!(Difference::between(&one, &near).differs, 0.0);
        assert!((Difference::between(&one, &near).mean - 32.0 / 6.0 / 255.0).abs() < 1e-12);
        assert_eq!(Difference::between(&one, &far).differs, 0.5);
        let wider = Picture::decode(&png(1, &[[0; 3], [0; 3]])).unwrap();
        assert_eq!(Difference::between(&one, &wider).differs, 1.0);
        assert!(Picture::decode(b"no picture").is_none());
    }

    #[test]
    fn the_allowed_difference_is_that_of_direct_loads() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(&folder.path().join("new")).unwrap();
        let mut rows = Vec::new();
        for (system, run, pixels) in [
            ("direct", 1, 100),
            ("direct", 2, 120),
            ("longhaul", 1, 110),
            ("longhaul", 2, 160),
        ] {
            let mut row = row(system, run);
            pictures.keep(&mut row, &white(pixels)).unwrap();
            rows.push(row);
        }
        rows.push(row("squid", 1));
        pictures.compare(&mut rows);
        let verdicts: Vec<_> = rows.iter().map(|row| row.screenshot_no_worse).collect();
        assert_eq!(verdicts, [Some(true), Some(true), Some(true), Some(false), None]);
        assert!((rows[3].screenshot_differs.unwrap() - 0.05).abs() < 1e-12);
        assert!((rows[0].screenshot_noise.unwrap() - 0.02).abs() < 1e-12);
        assert_eq!(rows[0].screenshot.as_deref(), Some("a-b_direct_1.png"));
    }

    #[test]
    fn a_single_direct_screenshot_gives_a_difference_without_a_verdict() {
        let folder = tempfile::tempdir().unwrap();
        let pictures = Pictures::open(folder.path()).unwrap();
        let mut rows = vec![row("direct", 1), row("longhaul", 1)];
        for row in &mut rows {
            pictures.keep(row, &white(5)).unwrap();
        }
        pictures.compare(&mut rows);
        assert_eq!(rows[1].screenshot_differs, Some(0.0));
        assert_eq!(rows[1].screenshot_no_worse, None);
        assert_eq!(rows[0].screenshot_differs, None);
    }
}

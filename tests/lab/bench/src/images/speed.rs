//! Processor time of a picture on one core.
use std::{collections::BTreeMap, fs};

use longhaul_transcode::{Request, SizeClass, inspect, transcode};

use super::{ImageEffort, pictures::Set};
use crate::{
    cli::ImageLevel,
    print,
    statistics::{float, mean, quantile},
};

/// Times and sizes of the pictures of one class.
#[derive(Default)]
struct Times {
    milliseconds: Vec<f64>,
    megapixels: Vec<f64>,
}

/// Returns the running time of this thread in seconds, without waiting for a core: other programs do not
/// affect it.
pub(super) fn core_seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text
        .split(' ')
        .next()
        .and_then(|number| number.parse::<f64>().ok());
    nanoseconds.unwrap_or_default() / 1e9
}

/// Prints milliseconds by size class and effort at the default level.
pub(super) fn speed(sets: &[Set]) {
    let mut times: BTreeMap<(bool, SizeClass, usize), Times> = BTreeMap::new();
    for picture in sets.iter().flat_map(|set| &set.pictures) {
        let Ok(header) = inspect(&picture.file) else {
            continue;
        };
        let frames = header.animation.map_or(1, |animation| animation.frames);
        let pixels = u64::from(header.width) * u64::from(header.height);
        let class = SizeClass::of(pixels);
        for (index, effort) in ImageEffort::ALL.into_iter().enumerate() {
            let request = Request {
                level: ImageLevel::Medium.transcoded(),
                effort: effort.transcoded(),
                ..Request::default()
            };
            let start = core_seconds();
            if transcode(&picture.file, &request).is_err() {
                continue;
            }
            let seconds = core_seconds() - start;
            let row = times.entry((frames > 1, class, index)).or_default();
            row.milliseconds.push(seconds * 1000.0);
            row.megapixels
                .push(float(usize::try_from(pixels * u64::from(frames)).unwrap_or(usize::MAX)) / 1e6);
        }
    }
    print("                        pictures  megapixels   ms mean   ms median   ms p95   ms per megapixel\n");
    for ((moving, class, index), times) in times {
        let Times {
            mut milliseconds,
            megapixels,
        } = times;
        let effort = ImageEffort::ALL.get(index).map_or("", |effort| effort.name());
        let total: f64 = milliseconds.iter().sum();
        print(&format!(
            "{:<9} {:<9} {effort:<9} {:>4} {:>11.3} {:>9.1} {:>11.1} {:>8.1} {:>16.0}\n",
            if moving { "animation" } else { "still" },
            class.name(),
            milliseconds.len(),
            mean(&megapixels),
            mean(&milliseconds),
            quantile(&mut milliseconds, 0.5),
            quantile(&mut milliseconds, 0.95),
            total / megapixels.iter().sum::<f64>().max(1e-9),
        ));
    }
}

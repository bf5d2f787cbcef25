//! `longhaul-bench images`: pictures at each level, compared with other encoders.
mod comparison;
mod fit;
mod other_encoders;
mod pictures;
mod speed;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use parking_lot::Mutex;

use indicatif::ProgressBar;
use longhaul_transcode as transcode;

use crate::{
    CommandError,
    cli::{ImageEffort, ImageLevel, ImageTask, ImagesArgs},
    environment::BuildSource,
};

/// Errors of measuring pictures.
#[derive(Debug, thiserror::Error)]
pub enum ImagesError {
    /// A folder or a file in it could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the folder or file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// There are no pictures.
    #[error("no pictures found: select pictures with --folder or --pages")]
    None,
    /// The results file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}

/// Runs the command.
///
/// # Errors
/// Pictures cannot be read, or results cannot be written.
pub fn images(args: &ImagesArgs, source: BuildSource) -> Result<(), CommandError> {
    let sets = pictures::gather(args)?;
    if sets.iter().all(|set| set.pictures.is_empty()) {
        return Err(ImagesError::None.into());
    }
    match args.task {
        ImageTask::Compare => comparison::compare(args, &sets, source)?,
        ImageTask::Fit => fit::fit(&sets),
        ImageTask::Speed => speed::speed(&sets),
    }
    Ok(())
}

impl ImageLevel {
    /// Returns the product's level of this name.
    fn transcoded(self) -> transcode::ImageLevel {
        match self {
            Self::Original => transcode::ImageLevel::Original,
            Self::High => transcode::ImageLevel::High,
            Self::Medium => transcode::ImageLevel::Medium,
            Self::Low => transcode::ImageLevel::Low,
            Self::Text => transcode::ImageLevel::Text,
        }
    }
}

impl ImageEffort {
    const ALL: [Self; 3] = [Self::Quick, Self::Standard, Self::Checked];

    fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Standard => "standard",
            Self::Checked => "checked",
        }
    }

    fn transcoded(self) -> transcode::TranscodeEffort {
        match self {
            Self::Quick => transcode::TranscodeEffort::Quick,
            Self::Standard => transcode::TranscodeEffort::Standard,
            Self::Checked => transcode::TranscodeEffort::Checked,
        }
    }
}

/// Processes each item, on all cores and in any order; the results are in the items' order.
fn on_all_cores<I: Sync, R: Send>(items: &[I], work: impl Fn(&I) -> R + Sync) -> Vec<R> {
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(items.len())));
    let bar = ProgressBar::new(u64::try_from(items.len()).unwrap_or(u64::MAX));
    thread::scope(|scope| {
        for _ in 0..workers.min(items.len()) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { return };
                    let result = work(item);
                    bar.inc(1);
                    done.lock().push((index, result));
                }
            });
        }
    });
    bar.finish_and_clear();
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

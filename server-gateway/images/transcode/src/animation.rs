//! Animations: each frame is decoded to the whole canvas; libwebp encodes the changes since the previous
//! frame.
use webpx::AnimationEncoder;

use crate::{
    content::{self, ContentKind},
    decode::{self, Frame},
    encode::{Chroma, EncodeError, Mode, fault, still},
    inspect::Plays,
    limits::{LimitError, MAX_SIDE},
    metric::Reference,
    quality,
    raster::{Layout, Raster},
    request::TranscodeEffort,
    scale,
    search::{self, EncoderSettings, Start},
    transcode::{Candidate, Compression, Outcome, Reason, Score, Task, TranscodeError, measured_pixels},
};

/// Maximum total time of the frames. WebP's timestamps have 31 bits of milliseconds, and a day is longer than
/// anybody watches.
const LONGEST_MILLISECONDS: u32 = 86_400_000;

pub(crate) fn transcode(task: &Task<'_>) -> Result<Outcome, TranscodeError> {
    let mut frames = decode::moving(task.input, &task.header, &task.request.limits)?;
    let Some(first) = frames.next().transpose()? else {
        return Ok(Outcome::Kept(Reason::NotSmaller));
    };
    let content = content::classify(&first.raster);
    let size = task
        .request
        .level
        .scales()
        .then(|| scale::fitted(&first.raster, content, task.request.viewport))
        .flatten();
    let sized = |frame: Frame| match size {
        None => frame,
        Some(size) => Frame {
            raster: scale::scaled(&frame.raster, size),
            ..frame
        },
    };
    let first = sized(first);
    let (width, height) = (first.raster.width, first.raster.height);
    if width > MAX_SIDE || height > MAX_SIDE {
        return Ok(Outcome::Kept(Reason::Sides));
    }
    let (quality, score) = quality(task, &first.raster, content)?;
    let mut film = Film::new(width, height, quality, task)?;
    film.add(&first)?;
    for frame in frames {
        task.stop_condition.check_stopped()?;
        film.add(&sized(frame?))?;
    }
    let candidate = Candidate {
        webp: film.finish()?,
        compression: Compression::Lossy(quality),
        score,
    };
    Ok(task.judged(candidate, (width, height), content))
}

/// Returns the quality of all frames, determined by the first one.
fn quality(task: &Task<'_>, first: &Raster, content: ContentKind) -> Result<(f32, Score), EncodeError> {
    let start = quality::first(task.request, content, first.pixels());
    let expected = (start, Score::Expected(task.target));
    if first.pixels() > measured_pixels(task.request.effort) {
        return Ok(expected);
    }
    let Some(reference) = Reference::new(first) else {
        return Ok(expected);
    };
    // libwebp encodes the frames of an animation with its defaults.
    let encode = |setting: EncoderSettings| {
        let mode = Mode::Lossy(setting.quality, Chroma::Mean);
        still(first, mode, TranscodeEffort::Standard, task.stop_condition)
    };
    let start = Start::Settings(EncoderSettings {
        quality: start,
        chroma: Chroma::Mean,
    });
    let found = search::reach(task.target, start, encode, |webp| reference.score_webp(webp))?;
    Ok(found.map_or(expected, |found| {
        (found.setting.quality, Score::Measured(found.score))
    }))
}

/// An animation under construction.
struct Film {
    encoder: AnimationEncoder,
    milliseconds: u32,
    frames: u32,
    most: u32,
}

impl Film {
    fn new(width: u32, height: u32, quality: f32, task: &Task<'_>) -> Result<Self, EncodeError> {
        let plays = match task.header.animation.map(|animation| animation.plays) {
            Some(Plays::Times(times)) => times.clamp(1, u32::from(u16::MAX)),
            Some(Plays::Forever) | None => 0,
        };
        // Allows lossless frames, which may be smaller if they have few colours.
        let mut encoder =
            AnimationEncoder::with_options(width, height, true, plays).map_err(|error| fault(&error))?;
        encoder.set_quality(quality);
        Ok(Self {
            encoder,
            milliseconds: 0,
            frames: 0,
            most: task.request.limits.frames,
        })
    }

    fn add(&mut self, frame: &Frame) -> Result<(), TranscodeError> {
        self.frames += 1;
        if self.frames > self.most {
            return Err(LimitError::Frames(self.frames).into());
        }
        let raster = &frame.raster;
        let time = i32::try_from(self.milliseconds).unwrap_or(i32::MAX);
        let added = match raster.layout {
            Layout::Rgb => self.encoder.add_frame_rgb(&raster.data, time),
            Layout::Rgba => self.encoder.add_frame_rgba(&raster.data, time),
        };
        added.map_err(|error| fault(&error))?;
        self.milliseconds = self
            .milliseconds
            .saturating_add(frame.milliseconds)
            .min(LONGEST_MILLISECONDS);
        Ok(())
    }

    fn finish(self) -> Result<Vec<u8>, EncodeError> {
        let end = i32::try_from(self.milliseconds).unwrap_or(i32::MAX);
        self.encoder.finish(end).map_err(|error| fault(&error))
    }
}

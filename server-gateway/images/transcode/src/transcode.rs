//! Transcoding of one image.
use crate::{
    animation,
    content::{self, ContentKind},
    decode::{self, DecodeError},
    encode::{self, Chroma, EncodeError, Mode, StopCondition},
    inspect::{self, Header, ImageFormat, InspectError},
    level::ImageLevel,
    limits::{LimitError, MAX_SIDE},
    metric::Reference,
    quality,
    raster::Raster,
    request::{Request, TranscodeEffort},
    sample, scale,
    search::{self, EncoderSettings, ScoredEncoding, Start},
};

/// Result of a transcoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A smaller image of the same content.
    Transcoded(Variant),
    /// The original is kept.
    Kept(Reason),
}

/// Reasons for keeping the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Images are not transcoded at this level.
    Level,
    /// The result does not save enough bytes.
    NotSmaller,
    /// The image's sides exceed those of WebP.
    Sides,
}

/// A transcoded image.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The file, of type `image/webp`.
    pub webp: Vec<u8>,
    /// Width in pixels, after orientation.
    pub width: u32,
    /// Height in pixels, after orientation.
    pub height: u32,
    /// The level of the request.
    pub level: ImageLevel,
    /// Compression of the file.
    pub compression: Compression,
    /// Similarity to the original at this size.
    pub score: Score,
    /// Kind of content.
    pub content: ContentKind,
}

/// Compression of a variant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compression {
    /// Lossless.
    Lossless,
    /// Lossy, with libwebp's quality, 0 to 100.
    Lossy(f32),
}

/// A SSIMULACRA2 score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Measured on this image; for an animation, on its first frame.
    Measured(f64),
    /// The score that half of the images of this kind reach.
    Expected(f64),
}

/// Errors of transcoding. The original is sent unchanged: its origin is responsible for defects.
#[derive(Debug, thiserror::Error)]
pub enum TranscodeError {
    /// The header is unreadable.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The image exceeds a limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The pixels cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The encoder failed or was stopped.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A lossy result must save at least 1/20 of the original's bytes to justify its loss.
const LEAST_LOSSY_SAVING: usize = 20;
/// A lossless result must save at least 1/50, which justifies its computation.
const LEAST_LOSSLESS_SAVING: usize = 50;
/// Minimum saving in bytes of any result: another variant uses entries in caches and plans.
const LEAST_BYTES: usize = 16;
/// Maximum number of pixels for lossless coding, which takes about a microsecond per pixel.
pub(crate) const LOSSLESS_PIXELS: u64 = 3_000_000;
/// Maximum number of pixels of results that [`TranscodeEffort::Checked`] measures, a large screen: about 150 bytes of
/// memory per pixel.
const CHECKED_PIXELS: u64 = 2_100_000;
/// Maximum number of pixels of results that [`TranscodeEffort::Standard`] measures: larger images have a sample, which
/// is measured instead.
const STANDARD_PIXELS: u64 = sample::LEAST_PIXELS;

/// Converts an image to a smaller WebP, or returns why the original is kept.
///
/// # Errors
/// The image is damaged, of an unknown format, or exceeds the request's limits. The input may be arbitrary
/// bytes.
pub fn transcode(input: &[u8], request: &Request) -> Result<Outcome, TranscodeError> {
    transcode_until(input, request, &|| false)
}

/// Like [`transcode`], but stops soon after `stop` returns true. `stop` is called between steps and while
/// libwebp encodes.
///
/// # Errors
/// The errors of [`transcode`], and [`EncodeError::Stopped`].
pub fn transcode_until(
    input: &[u8],
    request: &Request,
    stop: &(dyn Fn() -> bool + Sync + Send),
) -> Result<Outcome, TranscodeError> {
    let Some(target) = request.level.target() else {
        return Ok(Outcome::Kept(Reason::Level));
    };
    if input.len() > request.limits.input_bytes {
        return Err(LimitError::InputBytes(input.len()).into());
    }
    let header = inspect::inspect(input)?;
    request.limits.check(&header)?;
    let task = Task {
        input,
        header,
        request,
        target,
        stop_condition: StopCondition(stop),
    };
    if header.animation.is_some() {
        animation::transcode(&task)
    } else {
        task.still()
    }
}

/// An image and its request.
pub(crate) struct Task<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) header: Header,
    pub(crate) request: &'a Request,
    pub(crate) target: f64,
    pub(crate) stop_condition: StopCondition<'a>,
}

/// A result before the comparison with the original.
pub(crate) struct Candidate {
    pub(crate) webp: Vec<u8>,
    pub(crate) compression: Compression,
    pub(crate) score: Score,
}

impl Task<'_> {
    fn still(&self) -> Result<Outcome, TranscodeError> {
        let (raster, content) = prepared(self.input, &self.header, self.request)?;
        if raster.width > MAX_SIDE || raster.height > MAX_SIDE {
            return Ok(Outcome::Kept(Reason::Sides));
        }
        self.stop_condition.check_stopped()?;
        let lossless = self.lossless(&raster, content)?;
        let candidate = match self.lossy(&raster, content)? {
            lossy
                if lossless
                    .as_ref()
                    .is_none_or(|lossless| lossy.webp.len() < lossless.webp.len()) =>
            {
                Some(lossy)
            }
            _ => lossless,
        };
        let Some(candidate) = candidate else {
            return Ok(Outcome::Kept(Reason::NotSmaller));
        };
        Ok(self.judged(candidate, (raster.width, raster.height), content))
    }

    /// Returns the candidate if it saves enough, else the original.
    pub(crate) fn judged(
        &self,
        candidate: Candidate,
        (width, height): (u32, u32),
        content: ContentKind,
    ) -> Outcome {
        let part = match candidate.compression {
            Compression::Lossless => LEAST_LOSSLESS_SAVING,
            Compression::Lossy(_) => LEAST_LOSSY_SAVING,
        };
        let saving = (self.input.len() / part).max(LEAST_BYTES);
        if candidate.webp.len() + saving > self.input.len() {
            return Outcome::Kept(Reason::NotSmaller);
        }
        Outcome::Transcoded(Variant {
            webp: candidate.webp,
            width,
            height,
            level: self.request.level,
            compression: candidate.compression,
            score: candidate.score,
            content,
        })
    }

    fn lossless(&self, raster: &Raster, content: ContentKind) -> Result<Option<Candidate>, EncodeError> {
        let is_fixed = self.request.effort == TranscodeEffort::Fixed;
        if is_fixed
            || raster.pixels() > LOSSLESS_PIXELS
            || !worth_lossless(raster, content, self.header.format)
        {
            return Ok(None);
        }
        let webp = encode::still(raster, Mode::Lossless, self.request.effort, self.stop_condition)?;
        Ok(Some(Candidate {
            webp,
            compression: Compression::Lossless,
            score: Score::Measured(100.0),
        }))
    }

    fn lossy(&self, raster: &Raster, content: ContentKind) -> Result<Candidate, EncodeError> {
        let table = quality::first(self.request, content, raster.pixels());
        let effort = self.request.effort;
        let start = match sample::sampled(raster) {
            Some(sample) if effort > TranscodeEffort::Quick => self
                .reached(&sample, Start::Quality(table))?
                .map_or(Start::Quality(table), |found| Start::Settings(found.setting)),
            _ => Start::Quality(table),
        };
        if raster.pixels() <= measured_pixels(effort)
            && let Some(found) = self.reached(raster, start)?
        {
            return Ok(Candidate {
                webp: found.webp,
                compression: Compression::Lossy(found.setting.quality),
                score: Score::Measured(found.score),
            });
        }
        let setting = match start {
            Start::Settings(setting) => setting,
            Start::Quality(quality) => EncoderSettings {
                quality,
                chroma: Chroma::Mean,
            },
        };
        Ok(Candidate {
            webp: self.encoded(raster, setting)?,
            compression: Compression::Lossy(setting.quality),
            score: Score::Expected(self.target),
        })
    }

    fn reached(&self, raster: &Raster, start: Start) -> Result<Option<ScoredEncoding>, EncodeError> {
        self.stop_condition.check_stopped()?;
        let Some(reference) = Reference::new(raster) else {
            return Ok(None);
        };
        let encode = |setting| self.encoded(raster, setting);
        search::reach(self.target, start, encode, |webp| reference.score_webp(webp))
    }

    fn encoded(&self, raster: &Raster, setting: EncoderSettings) -> Result<Vec<u8>, EncodeError> {
        let mode = Mode::Lossy(setting.quality, setting.chroma);
        encode::still(raster, mode, self.request.effort, self.stop_condition)
    }
}

/// Returns the maximum number of pixels of measured results.
pub(crate) fn measured_pixels(effort: TranscodeEffort) -> u64 {
    match effort {
        TranscodeEffort::Fixed | TranscodeEffort::Quick => 0,
        TranscodeEffort::Standard => STANDARD_PIXELS,
        TranscodeEffort::Checked => CHECKED_PIXELS,
    }
}

/// Returns true if lossless coding may be smaller: never for photographs, except from formats that reduced
/// them to few colours.
fn worth_lossless(raster: &Raster, content: ContentKind, format: ImageFormat) -> bool {
    match content {
        ContentKind::LineArt | ContentKind::Text | ContentKind::Mixed => true,
        ContentKind::Photo => format != ImageFormat::Jpeg && content::few_colours(raster, 256),
    }
}

/// Returns the image to be encoded (decoded, upright, in sRGB, at the size that the level allows) and its
/// kind of content.
pub(crate) fn prepared(
    input: &[u8],
    header: &Header,
    request: &Request,
) -> Result<(Raster, ContentKind), TranscodeError> {
    let raster = decode::still(input, header, &request.limits)?;
    let content = content::classify(&raster);
    if !request.level.scales() || request.effort == TranscodeEffort::Fixed {
        return Ok((raster, content));
    }
    Ok(match scale::fitted(&raster, content, request.viewport) {
        Some(size) => (scale::scaled(&raster, size), content),
        None => (raster, content),
    })
}

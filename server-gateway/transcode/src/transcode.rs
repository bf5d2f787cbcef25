//! The way of one image.
use crate::{
    animation,
    content::{self, ContentKind},
    decode::{self, DecodeError},
    encode::{self, Chroma, EncodeError, Mode, Patience},
    inspect::{self, Header, InspectError, Kind},
    level::ImageLevel,
    limits::{LimitError, MAX_SIDE},
    metric::Reference,
    quality,
    raster::Raster,
    request::{Effort, Request},
    sample, scale,
    search::{self, Found, Setting, Start},
};

/// What became of an image.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A smaller image of the same content.
    Transcoded(Variant),
    /// The original is as good as it gets.
    Kept(Reason),
}

/// Why the original is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The level is not one at which images are transcoded.
    Level,
    /// The result is hardly smaller, or larger.
    NotSmaller,
    /// WebP cannot express the image's sides.
    Sides,
}

/// A transcoded image.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    /// The file, `image/webp`.
    pub webp: Vec<u8>,
    /// Width in pixels, upright.
    pub width: u32,
    /// Height in pixels, upright.
    pub height: u32,
    /// The level that it was made for.
    pub level: ImageLevel,
    /// How it is coded.
    pub compression: Compression,
    /// How near it is to the original at this size.
    pub score: Score,
    /// What it shows.
    pub content: ContentKind,
}

/// How a variant is coded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compression {
    /// Without loss.
    Lossless,
    /// With libwebp's quality, 0 to 100.
    Lossy(f32),
}

/// A SSIMULACRA2 score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Score {
    /// Measured on this image; of an animation, on its first frame.
    Measured(f64),
    /// What half of the images like this one reach.
    Expected(f64),
}

/// Why an image cannot be transcoded. The original is sent as it is: what is wrong with it is its origin's doing.
#[derive(Debug, thiserror::Error)]
pub enum TranscodeError {
    /// The header.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The cost.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The pixels.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// The result.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// A lossy result must save this part of the original's bytes, or its loss is for nothing: 1/20.
const LEAST_LOSSY_SAVING: usize = 20;
/// A lossless one only its own computing: 1/50.
const LEAST_LOSSLESS_SAVING: usize = 50;
/// Bytes that any result must save: another variant costs entries in caches and plans.
const LEAST_BYTES: usize = 16;
/// Pixels up to which lossless coding is tried; it takes about a microsecond a pixel.
pub(crate) const LOSSLESS_PIXELS: u64 = 3_000_000;
/// Pixels up to which [`Effort::Checked`] measures its results, a large screen full: about 150 bytes of memory a pixel.
const CHECKED_PIXELS: u64 = 2_100_000;
/// Pixels up to which [`Effort::Standard`] does, too: what is larger has a sample that is measured instead.
const STANDARD_PIXELS: u64 = sample::LEAST_PIXELS;

/// Makes a smaller WebP of an image, or says why the original is kept.
///
/// # Errors
/// The image is damaged, of an unknown kind, or exceeds the request's limits. Any bytes are safe to give.
pub fn transcode(input: &[u8], request: &Request) -> Result<Outcome, TranscodeError> {
    transcode_until(input, request, &|| false)
}

/// As [`transcode`], but gives up soon after `stop` says so. It is asked between steps and while libwebp encodes.
///
/// # Errors
/// Those of [`transcode`], and [`EncodeError::Stopped`].
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
        patience: Patience(stop),
    };
    if header.animation.is_some() {
        animation::transcode(&task)
    } else {
        task.still()
    }
}

/// An image and what is wanted of it.
pub(crate) struct Task<'a> {
    pub(crate) input: &'a [u8],
    pub(crate) header: Header,
    pub(crate) request: &'a Request,
    pub(crate) target: f64,
    pub(crate) patience: Patience<'a>,
}

/// A result before it is compared with the original.
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
        self.patience.ask()?;
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

    /// The candidate if it saves enough.
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
        let is_fixed = self.request.effort == Effort::Fixed;
        if is_fixed || raster.pixels() > LOSSLESS_PIXELS || !worth_lossless(raster, content, self.header.kind)
        {
            return Ok(None);
        }
        let webp = encode::still(raster, Mode::Lossless, self.request.effort, self.patience)?;
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
            Some(sample) if effort > Effort::Quick => self
                .reached(&sample, Start::Quality(table))?
                .map_or(Start::Quality(table), |found| Start::Setting(found.setting)),
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
            Start::Setting(setting) => setting,
            Start::Quality(quality) => Setting {
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

    fn reached(&self, raster: &Raster, start: Start) -> Result<Option<Found>, EncodeError> {
        self.patience.ask()?;
        let Some(reference) = Reference::new(raster) else {
            return Ok(None);
        };
        let encode = |setting| self.encoded(raster, setting);
        search::reach(self.target, start, encode, |webp| reference.score_webp(webp))
    }

    fn encoded(&self, raster: &Raster, setting: Setting) -> Result<Vec<u8>, EncodeError> {
        let mode = Mode::Lossy(setting.quality, setting.chroma);
        encode::still(raster, mode, self.request.effort, self.patience)
    }
}

/// Pixels up to which results are measured.
pub(crate) fn measured_pixels(effort: Effort) -> u64 {
    match effort {
        Effort::Fixed | Effort::Quick => 0,
        Effort::Standard => STANDARD_PIXELS,
        Effort::Checked => CHECKED_PIXELS,
    }
}

/// Photographs never code smaller without loss, except from formats that had to reduce them to a few colours.
fn worth_lossless(raster: &Raster, content: ContentKind, kind: Kind) -> bool {
    match content {
        ContentKind::LineArt | ContentKind::Text | ContentKind::Mixed => true,
        ContentKind::Photo => kind != Kind::Jpeg && content::few_colours(raster, 256),
    }
}

/// The picture as it is to be encoded: decoded, upright, in sRGB, at the size that the level allows; and what it shows.
pub(crate) fn prepared(
    input: &[u8],
    header: &Header,
    request: &Request,
) -> Result<(Raster, ContentKind), TranscodeError> {
    let raster = decode::still(input, header, &request.limits)?;
    let content = content::classify(&raster);
    if !request.level.scales() || request.effort == Effort::Fixed {
        return Ok((raster, content));
    }
    Ok(match scale::fitted(&raster, content, request.viewport) {
        Some(size) => (scale::scaled(&raster, size), content),
        None => (raster, content),
    })
}

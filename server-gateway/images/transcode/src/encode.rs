//! WebP encoding with libwebp.
use webpx::{EncoderConfig, Stop, StopReason};

use crate::{
    raster::{Layout, Raster},
    request::TranscodeEffort,
};

/// Errors of encoding.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The caller stopped the encoding.
    #[error("encoding was cancelled")]
    Stopped,
    /// The error of the encoder.
    #[error("the image cannot be encoded: {0}")]
    Webp(String),
}

/// Stop condition: the function returns true to stop the work.
#[derive(Clone, Copy)]
pub(crate) struct StopCondition<'a>(pub(crate) &'a (dyn Fn() -> bool + Sync + Send));

impl Stop for StopCondition<'_> {
    fn check(&self) -> Result<(), StopReason> {
        if (self.0)() {
            Err(StopReason::Cancelled)
        } else {
            Ok(())
        }
    }
}

impl StopCondition<'_> {
    pub(crate) fn check_stopped(self) -> Result<(), EncodeError> {
        self.check().map_err(|_| EncodeError::Stopped)
    }
}

/// Chroma subsampling method; lossy WebP stores colour at half the resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chroma {
    /// Mean of four pixels.
    Mean,
    /// Minimizes the error after decoding: slower, and better at the edges of saturated colours.
    Sharp,
}

/// Encoding mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Quality from 0 to 100.
    Lossy(f32, Chroma),
    Lossless,
}

/// Maximum number of pixels for the encoder's slowest search: half a second per image.
const THOROUGH_PIXELS: u64 = 1_500_000;
/// Maximum number of pixels for the encoder's usual search.
const USUAL_PIXELS: u64 = 12_000_000;

/// Returns libwebp's method, 0 to 6, by image size, because no clock limits the work.
fn method(effort: TranscodeEffort, raster: &Raster) -> u8 {
    match (effort, raster.pixels()) {
        (TranscodeEffort::Quick, 0..=USUAL_PIXELS) => 2,
        // Method 6 tries all options for a smaller alpha channel, which takes a second for a small image.
        (TranscodeEffort::Checked, 0..=THOROUGH_PIXELS) if raster.layout == Layout::Rgba => 5,
        (TranscodeEffort::Checked, 0..=THOROUGH_PIXELS) => 6,
        (TranscodeEffort::Fixed | TranscodeEffort::Standard | TranscodeEffort::Checked, 0..=USUAL_PIXELS) => {
            4
        }
        (TranscodeEffort::Fixed | TranscodeEffort::Standard | TranscodeEffort::Checked, _) => 2,
        (TranscodeEffort::Quick, _) => 1,
    }
}

pub(crate) fn still(
    raster: &Raster,
    mode: Mode,
    effort: TranscodeEffort,
    stop_condition: StopCondition<'_>,
) -> Result<Vec<u8>, EncodeError> {
    let config = config(mode, method(effort, raster));
    let encoded = match raster.layout {
        Layout::Rgb => config.encode_rgb(&raster.data, raster.width, raster.height, stop_condition),
        Layout::Rgba => config.encode_rgba(&raster.data, raster.width, raster.height, stop_condition),
    };
    encoded.map_err(|error| fault(&error))
}

pub(crate) fn fault(error: &webpx::At<webpx::Error>) -> EncodeError {
    if matches!(error.error(), webpx::Error::Stopped(_)) {
        EncodeError::Stopped
    } else {
        EncodeError::Webp(error.error().to_string())
    }
}

fn config(mode: Mode, method: u8) -> EncoderConfig {
    match mode {
        Mode::Lossless => {
            // For lossless coding, quality means effort. Above 75 libwebp tries far more transforms for
            // little gain.
            let quality = if method < 4 { 40.0 } else { 75.0 };
            EncoderConfig::new()
                .lossless(true)
                .quality(quality)
                .method(method.min(4))
        }
        Mode::Lossy(quality, chroma) => EncoderConfig::new()
            .sharp_yuv(chroma == Chroma::Sharp)
            .quality(quality)
            .method(method)
            .alpha_quality(100),
    }
}

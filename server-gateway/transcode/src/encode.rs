//! WebP by libwebp.
use webpx::{EncoderConfig, Stop, StopReason};

use crate::{
    raster::{Layout, Raster},
    request::Effort,
};

/// Why no WebP came out.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// The caller wants no more of it.
    #[error("encoding was given up")]
    Stopped,
    /// The encoder's complaint.
    #[error("the image cannot be encoded: {0}")]
    Webp(String),
}

/// Asks the caller whether to go on.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a>(pub(crate) &'a (dyn Fn() -> bool + Sync + Send));

impl Stop for Patience<'_> {
    fn check(&self) -> Result<(), StopReason> {
        if (self.0)() {
            Err(StopReason::Cancelled)
        } else {
            Ok(())
        }
    }
}

impl Patience<'_> {
    pub(crate) fn ask(self) -> Result<(), EncodeError> {
        self.check().map_err(|_| EncodeError::Stopped)
    }
}

/// How colour, which lossy WebP stores at half the resolution, is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chroma {
    /// By the mean of four pixels.
    Mean,
    /// So that what a decoder makes of it comes near the picture: slower, and better at the edges of saturated colours.
    Sharp,
}

/// How to encode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mode {
    /// Quality from 0 to 100.
    Lossy(f32, Chroma),
    Lossless,
}

/// Pixels up to which the encoder's slowest search is affordable: half a second a picture.
const THOROUGH_PIXELS: u64 = 1_500_000;
/// Pixels up to which its usual search is.
const USUAL_PIXELS: u64 = 12_000_000;

/// libwebp's effort, 0 to 6: what a picture of this size may take, as no clock stops it.
fn method(effort: Effort, raster: &Raster) -> u8 {
    match (effort, raster.pixels()) {
        (Effort::Quick, 0..=USUAL_PIXELS) => 2,
        // At 6 libwebp tries everything to make an alpha channel smaller, which takes a second for a small picture.
        (Effort::Checked, 0..=THOROUGH_PIXELS) if raster.layout == Layout::Rgba => 5,
        (Effort::Checked, 0..=THOROUGH_PIXELS) => 6,
        (Effort::Fixed | Effort::Standard | Effort::Checked, 0..=USUAL_PIXELS) => 4,
        (Effort::Fixed | Effort::Standard | Effort::Checked, _) => 2,
        (Effort::Quick, _) => 1,
    }
}

pub(crate) fn still(
    raster: &Raster,
    mode: Mode,
    effort: Effort,
    patience: Patience<'_>,
) -> Result<Vec<u8>, EncodeError> {
    let config = config(mode, method(effort, raster));
    let encoded = match raster.layout {
        Layout::Rgb => config.encode_rgb(&raster.data, raster.width, raster.height, patience),
        Layout::Rgba => config.encode_rgba(&raster.data, raster.width, raster.height, patience),
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
            // Quality is effort here. Above 75 libwebp tries far more transforms for little gain.
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

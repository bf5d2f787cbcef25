//! Measurement of encoders: source of the quality table, and comparison of results.
use crate::{
    content::{self, ContentKind},
    encode::{self, Chroma, Mode, StopCondition},
    inspect::inspect,
    metric::{self, Reference},
    quality::SizeClass,
    raster::Raster,
    request::{Request, TranscodeEffort},
    sample,
    transcode::{TranscodeError, prepared},
};

/// An image before encoding: upright, in sRGB, at the size that the level allows.
pub struct Picture {
    raster: Raster,
    content: ContentKind,
    reference: Option<Reference>,
}

/// Similarity of two images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Similarity {
    /// SSIMULACRA2 score; 100 is identical.
    pub ssimulacra2: f64,
    /// Peak signal-to-noise ratio of the luminance, in dB.
    pub luminance_psnr: f64,
}

impl Picture {
    /// Prepares an image as [`transcode`](crate::transcode) does; of an animation, the first frame.
    ///
    /// # Errors
    /// The errors of [`transcode`](crate::transcode).
    pub fn open(input: &[u8], request: &Request) -> Result<Self, TranscodeError> {
        let mut header = inspect(input)?;
        request.limits.check(&header)?;
        header.animation = None;
        let (raster, content) = prepared(input, &header, request)?;
        let reference = Reference::new(&raster);
        Ok(Self {
            raster,
            content,
            reference,
        })
    }

    /// Returns the small sample that determines the quality of a large image; `None` if the image has none.
    pub fn sample(&self) -> Option<Self> {
        let raster = sample::sampled(&self.raster)?;
        let reference = Reference::new(&raster);
        Some(Self {
            raster,
            content: self.content,
            reference,
        })
    }

    /// Returns the kind of content.
    pub fn content(&self) -> ContentKind {
        self.content
    }

    /// Shares of pairs of neighbouring pixels that are flat, textured, and edges.
    pub fn features(&self) -> [f64; 3] {
        let features = content::features(&self.raster);
        [features.flat, features.textured, features.edges]
    }

    /// Returns the size class.
    pub fn size_class(&self) -> SizeClass {
        SizeClass::of(self.raster.pixels())
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.raster.width, self.raster.height)
    }

    /// Returns the pixels over white, three bytes each.
    pub fn rgb(&self) -> Vec<u8> {
        metric::flattened(&self.raster, u8::MAX)
    }

    /// Encodes the image with the product's settings.
    ///
    /// # Errors
    /// libwebp fails.
    pub fn webp(&self, quality: f32, effort: TranscodeEffort) -> Result<Vec<u8>, TranscodeError> {
        let mode = Mode::Lossy(quality, Chroma::Mean);
        Ok(encode::still(
            &self.raster,
            mode,
            effort,
            StopCondition(&|| false),
        )?)
    }

    /// Encodes the image losslessly.
    ///
    /// # Errors
    /// libwebp fails.
    pub fn lossless_webp(&self, effort: TranscodeEffort) -> Result<Vec<u8>, TranscodeError> {
        Ok(encode::still(
            &self.raster,
            Mode::Lossless,
            effort,
            StopCondition(&|| false),
        )?)
    }

    /// Compares the image with an encoding of it.
    ///
    /// # Errors
    /// The encoding cannot be decoded.
    pub fn compare(&self, encoded: &[u8]) -> Result<Option<Similarity>, TranscodeError> {
        let decoded = match metric::decoded(encoded) {
            Some(raster) => raster,
            None => {
                let header = inspect(encoded)?;
                crate::decode::still(encoded, &header, &crate::limits::Limits::default())?
            }
        };
        if (decoded.width, decoded.height) != self.size() {
            return Ok(None);
        }
        let score = self
            .reference
            .as_ref()
            .and_then(|reference| reference.score(&decoded));
        let psnr = metric::luminance_psnr(&self.raster, &decoded);
        Ok(score.zip(psnr).map(|(ssimulacra2, luminance_psnr)| Similarity {
            ssimulacra2,
            luminance_psnr,
        }))
    }
}

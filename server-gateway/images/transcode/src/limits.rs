//! Limits of the cost of an image.
use crate::inspect::Header;

/// Limits of the work and memory of one image.
///
/// [`transcode`](crate::transcode) uses at most about 40 bytes per pixel of a still image, 40 bytes per
/// canvas pixel of an animation (module `memory`), and 150 bytes per pixel for the measurement of up to 2.1
/// megapixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the file in bytes.
    pub input_bytes: usize,
    /// Maximum number of pixels of a still image or of an animation's canvas.
    pub pixels: u64,
    /// Maximum number of frames of an animation.
    pub frames: u32,
    /// Maximum number of pixels of all frames of an animation, each as large as the canvas.
    pub animation_pixels: u64,
    /// Memory limit of a decoder in bytes.
    pub decode_bytes: u64,
}

/// Limits that an image exceeds. The original is sent instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Size of the file.
    #[error("the image file has {0} bytes, more than the limit for transcoding")]
    InputBytes(usize),
    /// Number of pixels.
    #[error("the image has {width} x {height} pixels, more than the limit for transcoding")]
    Pixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// Number of frames of the animation.
    #[error("the animation has {0} frames, more than the limit for transcoding")]
    Frames(u32),
    /// Number of pixels of all frames of the animation.
    #[error("the animation has {0} pixels in all its frames, more than the limit for transcoding")]
    AnimationPixels(u64),
}

/// Maximum width and height of a WebP (RFC 9649 section 2.7).
pub(crate) const MAX_SIDE: u32 = 16_383;

impl Default for Limits {
    /// 32 MB, 40 megapixels (the size of current cameras' images), 600 frames of 24 megapixels in total, 512
    /// MiB.
    fn default() -> Self {
        Self {
            input_bytes: 32_000_000,
            pixels: 40_000_000,
            frames: 600,
            animation_pixels: 24_000_000,
            decode_bytes: 512 << 20,
        }
    }
}

impl Limits {
    /// Checks whether an image with this header may be decoded.
    ///
    /// # Errors
    /// The image exceeds a limit.
    pub fn check(&self, header: &Header) -> Result<(), LimitError> {
        let canvas = u64::from(header.width) * u64::from(header.height);
        if canvas > self.pixels {
            return Err(LimitError::Pixels {
                width: header.width,
                height: header.height,
            });
        }
        let Some(animation) = header.animation else {
            return Ok(());
        };
        if animation.frames > self.frames {
            return Err(LimitError::Frames(animation.frames));
        }
        let all = canvas * u64::from(animation.frames);
        if all > self.animation_pixels {
            return Err(LimitError::AnimationPixels(all));
        }
        Ok(())
    }
}

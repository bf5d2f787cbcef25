//! What an image may cost.
use crate::inspect::Header;

/// Bounds of the work and memory that one image may take.
///
/// Worst-case memory of [`transcode`](crate::transcode) with the defaults is about 24 bytes a pixel for a still image
/// (decoded, converted and the encoder's copy), 40 bytes a canvas pixel for an animation, and 150 bytes a pixel where up to
/// 2.1 megapixels are measured: below 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the file.
    pub input_bytes: usize,
    /// Pixels of a still image or of an animation's canvas.
    pub pixels: u64,
    /// Frames of an animation.
    pub frames: u32,
    /// Pixels of all frames of an animation, each as large as the canvas.
    pub animation_pixels: u64,
    /// Bytes that a decoder may hold.
    pub decode_bytes: u64,
}

/// A limit that an image exceeds. The original is sent instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// The file.
    #[error("the image file has {0} bytes, more than are transcoded")]
    InputBytes(usize),
    /// The picture.
    #[error("the image has {width} x {height} pixels, more than are transcoded")]
    Pixels {
        /// Width in pixels.
        width: u32,
        /// Height in pixels.
        height: u32,
    },
    /// The animation.
    #[error("the animation has {0} frames, more than are transcoded")]
    Frames(u32),
    /// The animation.
    #[error("the animation has {0} pixels in all its frames, more than are transcoded")]
    AnimationPixels(u64),
}

/// A side that WebP can express (RFC 9649 section 2.7).
pub(crate) const MAX_SIDE: u32 = 16_383;

impl Default for Limits {
    /// 32 MB, 40 megapixels (a present camera's picture), 600 frames of 24 megapixels in all, 512 MiB.
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
    /// Whether an image with this header may be decoded.
    ///
    /// # Errors
    /// It exceeds a limit.
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

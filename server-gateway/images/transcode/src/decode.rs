//! Decoding of images to upright sRGB pixels.
mod jpeg;

use std::io::Cursor;

use image::{
    AnimationDecoder, DynamicImage, Frames, ImageDecoder, ImageError,
    codecs::{gif::GifDecoder, png::PngDecoder, webp::WebPDecoder},
    metadata::Orientation,
};

use crate::{
    colour::{self, Profile},
    inspect::{Header, ImageFormat},
    limits::Limits,
    raster::Raster,
};

/// Errors of decoding: the origin's file is damaged, or uses an unsupported variety of its format.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The error of the decoder.
    #[error("the image cannot be decoded: {0}")]
    Image(#[from] ImageError),
    /// The error of the JPEG decoder.
    #[error("the JPEG image cannot be decoded: {0}")]
    Jpeg(String),
    /// The file ends before the end of the image.
    #[error("the image file ends within the picture")]
    Truncated,
    /// The number or combination of scans makes decoding too expensive.
    #[error("the JPEG image has an unusual structure")]
    Scans,
    /// The decoder found another size than the header declares.
    #[error("the image contradicts its header")]
    Contradiction,
}

/// Frames of an animation, each the whole displayed canvas.
pub(crate) struct Moving<'a> {
    frames: Frames<'a>,
    profile: Option<Profile>,
    size: (u32, u32),
}

/// A frame and its display time.
pub(crate) struct Frame {
    pub(crate) raster: Raster,
    pub(crate) milliseconds: u32,
}

/// Decodes a still image.
pub(crate) fn still(input: &[u8], header: &Header, limits: &Limits) -> Result<Raster, DecodeError> {
    let raster = match header.format {
        ImageFormat::Jpeg => jpeg::decode(input, header)?,
        ImageFormat::Gif => upright(GifDecoder::new(Cursor::new(input))?, limits)?,
        ImageFormat::Png => upright(
            PngDecoder::with_limits(Cursor::new(input), bounds(limits))?,
            limits,
        )?,
        ImageFormat::Webp => upright(WebPDecoder::new(Cursor::new(input))?, limits)?,
    };
    let (width, height) = (raster.width, raster.height);
    let same =
        (width, height) == (header.width, header.height) || (height, width) == (header.width, header.height);
    if !same {
        return Err(DecodeError::Contradiction);
    }
    Ok(raster.without_idle_alpha())
}

/// Starts to decode an animation.
pub(crate) fn moving<'a>(
    input: &'a [u8],
    header: &Header,
    limits: &Limits,
) -> Result<Moving<'a>, DecodeError> {
    let (frames, icc) = match header.format {
        ImageFormat::Gif => {
            let mut decoder = GifDecoder::new(Cursor::new(input))?;
            decoder.set_limits(bounds(limits))?;
            (decoder.into_frames(), None)
        }
        ImageFormat::Png => {
            let mut decoder = PngDecoder::with_limits(Cursor::new(input), bounds(limits))?;
            let icc = decoder.icc_profile()?;
            (decoder.apng()?.into_frames(), icc)
        }
        ImageFormat::Webp => {
            let mut decoder = WebPDecoder::new(Cursor::new(input))?;
            decoder.set_limits(bounds(limits))?;
            let icc = decoder.icc_profile()?;
            (decoder.into_frames(), icc)
        }
        ImageFormat::Jpeg => return Err(DecodeError::Contradiction),
    };
    Ok(Moving {
        frames,
        profile: icc.as_deref().and_then(Profile::parse),
        size: (header.width, header.height),
    })
}

impl Iterator for Moving<'_> {
    type Item = Result<Frame, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.frames.next()?.map_err(DecodeError::from).and_then(|frame| {
            let (numerator, denominator) = frame.delay().numer_denom_ms();
            let image = DynamicImage::ImageRgba8(frame.into_buffer());
            let raster = colour::to_srgb(image, self.profile.as_ref());
            if (raster.width, raster.height) != self.size {
                return Err(DecodeError::Contradiction);
            }
            Ok(Frame {
                raster,
                milliseconds: numerator / denominator.max(1),
            })
        }))
    }
}

fn upright(mut decoder: impl ImageDecoder, limits: &Limits) -> Result<Raster, DecodeError> {
    decoder.set_limits(bounds(limits))?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let icc = decoder.icc_profile().unwrap_or_default();
    let mut image = DynamicImage::from_decoder(decoder)?;
    image.apply_orientation(orientation);
    let profile = icc.as_deref().and_then(Profile::parse);
    Ok(colour::to_srgb(image, profile.as_ref()))
}

fn bounds(limits: &Limits) -> image::Limits {
    let mut bounds = image::Limits::no_limits();
    bounds.max_alloc = Some(limits.decode_bytes);
    bounds
}

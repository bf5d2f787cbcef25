//! JPEG decoding with one of two decoders.
//!
//! zune-jpeg is fast, but decodes a sequential JPEG of several scans incorrectly: it takes the first
//! component's scan for the whole image. jpeg-decoder handles such files, and returns CMYK unconverted.
use std::io::Cursor;

use image::{DynamicImage, GrayImage, RgbImage, metadata::Orientation};
use jpeg_decoder::PixelFormat;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};
use zune_jpeg::JpegDecoder;

use super::DecodeError;
use crate::{
    colour::{self, Profile},
    inspect::{
        Header,
        jpeg::{self, Jpeg, Process},
    },
    raster::{Layout, Raster, to_usize},
};

/// Maximum of pixels times scans: each scan of a progressive image covers all pixels, and a small file may
/// have many scans. The value is ten scans, the number that encoders produce, of 40 megapixels: one or two
/// seconds of work.
const MAX_SCANNED_PIXELS: u64 = 400_000_000;
/// Maximum number of scans; encoders produce up to about twenty.
const MAX_SCANS: u32 = 100;

pub(super) fn decode(input: &[u8], header: &Header) -> Result<Raster, DecodeError> {
    let jpeg = jpeg::read(input).map_err(|error| DecodeError::Jpeg(error.to_string()))?;
    if !jpeg.complete {
        return Err(DecodeError::Truncated);
    }
    let pixels = u64::from(header.width) * u64::from(header.height);
    let sequential = jpeg.process == Process::Sequential;
    let too_many = sequential && jpeg.scans > u32::from(jpeg.components);
    if jpeg.scans > MAX_SCANS
        || u64::from(jpeg.scans) * pixels > MAX_SCANNED_PIXELS.max(pixels * 4)
        || too_many
    {
        return Err(DecodeError::Scans);
    }
    let profile = jpeg.icc().and_then(|icc| Profile::parse(&icc));
    let mut image = if jpeg.components == 4 || (sequential && jpeg.scans > 1) {
        carefully(input, &jpeg, profile.as_ref())?
    } else {
        let image = quickly(input, &jpeg)?;
        colour::to_srgb(image, profile.as_ref())
    };
    if let Some(orientation) = jpeg.exif.and_then(Orientation::from_exif_chunk) {
        image = turned(image, orientation)?;
    }
    Ok(image)
}

fn quickly(input: &[u8], jpeg: &Jpeg<'_>) -> Result<DynamicImage, DecodeError> {
    let colours = if jpeg.components == 1 {
        ColorSpace::Luma
    } else {
        ColorSpace::RGB
    };
    let options = DecoderOptions::default()
        .set_max_width(usize::from(jpeg.width))
        .set_max_height(usize::from(jpeg.height))
        .jpeg_set_out_colorspace(colours);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(input), options);
    let data = decoder
        .decode()
        .map_err(|error| DecodeError::Jpeg(error.to_string()))?;
    dynamic(jpeg, colours.num_components(), data)
}

/// Returns the pixels as an image of one or three channels.
fn dynamic(jpeg: &Jpeg<'_>, channels: usize, data: Vec<u8>) -> Result<DynamicImage, DecodeError> {
    let (width, height) = (u32::from(jpeg.width), u32::from(jpeg.height));
    let image = if channels == 1 {
        GrayImage::from_raw(width, height, data).map(DynamicImage::ImageLuma8)
    } else {
        RgbImage::from_raw(width, height, data).map(DynamicImage::ImageRgb8)
    };
    image.ok_or(DecodeError::Contradiction)
}

fn carefully(input: &[u8], jpeg: &Jpeg<'_>, profile: Option<&Profile>) -> Result<Raster, DecodeError> {
    let mut decoder = jpeg_decoder::Decoder::new(Cursor::new(input));
    let pixels = usize::from(jpeg.width) * usize::from(jpeg.height);
    decoder.set_max_decoding_buffer_size(pixels.saturating_mul(4));
    let data = decoder
        .decode()
        .map_err(|error| DecodeError::Jpeg(error.to_string()))?;
    let format = decoder.info().map(|info| info.pixel_format);
    match format {
        Some(PixelFormat::L8) => Ok(colour::to_srgb(dynamic(jpeg, 1, data)?, profile)),
        Some(PixelFormat::RGB24) => Ok(colour::to_srgb(dynamic(jpeg, 3, data)?, profile)),
        Some(PixelFormat::CMYK32) if data.len() == pixels * 4 => Ok(Raster {
            width: u32::from(jpeg.width),
            height: u32::from(jpeg.height),
            layout: Layout::Rgb,
            data: colour::cmyk_to_srgb(&data, profile),
        }),
        Some(PixelFormat::CMYK32 | PixelFormat::L16) | None => Err(DecodeError::Contradiction),
    }
}

fn turned(raster: Raster, orientation: Orientation) -> Result<Raster, DecodeError> {
    debug_assert_eq!(raster.layout, Layout::Rgb, "JPEG has no alpha");
    debug_assert_eq!(raster.data.len(), raster.stride() * to_usize(raster.height));
    let image =
        RgbImage::from_raw(raster.width, raster.height, raster.data).ok_or(DecodeError::Contradiction)?;
    let mut image = DynamicImage::ImageRgb8(image);
    image.apply_orientation(orientation);
    Ok(colour::to_srgb(image, None))
}

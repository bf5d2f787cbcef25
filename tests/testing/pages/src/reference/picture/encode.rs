//! Encoders of picture files, as used by careful web designers: no metadata, best compression.
use super::{palette::Indexed, raster::Raster};

/// Maximum side length; no picture here exceeds the limit of the format.
const MAX_SIDE: usize = 16_384;

/// A file could not be encoded: the picture is too large, or an encoder has failed.
#[derive(Debug)]
pub(super) struct EncodeFault;

type Encoded = Result<Vec<u8>, EncodeFault>;

/// Baseline JPEG with chroma at half resolution, in one scan and with the standard's Huffman tables, as
/// cameras and most tools write it. (With tables optimised for the picture the encoder would need one scan
/// per component, which no common tool writes in baseline JPEG and some decoders do not support.)
pub(super) fn jpeg(raster: &Raster, quality: u8) -> Encoded {
    let (width, height) = sides(raster.width, raster.height)?;
    let mut file = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(jpeg_encoder::SamplingFactor::R_4_2_0);
    encoder
        .encode(&raster.to_rgb(), width, height, jpeg_encoder::ColorType::Rgb)
        .map_err(|_| EncodeFault)?;
    Ok(file)
}

/// GIF89a with one colour table; `clear` is the transparent index.
pub(super) fn gif(picture: &Indexed, clear: Option<u8>) -> Encoded {
    let (width, height) = sides(picture.width, picture.height)?;
    let mut file = Vec::new();
    let mut encoder = gif::Encoder::new(&mut file, width, height, picture.colours.as_flattened())
        .map_err(|_| EncodeFault)?;
    let frame = gif::Frame {
        width,
        height,
        transparent: clear,
        buffer: picture.pixels.as_slice().into(),
        ..gif::Frame::default()
    };
    encoder.write_frame(&frame).map_err(|_| EncodeFault)?;
    drop(encoder);
    Ok(file)
}

/// PNG with a colour table and the minimum number of bits per pixel, rows unfiltered, which is suitable for
/// drawings.
pub(super) fn png(picture: &Indexed) -> Encoded {
    let (width, height) = sides(picture.width, picture.height)?;
    let (depth, bits) = match picture.colours.len() {
        0..=2 => (png::BitDepth::One, 1),
        3..=4 => (png::BitDepth::Two, 2),
        5..=16 => (png::BitDepth::Four, 4),
        _ => (png::BitDepth::Eight, 8),
    };
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width.into(), height.into());
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(depth);
    encoder.set_palette(picture.colours.as_flattened());
    encoder.set_compression(png::Compression::High);
    encoder.set_filter(png::Filter::NoFilter);
    let mut writer = encoder.write_header().map_err(|_| EncodeFault)?;
    let rows = picture.pixels.chunks(picture.width.max(1));
    let packed: Vec<u8> = rows.flat_map(|row| pack(row, bits)).collect();
    writer.write_image_data(&packed).map_err(|_| EncodeFault)?;
    writer.finish().map_err(|_| EncodeFault)?;
    Ok(file)
}

/// Packs a row of indices, the first in the highest bits.
fn pack(row: &[u8], bits: usize) -> Vec<u8> {
    let packed = row.chunks(8 / bits).map(|pixels| {
        let unused = 8 - pixels.len() * bits;
        let joined = pixels
            .iter()
            .fold(0_u16, |joined, &pixel| joined << bits | u16::from(pixel));
        u8::try_from(joined << unused & 0xff).unwrap_or_default()
    });
    packed.collect()
}

fn sides(width: usize, height: usize) -> Result<(u16, u16), EncodeFault> {
    if width > MAX_SIDE || height > MAX_SIDE {
        return Err(EncodeFault);
    }
    let side = |side: usize| u16::try_from(side).map_err(|_| EncodeFault);
    Ok((side(width)?, side(height)?))
}

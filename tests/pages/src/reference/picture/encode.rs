//! Picture files, written as a careful web designer's tools would: no metadata, best compression.
use super::{palette::Indexed, raster::Raster};

/// What an encoder is never given here: pictures larger than the format has room for.
const MAX_SIDE: usize = 16_384;

/// A file that could not be written; the picture is too large, or there is a fault in an encoder.
#[derive(Debug)]
pub(super) struct EncodeFault;

type Encoded = Result<Vec<u8>, EncodeFault>;

/// Baseline JPEG with chroma at half resolution, in one scan and with the standard's Huffman tables, as cameras and
/// most tools write it. (The encoder's tables made for the picture would need one scan a component, which no usual
/// tool writes in baseline JPEG and some decoders get wrong.)
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

/// GIF89a with one colour table; `clear` is the index that is transparent.
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

/// PNG with a colour table and as few bits a pixel as that allows, rows unfiltered, which suits drawings.
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

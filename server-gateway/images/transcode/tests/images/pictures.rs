//! Test images and their files.
use std::io::{Cursor, Write as _};

use flate2::{Compression, Crc, write::ZlibEncoder};
use image::{
    DynamicImage, ExtendedColorType, ImageDecoder, ImageEncoder, RgbImage, RgbaImage,
    codecs::{png::PngEncoder, webp::WebPDecoder},
};
use jpeg_encoder::{ColorType, SamplingFactor};
use longhaul_transcode::{ImageLevel, Outcome, Request, TranscodeEffort, Variant, transcode};

/// Shapes with shading and grain: no two neighbouring pixels are equal, as in a photograph.
pub(crate) fn photo(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let (u, v) = (f64::from(x) / 40.0, f64::from(y) / 40.0);
        let shade = 110.0 + 60.0 * (u + (v * 1.3).sin()).sin() + 40.0 * (v * 0.7 - u * 0.4).cos();
        let grain = f64::from((x * 7919 + y * 104_729 + x * y * 31) % 17) - 8.0;
        #[expect(clippy::cast_possible_truncation, reason = "clamped to a byte")]
        let channel = |tint: f64| (shade * tint + grain).clamp(0.0, 255.0) as u8;
        image::Rgb([
            channel(1.0),
            channel(0.8),
            channel(0.6 + 0.3 * (u * 0.2).sin().abs()),
        ])
    })
}

/// Flat areas with sharp borders and few colours.
pub(crate) fn drawing(width: u32, height: u32) -> RgbImage {
    RgbImage::from_fn(width, height, |x, y| {
        let centre = |c: u32, side: u32| f64::from(c) - f64::from(side) / 2.0;
        let radius = centre(x, width).hypot(centre(y, height));
        if radius < f64::from(width.min(height)) / 3.0 {
            image::Rgb([200, 30, 40])
        } else if y % 16 < 2 {
            image::Rgb([20, 20, 60])
        } else {
            image::Rgb([250, 250, 245])
        }
    })
}

/// Red, green, blue and white corners with grain.
pub(crate) fn corners(width: u32, height: u32) -> RgbImage {
    let grain = photo(width, height);
    RgbImage::from_fn(width, height, |x, y| {
        let colour = match (x < width / 2, y < height / 2) {
            (true, true) => [220, 40, 40],
            (false, true) => [40, 220, 40],
            (true, false) => [40, 40, 220],
            (false, false) => [230, 230, 230],
        };
        let grain = grain.get_pixel(x, y).0[0] / 8;
        image::Rgb(colour.map(|channel: u8| channel.saturating_add(grain).saturating_sub(16)))
    })
}

/// Scan structure of a JPEG.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scans {
    One,
    /// One scan per component, baseline.
    Several,
    Progressive,
}

pub(crate) fn jpeg(picture: &RgbImage, quality: u8, scans: Scans) -> Vec<u8> {
    jpeg_with(
        picture.as_raw(),
        picture.dimensions(),
        ColorType::Rgb,
        quality,
        |encoder| {
            encoder.set_progressive(scans == Scans::Progressive);
            // With optimized tables the encoder writes one scan per component.
            encoder.set_optimized_huffman_tables(scans == Scans::Several);
        },
    )
}

pub(crate) fn jpeg_with(
    data: &[u8],
    (width, height): (u32, u32),
    colours: ColorType,
    quality: u8,
    set: impl Fn(&mut jpeg_encoder::Encoder<&mut Vec<u8>>),
) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = jpeg_encoder::Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(SamplingFactor::F_1_1);
    set(&mut encoder);
    let side = |side: u32| u16::try_from(side).unwrap();
    encoder.encode(data, side(width), side(height), colours).unwrap();
    file
}

pub(crate) fn png(picture: &DynamicImage) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    picture.write_to(&mut file, image::ImageFormat::Png).unwrap();
    file.into_inner()
}

/// Returns a PNG of 8-bit RGB with chunks that affect its display.
pub(crate) fn tagged_png(picture: &RgbImage, icc: Option<Vec<u8>>, exif: Option<Vec<u8>>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = PngEncoder::new(&mut file);
    if let Some(icc) = icc {
        encoder.set_icc_profile(icc).unwrap();
    }
    if let Some(exif) = exif {
        encoder.set_exif_metadata(exif).unwrap();
    }
    let (width, height) = picture.dimensions();
    encoder
        .write_image(picture, width, height, ExtendedColorType::Rgb8)
        .unwrap();
    file
}

/// Returns a PNG with these uncompressed `rows`, including their filter bytes.
pub(crate) fn raw_png(width: u32, height: u32, tail: [u8; 5], rows: &[u8]) -> Vec<u8> {
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [width.to_be_bytes(), height.to_be_bytes()].concat();
    header.extend(tail);
    chunk(&mut file, *b"IHDR", &header);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(rows).unwrap();
    chunk(&mut file, *b"IDAT", &packed.finish().unwrap());
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
    file.extend(name);
    file.extend_from_slice(data);
    let mut sum = Crc::new();
    sum.update(&name);
    sum.update(data);
    file.extend(sum.sum().to_be_bytes());
}

/// Returns the image as a PNG in Adam7 order (PNG specification section 8.2).
pub(crate) fn interlaced_png(picture: &RgbImage) -> Vec<u8> {
    let (width, height) = picture.dimensions();
    let passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ];
    let mut rows = Vec::new();
    for (left, top, across, down) in passes {
        for y in (top..height).step_by(down) {
            if left >= width {
                continue;
            }
            rows.push(0);
            for x in (left..width).step_by(across) {
                rows.extend(picture.get_pixel(x, y).0);
            }
        }
    }
    raw_png(width, height, [8, 2, 0, 0, 1], &rows)
}

/// Returns a TIFF structure with only an orientation.
pub(crate) fn exif(orientation: u8) -> Vec<u8> {
    let mut tiff = b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    tiff.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    tiff
}

pub(crate) fn request(level: ImageLevel, effort: TranscodeEffort) -> Request {
    Request {
        level,
        effort,
        ..Request::default()
    }
}

/// Transcodes a file that is expected to become smaller.
pub(crate) fn transcoded(file: &[u8], level: ImageLevel) -> Variant {
    match transcode(file, &request(level, TranscodeEffort::Standard)).expect("a sound image") {
        Outcome::Transcoded(variant) => variant,
        Outcome::Kept(reason) => panic!("kept: {reason:?}"),
    }
}

/// Decodes a still WebP with a decoder independent of the encoder.
pub(crate) fn shown(webp: &[u8]) -> RgbaImage {
    let decoder = WebPDecoder::new(Cursor::new(webp)).expect("a WebP file");
    assert!(decoder.dimensions().0 > 0);
    DynamicImage::from_decoder(decoder)
        .expect("a sound WebP file")
        .into_rgba8()
}

/// Returns the mean absolute difference per channel.
pub(crate) fn distance(one: &RgbaImage, other: &RgbaImage) -> f64 {
    assert_eq!(one.dimensions(), other.dimensions());
    let sum: u64 = one
        .as_raw()
        .iter()
        .zip(other.as_raw())
        .map(|(one, other)| u64::from(one.abs_diff(*other)))
        .sum();
    sum as f64 / one.as_raw().len() as f64
}

/// Asserts that a file shows this image.
pub(crate) fn assert_shows(webp: &[u8], picture: &RgbImage, tolerance: f64) {
    let wanted = DynamicImage::ImageRgb8(picture.clone()).into_rgba8();
    let off = distance(&shown(webp), &wanted);
    assert!(off < tolerance, "{off} levels off");
}

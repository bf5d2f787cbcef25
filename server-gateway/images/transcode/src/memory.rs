//! Estimation of the peak memory of transcoding from the header.
//!
//! The constants are bytes per pixel at the peak, measured on flat and noisy images of each format and
//! rounded up. A still image is decoded, scaled and encoded in sequence, so the most expensive step counts.
//! The estimate is no upper bound: the encoder needs more for some images, such as noise with alpha, and reports
//! an error when its process has no more memory.
use crate::{
    inspect::{Header, ImageFormat, jpeg},
    request::{Request, TranscodeEffort},
    scale,
    transcode::LOSSLESS_PIXELS,
};

/// Independent of the image: tables, profiles, rows.
const BASE: u64 = 2 << 20;
/// The file, the result, and the output copy of the result.
const FILES: u64 = 3;
/// An animation: several copies of the canvas in decoder and encoder.
const ANIMATION: u64 = 40;

/// Returns the bytes per pixel of decoding with conversion to sRGB, and whether the result may have alpha.
fn decoding(picture: &[u8], header: &Header) -> (u64, bool) {
    match header.format {
        ImageFormat::Jpeg => {
            // The decoder holds the coefficients of all components until the last scan.
            let progressive = jpeg::read(picture).is_ok_and(|jpeg| jpeg.holds_coefficients());
            (if progressive { 10 } else { 7 }, false)
        }
        ImageFormat::Gif => (9, true),
        ImageFormat::Png => {
            // Depth and colour type of the IHDR chunk (PNG section 11.2.1).
            let deep = picture.get(24) == Some(&16);
            let alpha = picture.get(25).is_some_and(|colour| !matches!(colour, 0 | 2));
            (
                match (deep, alpha) {
                    (false, false) => 7,
                    (false, true) => 9,
                    (true, false) => 16,
                    (true, true) => 21,
                },
                alpha,
            )
        }
        // Only the simple lossy format never has alpha.
        ImageFormat::Webp if picture.get(12..16) == Some(b"VP8 ") => (7, false),
        ImageFormat::Webp => (14, true),
    }
}

/// Returns the bytes per pixel of encoding, including the image.
fn encoding(header: &Header, request: &Request, pixels: u64, alpha: bool) -> u64 {
    let lossy = match (request.effort, alpha) {
        (TranscodeEffort::Quick, false) => 11,
        (TranscodeEffort::Fixed, false) => 12,
        (TranscodeEffort::Fixed | TranscodeEffort::Quick, true) => 24,
        // Sharp chroma subsampling needs buffers, and a result may be measured.
        (TranscodeEffort::Standard | TranscodeEffort::Checked, _) => 41,
    };
    let tries_lossless = header.format != ImageFormat::Jpeg
        && request.effort != TranscodeEffort::Fixed
        && pixels <= LOSSLESS_PIXELS;
    if tries_lossless { lossy.max(30) } else { lossy }
}

/// Returns the estimated peak memory in bytes of transcoding an image, including its file and the result.
pub fn estimate(picture: &[u8], header: &Header, request: &Request) -> u64 {
    let pixels = u64::from(header.width).saturating_mul(header.height.into());
    let fixed = BASE.saturating_add(FILES.saturating_mul(picture.len() as u64));
    if header.animation.is_some() {
        return fixed.saturating_add(pixels.saturating_mul(ANIMATION));
    }
    let (decoding, alpha) = decoding(picture, header);
    let sent = if request.level.scales() && request.effort != TranscodeEffort::Fixed {
        scale::most_pixels(header, request.viewport)
    } else {
        pixels
    };
    let encoding = sent.saturating_mul(encoding(header, request, sent, alpha));
    // Source and result of scaling.
    let scaling = pixels.saturating_mul(4).saturating_add(sent.saturating_mul(4));
    let peak = pixels.saturating_mul(decoding).max(scaling).max(encoding);
    fixed.saturating_add(peak)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::level::ImageLevel;

    const MIB: u64 = 1 << 20;

    fn request(level: ImageLevel, effort: TranscodeEffort) -> Request {
        Request {
            level,
            effort,
            ..Request::default()
        }
    }

    /// Returns the start of a lossy WebP, the only part that the estimate reads.
    fn webp(width: u32, height: u32) -> (Vec<u8>, Header) {
        let header = Header {
            format: ImageFormat::Webp,
            width,
            height,
            animation: None,
        };
        (b"RIFF\x16\0\0\0WEBPVP8 ".to_vec(), header)
    }

    #[test]
    fn a_camera_picture_fits_the_memory_limit_and_a_bomb_does_not() {
        let (file, header) = webp(4000, 3000);
        let medium = estimate(
            &file,
            &header,
            &request(ImageLevel::Medium, TranscodeEffort::Quick),
        );
        assert!((70..90).contains(&(medium / MIB)), "{medium}");
        let high = estimate(&file, &header, &request(ImageLevel::High, TranscodeEffort::Quick));
        assert!((120..140).contains(&(high / MIB)), "{high}");
        let mut deep = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x1f\x40\0\0\x1f\x40".to_vec();
        deep.extend([16, 6]);
        let header = Header {
            format: ImageFormat::Png,
            width: 8000,
            height: 8000,
            animation: None,
        };
        let bomb = estimate(
            &deep,
            &header,
            &request(ImageLevel::Medium, TranscodeEffort::Quick),
        );
        assert!(bomb > 1024 * MIB, "{bomb}");
    }

    #[test]
    fn small_pictures_take_little_and_no_number_overflows() {
        let (file, header) = webp(300, 200);
        let small = estimate(
            &file,
            &header,
            &request(ImageLevel::Medium, TranscodeEffort::Standard),
        );
        assert!(small < 6 * MIB, "{small}");
        let (file, header) = webp(u32::MAX, u32::MAX);
        for level in ImageLevel::ALL {
            assert!(estimate(&file, &header, &request(level, TranscodeEffort::Standard)) > 1 << 40);
        }
    }
}

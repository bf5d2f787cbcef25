//! Results of other encoders for the same picture.
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use longhaul_transcode::{TranscodeEffort, calibration::Picture};

/// An encoding of a picture, with its similarity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Encoding {
    pub(super) bytes: usize,
    pub(super) score: f64,
}

/// Default quality of `cwebp`.
const CWEBP_QUALITY: f32 = 75.0;

/// `cwebp -q 75`: libwebp at one quality for all pictures.
pub(super) fn cwebp(picture: &Picture) -> Option<Encoding> {
    let file = picture.webp(CWEBP_QUALITY, TranscodeEffort::Standard).ok()?;
    measured(picture, &file)
}

/// Returns the smallest JPEG with at least this `score`: progressive, 4:2:0, with tables made for the
/// picture. Returns the best one if none reaches the score.
pub(super) fn smallest_jpeg_with_score(picture: &Picture, score: f64) -> Option<Encoding> {
    let pixels = picture.rgb();
    let (mut low, mut high) = (1_u8, 100_u8);
    let mut best = None;
    while low <= high {
        let quality = low.midpoint(high);
        let encoding = measured(picture, &jpeg(picture, &pixels, quality)?)?;
        best = Some(encoding);
        if encoding.score >= score {
            high = quality - 1;
        } else {
            low = quality + 1;
        }
    }
    if low <= 100 {
        best = measured(picture, &jpeg(picture, &pixels, low)?);
    }
    best
}

fn jpeg(picture: &Picture, pixels: &[u8], quality: u8) -> Option<Vec<u8>> {
    let (width, height) = picture.size();
    let (width, height) = (u16::try_from(width).ok()?, u16::try_from(height).ok()?);
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, quality);
    encoder.set_sampling_factor(SamplingFactor::F_2_2);
    encoder.set_progressive(true);
    encoder.set_optimized_huffman_tables(true);
    encoder.encode(pixels, width, height, ColorType::Rgb).ok()?;
    Some(file)
}

fn measured(picture: &Picture, file: &[u8]) -> Option<Encoding> {
    let similarity = picture.compare(file).ok()??;
    Some(Encoding {
        bytes: file.len(),
        score: similarity.ssimulacra2,
    })
}

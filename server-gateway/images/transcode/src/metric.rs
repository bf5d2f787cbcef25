//! Similarity of a result to its source.
use fast_ssim2::{PixelDescriptor, PixelSlice, Ssimulacra2Reference};

use crate::raster::{Layout, Raster, to_usize};

/// Reference image for SSIMULACRA2: 100 is identical, 90 is hard to distinguish, below 0 is bad.
pub(crate) struct Reference {
    light: Ssimulacra2Reference,
    /// The image over a dark background, for images with alpha.
    dark: Option<Ssimulacra2Reference>,
}

/// Backgrounds for the comparison of images with alpha; the lower score counts.
const LIGHT: u8 = 255;
const DARK: u8 = 32;

impl Reference {
    pub(crate) fn new(raster: &Raster) -> Option<Self> {
        let over = |ground| {
            let flat = Flat::of(raster, ground);
            Ssimulacra2Reference::new(&flat.slice()?).ok()
        };
        let dark = match raster.layout {
            Layout::Rgb => None,
            Layout::Rgba => Some(over(DARK)?),
        };
        Some(Self {
            light: over(LIGHT)?,
            dark,
        })
    }

    /// Returns the score of an image of the same size.
    pub(crate) fn score(&self, raster: &Raster) -> Option<f64> {
        let against = |reference: &Ssimulacra2Reference, ground| {
            let flat = Flat::of(raster, ground);
            reference.compare(&flat.slice()?).ok()
        };
        let light = against(&self.light, LIGHT)?;
        match &self.dark {
            None => Some(light),
            Some(dark) => Some(light.min(against(dark, DARK)?)),
        }
    }

    /// Returns the score of an encoded image as a browser displays it.
    pub(crate) fn score_webp(&self, webp: &[u8]) -> Option<f64> {
        self.score(&decoded(webp)?)
    }
}

/// Decodes a still WebP that this crate encoded, with libwebp as in browsers.
pub(crate) fn decoded(webp: &[u8]) -> Option<Raster> {
    let (data, width, height) = webpx::decode_rgba(webp).ok()?;
    Some(Raster {
        width,
        height,
        layout: Layout::Rgba,
        data,
    })
}

/// Returns the peak signal-to-noise ratio of the luminance (BT.601, 8 bits), in dB, of images over white.
pub(crate) fn luminance_psnr(one: &Raster, other: &Raster) -> Option<f64> {
    let (left, right) = (flattened(one, LIGHT), flattened(other, LIGHT));
    if left.len() != right.len() || left.is_empty() {
        return None;
    }
    let luminance = |pixel: &[u8]| {
        let weighed = [0.299, 0.587, 0.114];
        weighed
            .iter()
            .zip(pixel)
            .map(|(weight, &channel)| weight * f64::from(channel))
            .sum::<f64>()
    };
    let (mut squares, mut count) = (0.0, 0.0);
    for (left, right) in left.chunks_exact(3).zip(right.chunks_exact(3)) {
        squares += (luminance(left) - luminance(right)).powi(2);
        count += 1.0;
    }
    Some(10.0 * (255.0 * 255.0 * count / squares.max(1e-9)).log10())
}

/// Minimum side of a measured image. SSIMULACRA2 adds up six scales, each half as large as the previous one,
/// and omits those below 8 pixels: the score of an icon would depend on a single scale and be far too high.
const LEAST_SIDE: u32 = 128;

/// An image without alpha, of at least [`LEAST_SIDE`] pixels per side.
struct Flat {
    width: u32,
    height: u32,
    data: Vec<u8>,
}

impl Flat {
    fn of(raster: &Raster, ground: u8) -> Self {
        let data = flattened(raster, ground);
        let (width, height) = (raster.width.max(LEAST_SIDE), raster.height.max(LEAST_SIDE));
        if (width, height) == (raster.width, raster.height) {
            return Self { width, height, data };
        }
        let stride = to_usize(raster.width) * 3;
        let mut tiled = Vec::with_capacity(to_usize(width) * to_usize(height) * 3);
        for y in 0..height {
            let row = to_usize(mirrored(y, raster.height)) * stride;
            for x in 0..width {
                let pixel = row + to_usize(mirrored(x, raster.width)) * 3;
                tiled.extend_from_slice(data.get(pixel..pixel + 3).unwrap_or_default());
            }
        }
        Self {
            width,
            height,
            data: tiled,
        }
    }

    fn slice(&self) -> Option<PixelSlice<'_>> {
        let stride = to_usize(self.width) * 3;
        PixelSlice::new(
            &self.data,
            self.width,
            self.height,
            stride,
            PixelDescriptor::RGB8_SRGB,
        )
        .ok()
    }
}

/// Returns the position in a row of mirrored tiles, which avoids edges between tiles.
fn mirrored(place: u32, side: u32) -> u32 {
    let side = side.max(1);
    let within = place % side;
    if (place / side).is_multiple_of(2) {
        within
    } else {
        side - 1 - within
    }
}

/// Returns the image over a gray background, without alpha.
pub(crate) fn flattened(raster: &Raster, ground: u8) -> Vec<u8> {
    match raster.layout {
        Layout::Rgb => raster.data.clone(),
        Layout::Rgba => {
            let mut flat = Vec::with_capacity(raster.data.len() / 4 * 3);
            for pixel in raster.data.chunks_exact(4) {
                let alpha = u32::from(pixel[3]);
                let behind = u32::from(ground) * (255 - alpha);
                flat.extend(pixel[..3].iter().map(|&channel| {
                    let mixed = (u32::from(channel) * alpha + behind + 127) / 255;
                    u8::try_from(mixed).unwrap_or(u8::MAX)
                }));
            }
            flat
        }
    }
}

//! Downscaling.
//!
//! Light adds up linearly, sRGB values do not: fine bright detail scaled in sRGB becomes too dark. Rows are
//! converted to linear light with premultiplied alpha, filtered, and converted back. The filter is the cubic
//! of Mitchell and Netravali (1988, B = C = 1/3): sharper filters ring at edges, and ringing costs bytes in
//! the encoder.
use std::{collections::VecDeque, sync::LazyLock};

use crate::{
    content::ContentKind,
    inspect::Header,
    raster::{Layout, Raster, to_usize},
    request::Viewport,
};

/// Returns the size at which an image is sent, or `None` if it is not larger than the screen.
///
/// Opaque photographs wider than the screen are scaled to its width, because pages do not scroll sideways.
/// Drawings and images with alpha may be sprite sheets. They are scaled only if both sides are larger than
/// the screen's, and still cover the screen afterwards. The aspect ratio is kept; nothing is enlarged.
pub(crate) fn fitted(raster: &Raster, content: ContentKind, viewport: Viewport) -> Option<(u32, u32)> {
    let (width, height) = (raster.width, raster.height);
    let (screen_width, screen_height) = viewport.device_pixels();
    let photo = content == ContentKind::Photo && raster.layout == Layout::Rgb;
    if width <= screen_width || (!photo && height <= screen_height) {
        return None;
    }
    let by_width = (screen_width, proportional(height, screen_width, width));
    if photo || by_width.1 >= screen_height {
        return Some(by_width);
    }
    Some((proportional(width, screen_height, height), screen_height))
}

/// Returns the maximum number of pixels at which an image with this header may be sent, for any content.
pub(crate) fn most_pixels(header: &Header, viewport: Viewport) -> u64 {
    let (width, height) = (header.width.max(1), header.height.max(1));
    // The orientation may exchange the sides.
    let upright = |width: u32, height: u32| {
        let (screen_width, screen_height) = viewport.device_pixels();
        if width <= screen_width || height <= screen_height {
            return u64::from(width) * u64::from(height);
        }
        let by_width = (screen_width, proportional(height, screen_width, width));
        let by_height = (proportional(width, screen_height, height), screen_height);
        [by_width, by_height]
            .map(|(width, height)| u64::from(width) * u64::from(height))
            .into_iter()
            .fold(1, u64::max)
    };
    upright(width, height).max(upright(height, width))
}

/// `side * numerator / denominator`, rounded, at least one.
fn proportional(side: u32, numerator: u32, denominator: u32) -> u32 {
    let denominator = u64::from(denominator.max(1));
    let scaled = (u64::from(side) * u64::from(numerator) + denominator / 2) / denominator;
    u32::try_from(scaled).unwrap_or(u32::MAX).max(1)
}

/// Scales an image down to this size.
pub(crate) fn scaled(raster: &Raster, (width, height): (u32, u32)) -> Raster {
    let across = kernels(raster.width, width);
    let down = kernels(raster.height, height);
    let stride = raster.stride();
    let mut rows = raster.data.chunks_exact(stride).enumerate();
    // Horizontally filtered rows, with their numbers.
    let mut window: VecDeque<(usize, Vec<f32>)> = VecDeque::new();
    let mut data = Vec::with_capacity(to_usize(width) * to_usize(height) * raster.layout.channels());
    let mut linear = Vec::new();
    let mut sums = Vec::new();
    for kernel in &down {
        while window.front().is_some_and(|(number, _)| *number < kernel.first) {
            window.pop_front();
        }
        let end = kernel.first + kernel.weights.len();
        while window.back().is_none_or(|(number, _)| number + 1 < end) {
            let Some((number, row)) = rows.next() else { break };
            if number < kernel.first {
                continue;
            }
            to_linear(row, raster.layout, &mut linear);
            window.push_back((number, filtered(&linear, &across)));
        }
        sums.clear();
        sums.resize(to_usize(width) * 4, 0.0);
        for (row, weight) in window.iter().map(|(_, row)| row).zip(&kernel.weights) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += weight * value;
            }
        }
        from_linear(&sums, raster.layout, &mut data);
    }
    Raster {
        width,
        height,
        layout: raster.layout,
        data,
    }
}

/// Weights of the source samples of one result sample.
struct Kernel {
    first: usize,
    weights: Vec<f32>,
}

/// The Mitchell-Netravali filter extends two samples to each side.
const SUPPORT: f64 = 2.0;

fn kernels(from: u32, to: u32) -> Vec<Kernel> {
    let scale = f64::from(from) / f64::from(to.max(1));
    let reach = SUPPORT * scale;
    let kernel = |position: u32| {
        let centre = (f64::from(position) + 0.5) * scale - 0.5;
        let (first, last) = (clamped(centre - reach, from), clamped(centre + reach, from));
        let weights: Vec<f64> = (first..=last)
            .map(|sample| mitchell((f64::from(sample) - centre) / scale))
            .collect();
        let sum: f64 = weights.iter().sum();
        Kernel {
            first: to_usize(first),
            weights: weights.into_iter().map(|weight| single(weight / sum)).collect(),
        }
    };
    (0..to).map(kernel).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "weights need no more than single precision"
)]
fn single(number: f64) -> f32 {
    number as f32
}

/// Returns the nearest sample number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a valid sample number before the cast"
)]
fn clamped(position: f64, samples: u32) -> u32 {
    position.round().clamp(0.0, f64::from(samples.saturating_sub(1))) as u32
}

fn mitchell(distance: f64) -> f64 {
    let x = distance.abs();
    if x < 1.0 {
        (7.0 * x * x * x - 12.0 * x * x + 16.0 / 3.0) / 6.0
    } else if x < 2.0 {
        (-7.0 / 3.0 * x * x * x + 12.0 * x * x - 20.0 * x + 32.0 / 3.0) / 6.0
    } else {
        0.0
    }
}

fn filtered(row: &[[f32; 4]], kernels: &[Kernel]) -> Vec<f32> {
    let mut result = Vec::with_capacity(kernels.len() * 4);
    for kernel in kernels {
        let mut sum = [0.0; 4];
        let samples = row.get(kernel.first..).unwrap_or_default();
        for (pixel, weight) in samples.iter().zip(&kernel.weights) {
            for (sum, value) in sum.iter_mut().zip(pixel) {
                *sum += weight * value;
            }
        }
        result.extend(sum);
    }
    result
}

/// Table from sRGB to linear light (IEC 61966-2-1).
static LINEAR: LazyLock<[f32; 256]> = LazyLock::new(|| {
    std::array::from_fn(|value| {
        let value = f64::from(u8::try_from(value).unwrap_or(u8::MAX)) / 255.0;
        single(if value <= 0.04045 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        })
    })
});

/// Steps of the table back to sRGB: fine enough to restore the darkest values, which are 1/3294 apart.
const STEPS: u16 = 16_384;

/// Table from linear light to sRGB.
static ENCODED: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let encoded = |step: u16| {
        let value = f64::from(step) / f64::from(STEPS);
        let encoded = if value <= 0.003_130_8 {
            value * 12.92
        } else {
            1.055 * value.powf(1.0 / 2.4) - 0.055
        };
        byte(single(encoded * 255.0))
    };
    (0..=STEPS).map(encoded).collect()
});

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to a byte before the cast"
)]
fn byte(value: f32) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

fn to_linear(row: &[u8], layout: Layout, linear: &mut Vec<[f32; 4]>) {
    let table = &*LINEAR;
    let of = |channel: u8| table[usize::from(channel)];
    linear.clear();
    linear.extend(row.chunks_exact(layout.channels()).map(|pixel| match *pixel {
        [red, green, blue, alpha] => {
            let alpha = f32::from(alpha) / 255.0;
            [of(red) * alpha, of(green) * alpha, of(blue) * alpha, alpha]
        }
        [red, green, blue] => [of(red), of(green), of(blue), 1.0],
        _ => [0.0; 4],
    }));
}

fn from_linear(sums: &[f32], layout: Layout, data: &mut Vec<u8>) {
    let table = &*ENCODED;
    for pixel in sums.chunks_exact(4) {
        let alpha = pixel[3].clamp(0.0, 1.0);
        let part = if alpha > 0.0 { 1.0 / alpha } else { 0.0 };
        data.extend(pixel[..3].iter().map(|value| encoded(table, value * part)));
        if layout == Layout::Rgba {
            data.push(byte(alpha * 255.0));
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to an index of the table before the cast"
)]
fn encoded(table: &[u8], linear: f32) -> u8 {
    let step = (linear.clamp(0.0, 1.0) * f32::from(STEPS)).round() as usize;
    table.get(step).copied().unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raster(width: u32, height: u32, layout: Layout, pixel: impl Fn(u32, u32) -> Vec<u8>) -> Raster {
        let data = (0..height)
            .flat_map(|y| (0..width).flat_map(|x| pixel(x, y)).collect::<Vec<_>>())
            .collect();
        Raster {
            width,
            height,
            layout,
            data,
        }
    }

    #[test]
    fn every_even_colour_survives() {
        for value in 0..=255 {
            let even = raster(40, 9, Layout::Rgb, |_, _| vec![value, 255 - value, 7]);
            let small = scaled(&even, (13, 4));
            assert_eq!(small.data.len(), 13 * 4 * 3);
            for pixel in small.data.chunks_exact(3) {
                assert_eq!(pixel, [value, 255 - value, 7]);
            }
        }
    }

    #[test]
    fn scaling_averages_linear_light() {
        let board = raster(64, 64, Layout::Rgb, |x, y| {
            vec![if (x + y) % 2 == 0 { 255 } else { 0 }; 3]
        });
        let small = scaled(&board, (8, 8));
        // Half the light of white is 188 in sRGB.
        let middle = small.data[(4 * 8 + 4) * 3];
        assert!((186..=190).contains(&middle), "{middle}");
    }

    #[test]
    fn transparent_pixels_do_not_affect_colours() {
        let half = raster(64, 8, Layout::Rgba, |x, _| {
            if x < 32 {
                vec![255, 0, 0, 255]
            } else {
                vec![0, 255, 0, 0]
            }
        });
        let small = scaled(&half, (9, 2));
        for pixel in small.data.chunks_exact(4).filter(|pixel| pixel[3] > 8) {
            assert!(pixel[1] < 8, "{pixel:?}");
        }
    }

    #[test]
    fn only_images_larger_than_the_screen_are_scaled() {
        let screen = Viewport::default();
        let of = |width, height, layout, content| {
            fitted(&raster(width, height, layout, |_, _| Vec::new()), content, screen)
        };
        let (rgb, rgba) = (Layout::Rgb, Layout::Rgba);
        assert_eq!(of(4000, 3000, rgb, ContentKind::Photo), Some((1366, 1025)));
        assert_eq!(of(1366, 5000, rgb, ContentKind::Photo), None);
        assert_eq!(of(3000, 500, rgb, ContentKind::Photo), Some((1366, 228)));
        assert_eq!(of(3000, 500, rgba, ContentKind::Photo), None);
        assert_eq!(of(3000, 500, rgb, ContentKind::LineArt), None);
        assert_eq!(of(3000, 900, rgb, ContentKind::LineArt), Some((2560, 768)));
        assert_eq!(of(100, 100, rgb, ContentKind::Photo), None);
        let sharp = Viewport {
            ratio_percent: 200,
            ..screen
        };
        let photo = raster(4000, 3000, rgb, |_, _| Vec::new());
        assert_eq!(fitted(&photo, ContentKind::Photo, sharp), Some((2732, 2049)));
    }
}

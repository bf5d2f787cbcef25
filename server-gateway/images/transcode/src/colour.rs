//! Conversion to sRGB.
use image::DynamicImage;
use moxcms::{ColorProfile, DataColorSpace, Layout as Channels, TransformOptions};

use crate::raster::{Layout, Raster};

/// Colour profile that converts to sRGB.
pub(crate) struct Profile(ColorProfile);

/// Maximum size of a profile in bytes; printer profiles have a few megabytes.
const MAX_PROFILE: usize = 4 << 20;

impl Profile {
    /// Parses an ICC profile. An image with an invalid profile is treated as an image without profile, as in
    /// browsers.
    pub(crate) fn parse(icc: &[u8]) -> Option<Self> {
        if icc.len() > MAX_PROFILE {
            return None;
        }
        ColorProfile::new_from_slice(icc).ok().map(Self)
    }

    fn is(&self, space: DataColorSpace) -> bool {
        self.0.color_space == space
    }
}

/// Converts an image to 8 bits per channel in sRGB; keeps alpha, and converts gray to colour.
pub(crate) fn to_srgb(image: DynamicImage, profile: Option<&Profile>) -> Raster {
    let (width, height) = (image.width(), image.height());
    let alpha = image.color().has_alpha();
    let deep = image.color().bytes_per_pixel() > image.color().channel_count();
    let gray = matches!(image.color().channel_count(), 1 | 2);
    let profile = profile
        .filter(|profile| profile.is(DataColorSpace::Rgb) || (gray && profile.is(DataColorSpace::Gray)));
    let data = match profile {
        None if alpha => image.into_rgba8().into_raw(),
        None => image.into_rgb8().into_raw(),
        Some(profile) if deep => deep_to_srgb(image, profile),
        Some(profile) => shallow_to_srgb(image, profile),
    };
    let layout = if alpha { Layout::Rgba } else { Layout::Rgb };
    Raster {
        width,
        height,
        layout,
        data,
    }
}

/// Returns the channel layouts of source and sRGB result.
fn channels(alpha: bool, profile: &Profile) -> (Channels, Channels) {
    match (alpha, profile.is(DataColorSpace::Gray)) {
        (false, false) => (Channels::Rgb, Channels::Rgb),
        (true, false) => (Channels::Rgba, Channels::Rgba),
        (false, true) => (Channels::Gray, Channels::Rgb),
        (true, true) => (Channels::GrayAlpha, Channels::Rgba),
    }
}

fn shallow_to_srgb(image: DynamicImage, profile: &Profile) -> Vec<u8> {
    let alpha = image.color().has_alpha();
    let (from, to) = channels(alpha, profile);
    let source = match (alpha, profile.is(DataColorSpace::Gray)) {
        (false, false) => image.into_rgb8().into_raw(),
        (true, false) => image.into_rgba8().into_raw(),
        (false, true) => image.into_luma8().into_raw(),
        (true, true) => image.into_luma_alpha8().into_raw(),
    };
    let transform =
        profile
            .0
            .create_transform_8bit(from, &ColorProfile::new_srgb(), to, TransformOptions::default());
    let mut data = vec![0; source.len() / from.channels() * to.channels()];
    let done = transform.and_then(|transform| transform.transform(&source, &mut data));
    match done {
        Ok(()) => data,
        Err(_) => spread(&source, from.channels(), to.channels()),
    }
}

/// Converts an image of more than 8 bits per channel before the reduction to 8 bits: a linear profile needs
/// the precision in the shadows.
fn deep_to_srgb(image: DynamicImage, profile: &Profile) -> Vec<u8> {
    let alpha = image.color().has_alpha();
    let (from, to) = channels(alpha, profile);
    let source = match (alpha, profile.is(DataColorSpace::Gray)) {
        (false, false) => image.into_rgb16().into_raw(),
        (true, false) => image.into_rgba16().into_raw(),
        (false, true) => image.into_luma16().into_raw(),
        (true, true) => image.into_luma_alpha16().into_raw(),
    };
    let transform =
        profile
            .0
            .create_transform_16bit(from, &ColorProfile::new_srgb(), to, TransformOptions::default());
    let mut data = vec![0; source.len() / from.channels() * to.channels()];
    let done = transform.and_then(|transform| transform.transform(&source, &mut data));
    let data = match done {
        Ok(()) => data,
        Err(_) => spread(&source, from.channels(), to.channels()),
    };
    data.into_iter().map(reduced).collect()
}

/// Returns the nearest 8-bit value.
fn reduced(deep: u16) -> u8 {
    let rounded = (u32::from(deep) * 255 + 32_767) / 65_535;
    u8::try_from(rounded).unwrap_or(u8::MAX)
}

/// Returns the samples without conversion; copies gray to all three colours.
fn spread<S: Copy>(source: &[S], from: usize, to: usize) -> Vec<S> {
    if from == to {
        return source.to_vec();
    }
    let mut data = Vec::with_capacity(source.len() / from.max(1) * to);
    for pixel in source.chunks_exact(from.max(1)) {
        if let Some((&gray, alpha)) = pixel.split_first() {
            data.extend([gray; 3]);
            data.extend_from_slice(alpha);
        }
    }
    data
}

/// Converts inks (0 is none) to sRGB, with the profile of the press or as ideal inks.
pub(crate) fn cmyk_to_srgb(inks: &[u8], profile: Option<&Profile>) -> Vec<u8> {
    let mut data = vec![0; inks.len() / 4 * 3];
    let profile = profile.filter(|profile| profile.is(DataColorSpace::Cmyk));
    let done = profile.map(|profile| {
        let srgb = ColorProfile::new_srgb();
        profile
            .0
            .create_transform_8bit(Channels::Rgba, &srgb, Channels::Rgb, TransformOptions::default())
            .and_then(|transform| transform.transform(inks, &mut data))
    });
    if !matches!(done, Some(Ok(()))) {
        for (pixel, ink) in data.chunks_exact_mut(3).zip(inks.chunks_exact(4)) {
            let light = 255 - u32::from(ink[3]);
            for (channel, &ink) in pixel.iter_mut().zip(ink) {
                let value = ((255 - u32::from(ink)) * light + 127) / 255;
                *channel = u8::try_from(value).unwrap_or(u8::MAX);
            }
        }
    }
    data
}

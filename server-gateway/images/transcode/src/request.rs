//! Transcoding requests.
use crate::{level::ImageLevel, limits::Limits};

/// The screen that displays the images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Device pixels per CSS pixel, in percent.
    pub ratio_percent: u32,
}

/// Amount of computation for a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TranscodeEffort {
    /// libwebp quality 75 for every image at every level: the method of a simple proxy.
    Fixed,
    /// Quality from the table, fast encoding: for fast links.
    Quick,
    /// Thorough encoding at a quality that was measured on a small image, or on a sample of a large one.
    #[default]
    Standard,
    /// The whole image is encoded, decoded and measured until it reaches the level's score: for slow links.
    Checked,
}

/// Parameters of a transcoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The user's level.
    pub level: ImageLevel,
    /// The user's screen.
    pub viewport: Viewport,
    /// The effort that the link justifies.
    pub effort: TranscodeEffort,
    /// Limits of the image's cost.
    pub limits: Limits,
}

impl Default for Viewport {
    /// The most common laptop screen.
    fn default() -> Self {
        Self {
            width: 1366,
            height: 768,
            ratio_percent: 100,
        }
    }
}

impl Viewport {
    /// Width and height in device pixels, at least one each.
    pub(crate) fn device_pixels(self) -> (u32, u32) {
        let scaled = |side: u32| {
            let pixels = u64::from(side) * u64::from(self.ratio_percent) / 100;
            u32::try_from(pixels).unwrap_or(u32::MAX).max(1)
        };
        (scaled(self.width), scaled(self.height))
    }
}

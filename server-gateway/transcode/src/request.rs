//! What is wanted of an image.
use crate::{level::ImageLevel, limits::Limits};

/// The screen that images are shown on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Device pixels a CSS pixel, in percent.
    pub ratio_percent: u32,
}

/// How much computing a result is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effort {
    /// libwebp's quality 75 for every picture at every level: what a proxy does that knows no better.
    Fixed,
    /// The quality of the table, quickly encoded: for fast links.
    Quick,
    /// Well encoded, at the quality that a small picture or a sample of a large one was measured to need.
    #[default]
    Standard,
    /// Encoded, decoded and measured as a whole until the level's score is met: for slow links.
    Checked,
}

/// What is wanted of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The user's level.
    pub level: ImageLevel,
    /// The user's screen.
    pub viewport: Viewport,
    /// The computing that the link is worth.
    pub effort: Effort,
    /// What the image may cost.
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
    /// Width and height in device pixels, at least one.
    pub(crate) fn device_pixels(self) -> (u32, u32) {
        let scaled = |side: u32| {
            let pixels = u64::from(side) * u64::from(self.ratio_percent) / 100;
            u32::try_from(pixels).unwrap_or(u32::MAX).max(1)
        };
        (scaled(self.width), scaled(self.height))
    }
}

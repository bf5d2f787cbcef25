//! The screen for which images and media queries are evaluated.

/// Properties of the browser's screen that affect loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Device pixels per CSS pixel, in percent.
    pub ratio_percent: u32,
}

impl Default for Viewport {
    /// The most common laptop screen, the default for image sizes.
    fn default() -> Self {
        Self {
            width: 1366,
            height: 768,
            ratio_percent: 100,
        }
    }
}

impl Viewport {
    /// Device pixels per CSS pixel.
    pub(crate) fn ratio(self) -> f64 {
        f64::from(self.ratio_percent.max(1)) / 100.0
    }
}

//! The screen that images and media queries are chosen for.

/// What the browser shows the page on, as far as it decides what is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewport {
    /// Width in CSS pixels.
    pub width: u32,
    /// Height in CSS pixels.
    pub height: u32,
    /// Device pixels a CSS pixel, in percent.
    pub ratio_percent: u32,
}

impl Default for Viewport {
    /// The most common laptop screen, and the product's default for image sizes.
    fn default() -> Self {
        Self {
            width: 1366,
            height: 768,
            ratio_percent: 100,
        }
    }
}

impl Viewport {
    /// Device pixels a CSS pixel.
    pub(crate) fn ratio(self) -> f64 {
        f64::from(self.ratio_percent.max(1)) / 100.0
    }
}

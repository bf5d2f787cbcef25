//! Settings of the user that apply to the requests of a session.
use bincode::{Decode, Encode};

/// Settings of the user, which the gateway applies to later requests of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Preferences {
    /// Width of the device's viewport in CSS pixels.
    pub viewport_width: u16,
    /// Height of the device's viewport in CSS pixels.
    pub viewport_height: u16,
    /// Device pixels per CSS pixel, in hundredths.
    pub pixel_ratio_percent: u16,
    /// Image level.
    pub images: ImageLevel,
    /// States if the agent accepts bodies in [`crate::BodyCoding::Mix`].
    pub mixing: Mixing,
}

impl Default for Preferences {
    /// 1366 x 768 at ratio 1 (the most common laptop), original images, no context mixing.
    fn default() -> Self {
        Self {
            viewport_width: 1366,
            viewport_height: 768,
            pixel_ratio_percent: 100,
            images: ImageLevel::Original,
            mixing: Mixing::Refused,
        }
    }
}

/// Image levels of the pages of some hosts, which the gateway uses instead of [`Preferences::images`] for later requests
/// of the session. A message replaces the previous one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct SiteImages {
    /// Names in lower case, each with its subdomains, and the level of their pages. The longest name applies.
    pub levels: Vec<(String, ImageLevel)>,
}

/// Acceptance of context-mixed bodies, which cost the agent memory and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub enum Mixing {
    /// The gateway must not send context-mixed bodies.
    #[default]
    Refused,
    /// The gateway may send context-mixed bodies, in version 1 of mix.md.
    Accepted,
}

/// Quality of the images that a page displays, in the order from original images to none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub enum ImageLevel {
    /// Images as the origin sends them.
    #[default]
    Original,
    /// Differences are hard to find side by side.
    High,
    /// Differences are slight; images larger than the screen are scaled to it.
    Medium,
    /// Differences are visible, the content is clear; images larger than the screen are scaled to it.
    Low,
    /// No images until the user requests them.
    Text,
}

impl ImageLevel {
    /// All levels, from original images to none.
    pub const ALL: [Self; 5] = [Self::Original, Self::High, Self::Medium, Self::Low, Self::Text];

    /// Name of the level in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Text => "text",
        }
    }
}

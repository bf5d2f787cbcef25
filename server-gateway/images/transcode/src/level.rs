//! Image levels.
use std::{fmt, str::FromStr};

/// Image quality that a user selects, from unchanged to no images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ImageLevel {
    /// Unchanged originals.
    Original,
    /// SSIMULACRA2 score of 75: differences are hard to find side by side.
    High,
    /// SSIMULACRA2 score of 60: differences are slight. Larger images are scaled to the screen.
    #[default]
    Medium,
    /// SSIMULACRA2 score of 40: differences are visible, the content is clear. Larger images are scaled to
    /// the screen.
    Low,
    /// No images until requested.
    Text,
}

/// Text that is not an image level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no image level: original, high, medium, low or text is expected")]
pub struct ParseLevelError(String);

impl ImageLevel {
    /// All levels, from unchanged to no images.
    pub const ALL: [Self; 5] = [Self::Original, Self::High, Self::Medium, Self::Low, Self::Text];

    /// Target SSIMULACRA2 score; `None` if images are not transcoded at this level.
    pub fn target(self) -> Option<f64> {
        match self {
            Self::High => Some(75.0),
            Self::Medium => Some(60.0),
            Self::Low => Some(40.0),
            Self::Original | Self::Text => None,
        }
    }

    /// Name of the level on command lines and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
            Self::Text => "text",
        }
    }

    /// Returns true if images larger than the screen are scaled down at this level.
    pub(crate) fn scales(self) -> bool {
        matches!(self, Self::Medium | Self::Low)
    }
}

impl fmt::Display for ImageLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ImageLevel {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|level| level.name() == text);
        found.ok_or_else(|| ParseLevelError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for level in ImageLevel::ALL {
            assert_eq!(level.name().parse(), Ok(level));
        }
        assert!("best".parse::<ImageLevel>().is_err());
    }
}

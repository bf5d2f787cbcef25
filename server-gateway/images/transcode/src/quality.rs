//! Encoder quality for a level, by content and size.
mod table;

use crate::{
    content::ContentKind,
    level::ImageLevel,
    request::{Request, TranscodeEffort},
};

/// Size class of an image. Small images need a higher quality for the same score: each block covers a larger
/// part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SizeClass {
    /// Up to 64 x 64 pixels: icons.
    Icon,
    /// Up to 200 x 200: thumbnails.
    Thumbnail,
    /// Up to 640 x 480: images within text.
    Inline,
    /// Larger.
    Large,
}

impl SizeClass {
    /// All classes, smallest first.
    pub const ALL: [Self; 4] = [Self::Icon, Self::Thumbnail, Self::Inline, Self::Large];

    /// Returns the class of an image with this number of pixels.
    pub fn of(pixels: u64) -> Self {
        match pixels {
            0..=4_096 => Self::Icon,
            4_097..=40_000 => Self::Thumbnail,
            40_001..=307_200 => Self::Inline,
            _ => Self::Large,
        }
    }

    /// Name of the class in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Icon => "icon",
            Self::Thumbnail => "thumbnail",
            Self::Inline => "inline",
            Self::Large => "large",
        }
    }
}

/// Returns the initial quality for an image.
pub(crate) fn first(request: &Request, content: ContentKind, pixels: u64) -> f32 {
    match request.effort {
        TranscodeEffort::Fixed => USUAL,
        TranscodeEffort::Quick | TranscodeEffort::Standard | TranscodeEffort::Checked => {
            quality(request.level, content, pixels).unwrap_or(USUAL)
        }
    }
}

/// The default of libwebp.
const USUAL: f32 = 75.0;

/// Returns the libwebp quality at which half of the images of a kind reach the score of a level.
pub(crate) fn quality(level: ImageLevel, content: ContentKind, pixels: u64) -> Option<f32> {
    let rows = match level {
        ImageLevel::High => &table::HIGH,
        ImageLevel::Medium => &table::MEDIUM,
        ImageLevel::Low => &table::LOW,
        ImageLevel::Original | ImageLevel::Text => return None,
    };
    let row = match content {
        ContentKind::Photo => &rows[0],
        ContentKind::LineArt => &rows[1],
        ContentKind::Text => &rows[2],
        ContentKind::Mixed => &rows[3],
    };
    let column = match SizeClass::of(pixels) {
        SizeClass::Icon => 0,
        SizeClass::Thumbnail => 1,
        SizeClass::Inline => 2,
        SizeClass::Large => 3,
    };
    row.get(column).map(|&quality| f32::from(quality))
}

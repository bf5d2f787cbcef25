//! Headers: kind, size and animation of an image, without decoding it.
pub(crate) mod gif;
pub(crate) mod jpeg;
pub(crate) mod png;
mod reader;
pub(crate) mod webp;

/// A file format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// GIF87a or GIF89a.
    Gif,
    /// JPEG (ITU-T T.81).
    Jpeg,
    /// PNG, also animated.
    Png,
    /// WebP (RFC 9649).
    Webp,
}

/// How often an animation is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plays {
    /// Without end.
    Forever,
    /// So many times, at least once.
    Times(u32),
}

/// What the header says of an animation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Animation {
    /// Frames, more than one.
    pub frames: u32,
    /// How often they are shown.
    pub plays: Plays,
}

/// What an image says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub kind: Kind,
    /// Width in stored pixels: before an orientation is applied.
    pub width: u32,
    /// Height in stored pixels.
    pub height: u32,
    /// Set if it moves.
    pub animation: Option<Animation>,
}

/// Why a header cannot be read. The origin sent something that is no image of a known kind, or damaged it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// No known signature.
    #[error("not a JPEG, PNG, GIF or WebP file")]
    UnknownKind,
    /// The file ends too early.
    #[error("the image file ends within its structure")]
    Truncated,
    /// Something that the format does not allow.
    #[error("the image file is malformed")]
    Malformed,
    /// No pixels.
    #[error("the image has no pixels")]
    Empty,
    /// A variety of the format that is not decoded.
    #[error("the image uses a rare variety of its format")]
    Unsupported,
}

/// Reads the header of an image, and of an animation the headers of its frames.
///
/// # Errors
/// The bytes are no image of a known kind, or damaged as far as the structure shows.
pub fn inspect(input: &[u8]) -> Result<Header, InspectError> {
    let header = match kind(input).ok_or(InspectError::UnknownKind)? {
        Kind::Gif => gif::read(input)?.header(),
        Kind::Jpeg => jpeg::read(input)?.header(),
        Kind::Png => png::read(input)?,
        Kind::Webp => webp::read(input)?,
    };
    if header.width == 0 || header.height == 0 {
        return Err(InspectError::Empty);
    }
    Ok(header)
}

/// The format that the first bytes name.
fn kind(input: &[u8]) -> Option<Kind> {
    if input.starts_with(b"\xff\xd8\xff") {
        Some(Kind::Jpeg)
    } else if input.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(Kind::Png)
    } else if input.starts_with(b"GIF87a") || input.starts_with(b"GIF89a") {
        Some(Kind::Gif)
    } else if input.starts_with(b"RIFF") && input.get(8..12) == Some(b"WEBP") {
        Some(Kind::Webp)
    } else {
        None
    }
}

/// An animation if there is more than one frame.
fn animation(frames: u32, plays: Plays) -> Option<Animation> {
    (frames > 1).then_some(Animation { frames, plays })
}

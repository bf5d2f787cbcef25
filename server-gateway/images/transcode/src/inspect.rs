//! Headers of images: format, size and animation, without decoding.
pub(crate) mod gif;
pub(crate) mod jpeg;
pub(crate) mod png;
mod reader;
pub(crate) mod webp;

/// Supported file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImageFormat {
    /// GIF87a or GIF89a.
    Gif,
    /// JPEG (ITU-T T.81).
    Jpeg,
    /// PNG, including animated PNG.
    Png,
    /// WebP (RFC 9649).
    Webp,
}

/// Number of plays of an animation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plays {
    /// Infinite.
    Forever,
    /// This number of plays, at least one.
    Times(u32),
}

/// Animation properties in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Animation {
    /// Number of frames, at least two.
    pub frames: u32,
    /// Number of plays.
    pub plays: Plays,
}

/// Header of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The format.
    pub format: ImageFormat,
    /// Width in stored pixels, before orientation.
    pub width: u32,
    /// Height in stored pixels, before orientation.
    pub height: u32,
    /// `None` for still images.
    pub animation: Option<Animation>,
}

/// Errors of reading a header: the origin's file is not an image of a known format, or is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InspectError {
    /// Unknown signature.
    #[error("not a JPEG, PNG, GIF or WebP file")]
    UnknownFormat,
    /// The file ends too early.
    #[error("the image file ends within its structure")]
    Truncated,
    /// The file violates its format.
    #[error("the image file is malformed")]
    Malformed,
    /// The image has no pixels.
    #[error("the image has no pixels")]
    Empty,
    /// An unsupported variety of the format.
    #[error("the image uses a rare variety of its format")]
    Unsupported,
}

/// Reads the header of an image, and of an animation also the headers of its frames.
///
/// # Errors
/// The bytes are not an image of a known format, or its structure is damaged.
pub fn inspect(input: &[u8]) -> Result<Header, InspectError> {
    let header = match format(input).ok_or(InspectError::UnknownFormat)? {
        ImageFormat::Gif => gif::read(input)?.header(),
        ImageFormat::Jpeg => jpeg::read(input)?.header(),
        ImageFormat::Png => png::read(input)?,
        ImageFormat::Webp => webp::read(input)?,
    };
    if header.width == 0 || header.height == 0 {
        return Err(InspectError::Empty);
    }
    Ok(header)
}

/// Returns the format of a file by its signature.
fn format(input: &[u8]) -> Option<ImageFormat> {
    if input.starts_with(b"\xff\xd8\xff") {
        Some(ImageFormat::Jpeg)
    } else if input.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(ImageFormat::Png)
    } else if input.starts_with(b"GIF87a") || input.starts_with(b"GIF89a") {
        Some(ImageFormat::Gif)
    } else if input.starts_with(b"RIFF") && input.get(8..12) == Some(b"WEBP") {
        Some(ImageFormat::Webp)
    } else {
        None
    }
}

/// Returns an animation if there is more than one frame.
fn animation(frames: u32, plays: Plays) -> Option<Animation> {
    (frames > 1).then_some(Animation { frames, plays })
}

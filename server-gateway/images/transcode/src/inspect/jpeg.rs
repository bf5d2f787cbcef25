//! JPEG: frame, scans and the segments that affect the display (ITU-T T.81 annex B).
use super::{Header, ImageFormat, InspectError, reader::Reader};

/// Coding process of the coefficients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// Baseline or extended sequential, Huffman coded.
    Sequential,
    /// Progressive, Huffman coded.
    Progressive,
}

/// Properties found in the segments of a JPEG.
#[derive(Clone, Debug)]
pub(crate) struct Jpeg<'a> {
    pub(crate) width: u16,
    pub(crate) height: u16,
    pub(crate) process: Process,
    pub(crate) components: u8,
    /// Number of start-of-scan segments.
    pub(crate) scans: u32,
    /// True if the end marker exists; otherwise the image is incomplete.
    pub(crate) complete: bool,
    /// The TIFF structure of an Exif segment.
    pub(crate) exif: Option<&'a [u8]>,
    /// Parts of the colour profile in file order, with their numbers.
    pub(crate) profile: Vec<(u8, &'a [u8])>,
}

const START_OF_SCAN: u8 = 0xda;
const END_OF_IMAGE: u8 = 0xd9;
const EXIF: &[u8] = b"Exif\0\0";
const PROFILE: &[u8] = b"ICC_PROFILE\0";

impl Jpeg<'_> {
    pub(super) fn header(&self) -> Header {
        Header {
            format: ImageFormat::Jpeg,
            width: u32::from(self.width),
            height: u32::from(self.height),
            animation: None,
        }
    }

    /// Returns true if the decoder holds the coefficients of the whole image.
    pub(crate) fn holds_coefficients(&self) -> bool {
        self.process == Process::Progressive || self.scans > 1
    }

    /// Returns the complete colour profile.
    pub(crate) fn icc(&self) -> Option<Vec<u8>> {
        let mut parts = self.profile.clone();
        parts.sort_by_key(|(number, _)| *number);
        (!parts.is_empty()).then(|| parts.iter().flat_map(|(_, part)| part.iter().copied()).collect())
    }
}

pub(crate) fn read(input: &[u8]) -> Result<Jpeg<'_>, InspectError> {
    let mut reader = Reader(input);
    reader.take(2)?;
    let mut jpeg = Jpeg {
        width: 0,
        height: 0,
        process: Process::Sequential,
        components: 0,
        scans: 0,
        complete: false,
        exif: None,
        profile: Vec::new(),
    };
    while let Some(marker) = next_marker(&mut reader) {
        match marker {
            // Markers without segment; a second start of image is harmless.
            0x01 | 0xd0..=0xd8 => {}
            END_OF_IMAGE => {
                jpeg.complete = true;
                break;
            }
            _ => segment(marker, &mut reader, &mut jpeg)?,
        }
    }
    if jpeg.components == 0 || jpeg.scans == 0 {
        return Err(InspectError::Truncated);
    }
    Ok(jpeg)
}

/// Returns the code of the next marker; skips coded pixels and misplaced bytes before it.
fn next_marker(reader: &mut Reader<'_>) -> Option<u8> {
    loop {
        let found = reader.0.iter().position(|&byte| byte == 0xff)?;
        reader.0 = reader.0.get(found + 1..)?;
        match *reader.0.first()? {
            // A stuffed byte in coded pixels, or a fill byte.
            0 | 0xff => {}
            code => {
                reader.0 = &reader.0[1..];
                return Some(code);
            }
        }
    }
}

fn segment<'a>(marker: u8, reader: &mut Reader<'a>, jpeg: &mut Jpeg<'a>) -> Result<(), InspectError> {
    let length = usize::from(reader.u16_be()?);
    let data = reader.take(length.checked_sub(2).ok_or(InspectError::Malformed)?)?;
    match marker {
        0xc0 | 0xc1 => frame(data, Process::Sequential, jpeg)?,
        0xc2 => frame(data, Process::Progressive, jpeg)?,
        // Lossless, hierarchical and arithmetically coded frames, which browsers do not display either.
        0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => return Err(InspectError::Unsupported),
        START_OF_SCAN => jpeg.scans = jpeg.scans.saturating_add(1),
        0xe1 if jpeg.exif.is_none() => jpeg.exif = data.strip_prefix(EXIF),
        0xe2 => {
            if let Some([number, _count, part @ ..]) = data.strip_prefix(PROFILE) {
                jpeg.profile.push((*number, part));
            }
        }
        _ => {}
    }
    Ok(())
}

fn frame(data: &[u8], process: Process, jpeg: &mut Jpeg<'_>) -> Result<(), InspectError> {
    if jpeg.components != 0 {
        return Err(InspectError::Malformed);
    }
    let mut reader = Reader(data);
    let precision = reader.byte()?;
    if precision != 8 {
        return Err(InspectError::Unsupported);
    }
    jpeg.height = reader.u16_be()?;
    jpeg.width = reader.u16_be()?;
    jpeg.components = reader.byte()?;
    jpeg.process = process;
    match jpeg.components {
        1 | 3 | 4 => Ok(()),
        _ => Err(InspectError::Unsupported),
    }
}

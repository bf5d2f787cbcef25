//! GIF: screen, frames, loops.
use super::{Header, ImageFormat, InspectError, Plays, animation, reader::Reader};

/// Properties found in the blocks of a GIF.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gif {
    width: u32,
    height: u32,
    frames: u32,
    plays: Plays,
}

const EXTENSION: u8 = 0x21;
const IMAGE: u8 = 0x2c;
const TRAILER: u8 = 0x3b;
const APPLICATION: u8 = 0xff;

impl Gif {
    pub(super) fn header(self) -> Header {
        Header {
            format: ImageFormat::Gif,
            width: self.width,
            height: self.height,
            animation: animation(self.frames, self.plays),
        }
    }
}

pub(super) fn read(input: &[u8]) -> Result<Gif, InspectError> {
    let mut reader = Reader(input);
    reader.take(6)?;
    let mut gif = Gif {
        width: u32::from(reader.u16_le()?),
        height: u32::from(reader.u16_le()?),
        frames: 0,
        plays: Plays::Times(1),
    };
    let flags = reader.byte()?;
    reader.take(2 + colour_table(flags))?;
    loop {
        match reader.byte() {
            Ok(EXTENSION) => extension(&mut reader, &mut gif)?,
            Ok(IMAGE) => {
                image(&mut reader)?;
                gif.frames = gif.frames.saturating_add(1);
            }
            Ok(TRAILER) => break,
            // Many files lack the trailer, and browsers display them.
            Err(_) if gif.frames > 0 => break,
            Ok(_) if gif.frames > 0 => break,
            Ok(_) => return Err(InspectError::Malformed),
            Err(error) => return Err(error),
        }
    }
    if gif.frames == 0 {
        return Err(InspectError::Empty);
    }
    Ok(gif)
}

/// Returns the size in bytes of the colour table that these flags declare.
fn colour_table(flags: u8) -> usize {
    if flags & 0x80 == 0 {
        0
    } else {
        3 << ((flags & 7) + 1)
    }
}

fn image(reader: &mut Reader<'_>) -> Result<(), InspectError> {
    reader.take(8)?;
    let flags = reader.byte()?;
    // Colour table and code size.
    reader.take(colour_table(flags) + 1)?;
    while !sub_block(reader)?.is_empty() {}
    Ok(())
}

fn extension(reader: &mut Reader<'_>, gif: &mut Gif) -> Result<(), InspectError> {
    let label = reader.byte()?;
    let first = sub_block(reader)?;
    if first.is_empty() {
        return Ok(());
    }
    let loops = label == APPLICATION && matches!(first, b"NETSCAPE2.0" | b"ANIMEXTS1.0");
    loop {
        let block = sub_block(reader)?;
        match block {
            [] => return Ok(()),
            [1, low, high] if loops => {
                // Browsers repeat the animation this number of times after the first play.
                gif.plays = match u32::from(u16::from_le_bytes([*low, *high])) {
                    0 => Plays::Forever,
                    repeats => Plays::Times(repeats + 1),
                };
            }
            _ => {}
        }
    }
}

fn sub_block<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], InspectError> {
    let length = reader.byte()?;
    reader.take(usize::from(length))
}

//! WebP: the container and the three forms of its first chunk (RFC 9649 section 2).
use super::{Header, ImageFormat, InspectError, Plays, animation, reader::Reader};

const ANIMATED: u8 = 0x02;

pub(super) fn read(input: &[u8]) -> Result<Header, InspectError> {
    let mut reader = Reader(input);
    reader.take(4)?;
    let length = usize::try_from(reader.u32_le()?).map_err(|_| InspectError::Malformed)?;
    if length < 4 || length > reader.0.len() {
        return Err(InspectError::Truncated);
    }
    reader = Reader(reader.take(length)?);
    reader.take(4)?;
    let (name, data) = chunk(&mut reader)?;
    let mut data = Reader(data);
    let mut moves = None;
    let (width, height) = match &name {
        b"VP8 " => {
            // Frame tag, start code, two dimensions of 14 bits with a scale that WebP ignores (RFC 6386
            // section 9.1).
            data.take(6)?;
            let side = |number: u16| u32::from(number & 0x3fff);
            (side(data.u16_le()?), side(data.u16_le()?))
        }
        b"VP8L" => {
            data.take(1)?;
            let sides = data.u32_le()?;
            ((sides & 0x3fff) + 1, (sides >> 14 & 0x3fff) + 1)
        }
        b"VP8X" => {
            let flags = data.byte()?;
            data.take(3)?;
            if flags & ANIMATED != 0 {
                moves = frames(reader)?;
            }
            (data.u24_le()? + 1, data.u24_le()? + 1)
        }
        _ => return Err(InspectError::Malformed),
    };
    Ok(Header {
        format: ImageFormat::Webp,
        width,
        height,
        animation: moves,
    })
}

fn frames(mut reader: Reader<'_>) -> Result<Option<super::Animation>, InspectError> {
    let (mut frames, mut plays) = (0_u32, Plays::Forever);
    while !reader.0.is_empty() {
        let (name, data) = chunk(&mut reader)?;
        let mut data = Reader(data);
        match &name {
            b"ANIM" => {
                data.take(4)?;
                plays = match u32::from(data.u16_le()?) {
                    0 => Plays::Forever,
                    times => Plays::Times(times),
                };
            }
            b"ANMF" => frames = frames.saturating_add(1),
            _ => {}
        }
    }
    Ok(animation(frames, plays))
}

fn chunk<'a>(reader: &mut Reader<'a>) -> Result<([u8; 4], &'a [u8]), InspectError> {
    let name = reader.array()?;
    let length = usize::try_from(reader.u32_le()?).map_err(|_| InspectError::Malformed)?;
    let data = reader.take(length)?;
    // Chunks are padded to an even length; the padding of the last chunk may be missing.
    if length % 2 == 1 {
        let _padding = reader.byte();
    }
    Ok((name, data))
}

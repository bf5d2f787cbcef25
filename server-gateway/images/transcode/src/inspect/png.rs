//! PNG: the header and the animation control chunk.
use super::{Header, ImageFormat, InspectError, Plays, animation, reader::Reader};

pub(super) fn read(input: &[u8]) -> Result<Header, InspectError> {
    let mut reader = Reader(input);
    reader.take(8)?;
    let (name, header) = chunk(&mut reader)?;
    if &name != b"IHDR" {
        return Err(InspectError::Malformed);
    }
    let mut header = Reader(header);
    let (width, height) = (header.u32_be()?, header.u32_be()?);
    Ok(Header {
        format: ImageFormat::Png,
        width,
        height,
        animation: control(reader)?,
    })
}

/// Returns the animation of the `acTL` chunk, which precedes the pixels.
fn control(mut reader: Reader<'_>) -> Result<Option<super::Animation>, InspectError> {
    loop {
        let (name, data) = chunk(&mut reader)?;
        match &name {
            b"acTL" => {
                let mut data = Reader(data);
                let frames = data.u32_be()?;
                let plays = match data.u32_be()? {
                    0 => Plays::Forever,
                    times => Plays::Times(times),
                };
                return Ok(animation(frames, plays));
            }
            b"IDAT" | b"IEND" => return Ok(None),
            _ => {}
        }
    }
}

fn chunk<'a>(reader: &mut Reader<'a>) -> Result<([u8; 4], &'a [u8]), InspectError> {
    let length = reader.u32_be()?;
    let name = reader.array()?;
    let data = reader.take(usize::try_from(length).map_err(|_| InspectError::Malformed)?)?;
    // Only the decoder verifies the checksum.
    reader.take(4)?;
    Ok((name, data))
}

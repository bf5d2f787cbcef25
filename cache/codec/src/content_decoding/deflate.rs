//! The content coding `deflate`: a zlib stream (RFC 1950) by RFC 9110 section 8.4.1.2; some servers send raw
//! DEFLATE data (RFC 1951), as the name suggests.
use zlib_rs::{Inflate, InflateFlush, Status};

use crate::decompress::{Corrupt, Progress};

/// Decoder that distinguishes the two formats by their first two bytes.
pub(crate) struct Deflate {
    state: State,
}

enum State {
    /// The format is unknown; contains the first byte, if it has arrived.
    Unknown(Option<u8>),
    /// The decoder, the first two bytes, and the number of those still to be decoded.
    Data(Inflate, [u8; 2], usize),
    Ended,
}

impl Deflate {
    pub(crate) const fn new() -> Self {
        Self {
            state: State::Unknown(None),
        }
    }

    pub(crate) const fn ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        let mut read = 0;
        while let State::Unknown(first) = self.state {
            let Some(&byte) = input.get(read) else {
                return Ok(Progress { read, written: 0 });
            };
            read += 1;
            self.state = match first {
                None => State::Unknown(Some(byte)),
                Some(first) => {
                    let decoder = Inflate::new(is_zlib_header(first, byte), WINDOW_BITS);
                    State::Data(decoder, [first, byte], 2)
                }
            };
        }
        let State::Data(decoder, head, left) = &mut self.state else {
            return Ok(Progress {
                read: input.len(),
                written: 0,
            });
        };
        let mut written = 0;
        let mut done = false;
        if *left > 0 {
            let (progress, end) = inflate(decoder, &head[2 - *left..], output)?;
            *left -= progress.read;
            written = progress.written;
            done = end;
        }
        if *left == 0 && !done {
            let (progress, end) = inflate(decoder, &input[read..], &mut output[written..])?;
            read += progress.read;
            written += progress.written;
            done = end;
        }
        if done {
            self.state = State::Ended;
        }
        Ok(Progress { read, written })
    }
}

/// True if the two bytes are CMF and FLG of RFC 1950 section 2.2. No encoder starts raw DEFLATE data like this:
/// a low nibble of 8 announces a stored block with non-zero padding bits.
fn is_zlib_header(cmf: u8, flg: u8) -> bool {
    cmf & 0x0f == 8 && cmf >> 4 <= 7 && u16::from_be_bytes([cmf, flg]).is_multiple_of(31)
}

/// Size of the largest window of DEFLATE, as a power of two (RFC 1951 section 2).
pub(super) const WINDOW_BITS: u8 = 15;

/// One step of raw or zlib inflation; the flag is true at the end of the stream.
pub(super) fn inflate(
    decoder: &mut Inflate,
    input: &[u8],
    output: &mut [u8],
) -> Result<(Progress, bool), Corrupt> {
    let (read, written) = (decoder.total_in(), decoder.total_out());
    let status = decoder
        .decompress(input, output, InflateFlush::NoFlush)
        .map_err(|_| Corrupt)?;
    let progress = Progress {
        read: usize::try_from(decoder.total_in() - read).map_err(|_| Corrupt)?,
        written: usize::try_from(decoder.total_out() - written).map_err(|_| Corrupt)?,
    };
    Ok((progress, status == Status::StreamEnd))
}

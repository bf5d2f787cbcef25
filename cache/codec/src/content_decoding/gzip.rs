//! The gzip file format (RFC 1952), with multiple members.
use flate2::Crc;
use zlib_rs::Inflate;

use super::deflate::{WINDOW_BITS, inflate};
use crate::decompress::{Corrupt, Progress};

/// Position of the decoder in a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Before the first byte of a member.
    Start,
    /// In the ten fixed bytes of the header; the number of bytes read.
    Fixed(usize),
    ExtraLength(usize),
    Extra(usize),
    Name,
    Comment,
    HeaderCrc(usize),
    Data,
    Trailer(usize),
    /// After the last member: all further bytes are ignored.
    Garbage,
}

/// Decoder of consecutive gzip members.
///
/// Like `gzip` and browsers, it ignores bytes after a member that do not start another member (padding,
/// appended garbage).
pub(crate) struct Gzip {
    part: Part,
    inflate: Inflate,
    crc: Crc,
    members: u64,
    /// A member has another checksum or length than its trailer says, which browsers do not read.
    is_damaged: bool,
    flags: u8,
    field: [u8; 8],
}

const FHCRC: u8 = 2;
const FEXTRA: u8 = 4;
const FNAME: u8 = 8;
const FCOMMENT: u8 = 16;
const RESERVED: u8 = 0xe0;

impl Gzip {
    pub(crate) fn new() -> Self {
        Self {
            part: Part::Start,
            inflate: Inflate::new(false, WINDOW_BITS),
            crc: Crc::new(),
            members: 0,
            is_damaged: false,
            flags: 0,
            field: [0; 8],
        }
    }

    /// True if the input may end here, and all checksums are right.
    pub(crate) const fn ended(&self) -> bool {
        matches!(self.part, Part::Start | Part::Garbage) && !self.is_damaged
    }

    pub(crate) fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<Progress, Corrupt> {
        let (mut read, mut written) = (0, 0);
        loop {
            if self.part == Part::Data {
                let (progress, done) = inflate(&mut self.inflate, &input[read..], &mut output[written..])?;
                self.crc.update(&output[written..written + progress.written]);
                read += progress.read;
                written += progress.written;
                if !done {
                    return Ok(Progress { read, written });
                }
                self.part = Part::Trailer(0);
            }
            let Some(&byte) = input.get(read) else {
                return Ok(Progress { read, written });
            };
            read += 1;
            self.part = self.frame_byte(byte)?;
        }
    }

    /// Processes one byte of a header, a trailer, or data between members.
    fn frame_byte(&mut self, byte: u8) -> Result<Part, Corrupt> {
        match self.part {
            Part::Start if byte == MAGIC[0] => {
                self.field[0] = byte;
                Ok(Part::Fixed(1))
            }
            Part::Start if self.members == 0 => Err(Corrupt),
            Part::Start | Part::Garbage => Ok(Part::Garbage),
            Part::Fixed(at) => self.fixed_byte(byte, at),
            Part::ExtraLength(at) => {
                self.field[at] = byte;
                Ok(match at {
                    0 => Part::ExtraLength(1),
                    _ => match usize::from(u16::from_le_bytes([self.field[0], self.field[1]])) {
                        0 => self.after(FEXTRA),
                        length => Part::Extra(length),
                    },
                })
            }
            Part::Extra(1) => Ok(self.after(FEXTRA)),
            Part::Extra(left) => Ok(Part::Extra(left - 1)),
            Part::Name if byte == 0 => Ok(self.after(FNAME)),
            Part::Comment if byte == 0 => Ok(self.after(FCOMMENT)),
            Part::Name | Part::Comment => Ok(self.part),
            Part::HeaderCrc(0) => Ok(Part::HeaderCrc(1)),
            Part::HeaderCrc(_) => Ok(self.after(FHCRC)),
            Part::Trailer(at) => Ok(self.trailer_byte(byte, at)),
            Part::Data => Err(Corrupt),
        }
    }

    fn fixed_byte(&mut self, byte: u8, at: usize) -> Result<Part, Corrupt> {
        match at {
            1 if byte != MAGIC[1] => {
                return if self.members == 0 {
                    Err(Corrupt)
                } else {
                    Ok(Part::Garbage)
                };
            }
            2 if byte != METHOD_DEFLATE => return Err(Corrupt),
            3 if byte & RESERVED != 0 => return Err(Corrupt),
            3 => self.flags = byte,
            _ => {}
        }
        Ok(if at == 9 {
            self.inflate.reset(false);
            self.crc.reset();
            self.after(0)
        } else {
            Part::Fixed(at + 1)
        })
    }

    /// The part after the optional header field `field`; 0 stands for the fixed bytes.
    const fn after(&self, field: u8) -> Part {
        if field < FEXTRA && field != FHCRC && self.flags & FEXTRA != 0 {
            Part::ExtraLength(0)
        } else if field < FNAME && field != FHCRC && self.flags & FNAME != 0 {
            Part::Name
        } else if field < FCOMMENT && field != FHCRC && self.flags & FCOMMENT != 0 {
            Part::Comment
        } else if field != FHCRC && self.flags & FHCRC != 0 {
            Part::HeaderCrc(0)
        } else {
            Part::Data
        }
    }

    fn trailer_byte(&mut self, byte: u8, at: usize) -> Part {
        self.field[at] = byte;
        if at < 7 {
            return Part::Trailer(at + 1);
        }
        let [a, b, c, d, e, f, g, h] = self.field;
        let sum = u32::from_le_bytes([a, b, c, d]);
        let length = u32::from_le_bytes([e, f, g, h]);
        // ISIZE is the length modulo 2^32, as is `amount`.
        self.is_damaged |= sum != self.crc.sum() || length != self.crc.amount();
        self.members += 1;
        Part::Start
    }
}

const MAGIC: [u8; 2] = [0x1f, 0x8b];
const METHOD_DEFLATE: u8 = 8;

//! The chunked transfer coding of requests (RFC 9112 section 7.1), read strictly: what other parsers read
//! differently is an error.
use bytes::{Buf as _, Bytes, BytesMut};

/// Maximum length of a chunk's line with its extensions, and of a trailer line.
const MAX_LINE: usize = 1024;
/// Maximum number of trailer lines, which are not forwarded.
const MAX_TRAILERS: usize = 64;
/// Maximum digits of a chunk's size.
const MAX_DIGITS: usize = 15;

/// Decoder of one body.
#[derive(Clone, Copy, Debug)]
pub struct ChunkedDecoder(State);

#[derive(Clone, Copy, Debug)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers(usize),
    End,
}

/// The next piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChunkEvent {
    /// Bytes of the body.
    Data(Bytes),
    /// More input is needed.
    NeedInput,
    /// The body is complete.
    End,
}

/// A body that is not valid in the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request's body is not valid in the chunked coding")]
pub struct BadChunk;

impl Default for ChunkedDecoder {
    fn default() -> Self {
        Self(State::Size)
    }
}

impl ChunkedDecoder {
    /// Takes the next piece from the beginning of the buffer.
    ///
    /// # Errors
    /// The body is malformed.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<ChunkEvent, BadChunk> {
        loop {
            match self.0 {
                State::Size => {
                    let Some(line) = take_line(buffer)? else {
                        return Ok(ChunkEvent::NeedInput);
                    };
                    self.0 = match size(&line)? {
                        0 => State::Trailers(0),
                        size => State::Data(size),
                    };
                }
                State::Data(left) => {
                    if buffer.is_empty() {
                        return Ok(ChunkEvent::NeedInput);
                    }
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
                    self.0 = match left - count as u64 {
                        0 => State::DataEnd,
                        left => State::Data(left),
                    };
                    return Ok(ChunkEvent::Data(buffer.split_to(count).freeze()));
                }
                State::DataEnd => match &buffer[..] {
                    [b'\r', b'\n', ..] => {
                        buffer.advance(2);
                        self.0 = State::Size;
                    }
                    [] | [b'\r'] => return Ok(ChunkEvent::NeedInput),
                    _ => return Err(BadChunk),
                },
                State::Trailers(count) => {
                    let Some(line) = take_line(buffer)? else {
                        return Ok(ChunkEvent::NeedInput);
                    };
                    if count >= MAX_TRAILERS {
                        return Err(BadChunk);
                    }
                    self.0 = if line.is_empty() {
                        State::End
                    } else {
                        State::Trailers(count + 1)
                    };
                }
                State::End => return Ok(ChunkEvent::End),
            }
        }
    }
}

/// Takes a line without its end, which is CR LF; `None` if it is incomplete.
fn take_line(buffer: &mut BytesMut) -> Result<Option<Bytes>, BadChunk> {
    let Some(end) = buffer.iter().position(|byte| *byte == b'\n') else {
        // The CR of a line of the maximum length may be there already.
        return if buffer.len() > MAX_LINE + 1 {
            Err(BadChunk)
        } else {
            Ok(None)
        };
    };
    let line = buffer.split_to(end + 1).freeze();
    let line = line
        .strip_suffix(b"\r\n")
        .map(|inner| line.slice_ref(inner))
        .ok_or(BadChunk)?;
    let is_text = line
        .iter()
        .all(|byte| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f));
    if line.len() > MAX_LINE || !is_text {
        return Err(BadChunk);
    }
    Ok(Some(line))
}

/// Size of a chunk. Extensions are ignored.
fn size(line: &[u8]) -> Result<u64, BadChunk> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let is_number = (1..=MAX_DIGITS).contains(&digits.len()) && digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).map_err(|_| BadChunk)?;
    if is_number {
        u64::from_str_radix(text, 16).map_err(|_| BadChunk)
    } else {
        Err(BadChunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A body, and what follows it.
    type Decoded = (Vec<u8>, Vec<u8>);

    /// Decodes a body that arrives in pieces of `step` bytes; returns the body and what follows it.
    fn decode(wire: &[u8], step: usize) -> Result<Option<Decoded>, BadChunk> {
        let (mut decoder, mut buffer, mut body) = (ChunkedDecoder::default(), BytesMut::new(), Vec::new());
        let mut input = wire.chunks(step);
        loop {
            match decoder.next(&mut buffer)? {
                ChunkEvent::Data(bytes) => body.extend_from_slice(&bytes),
                ChunkEvent::End => {
                    let rest = input.flatten().copied();
                    return Ok(Some((body, buffer.iter().copied().chain(rest).collect())));
                }
                ChunkEvent::NeedInput => match input.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok(None),
                },
            }
        }
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        let wire = b"5\r\nhello\r\n00A;name=\"value\"\r\n, 10 bytes\r\n0\r\nX-Trailer: 1\r\n\r\nGET";
        for step in [1, 2, 3, 7, wire.len()] {
            let (body, rest) = decode(wire, step).unwrap().unwrap();
            assert_eq!(
                (&body[..], &rest[..]),
                (&b"hello, 10 bytes"[..], &b"GET"[..]),
                "{step}"
            );
        }
    }

    #[test]
    fn bodies_that_other_parsers_read_differently_are_refused() {
        for wire in [
            &b"\r\n"[..],
            b"5\nhello\r\n0\r\n\r\n",
            b" 5\r\nhello\r\n",
            b"5 \r\nhello\r\n",
            b"+5\r\nhello\r\n",
            b"-1\r\n",
            b"0x5\r\nhello\r\n",
            b"5_0\r\n",
            b"g\r\n",
            b"fffffffffffffffff\r\n",
            b"10000000000000005\r\nhello\r\n",
            b"5\r\nhelloX\r\n0\r\n\r\n",
            b"5\r\nhello\n0\r\n\r\n",
            b"5;a=\rb\r\nhello\r\n",
            b"5\x0b\r\nhello\r\n",
            b";\r\n",
            b"0\r\nTrailer: 1\n\r\n",
        ] {
            assert_eq!(decode(wire, wire.len()), Err(BadChunk), "{}", wire.escape_ascii());
        }
        let endless = [b"1;".as_slice(), &[b'a'; 2000]].concat();
        assert_eq!(decode(&endless, 100), Err(BadChunk));
        let trailers = [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(100)].concat();
        assert_eq!(decode(&trailers, 100), Err(BadChunk));
    }

    #[test]
    fn lines_have_at_most_1024_bytes() {
        let chunk = |length: usize| {
            let extension = vec![b'a'; length - 2];
            [b"5;".as_slice(), &extension, b"\r\nhello\r\n0\r\n\r\n"].concat()
        };
        // A line that arrives a byte at a time is known without its end, and one that arrives as a whole with it.
        for step in [1, 2000] {
            let (body, _) = decode(&chunk(1024), step).unwrap().unwrap();
            assert_eq!(body, b"hello", "{step}");
            assert_eq!(decode(&chunk(1025), step), Err(BadChunk), "{step}");
        }
        let line = &chunk(1025)[..];
        assert_eq!(decode(&line[..1024], 1), Ok(None));
        assert_eq!(decode(&[&line[..1025], b"a"].concat(), 1), Err(BadChunk));
    }

    #[test]
    fn a_body_has_at_most_64_trailers() {
        let body = |trailers| [b"0\r\n".as_slice(), &b"a: b\r\n".repeat(trailers), b"\r\nGET"].concat();
        let (decoded, rest) = decode(&body(63), 1000).unwrap().unwrap();
        assert_eq!((&decoded[..], &rest[..]), (&b""[..], &b"GET"[..]));
        assert_eq!(decode(&body(65), 1000), Err(BadChunk));
    }
}

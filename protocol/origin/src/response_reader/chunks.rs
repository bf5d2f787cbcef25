//! The chunked transfer coding (RFC 9112 section 7.1): read as Chromium reads it, written as the RFC demands.
use bytes::{Buf as _, BufMut as _, BytesMut};

use super::head::{field_of_trailer, is_control};

/// Maximum length of a line with a size or a trailer, as in Chromium.
const MAX_LINE: usize = 16 * 1024;
/// Maximum size of the trailers that are sent on, below what hyper accepts; further ones are skipped.
const MAX_TRAILERS: usize = 8 * 1024;

/// The chunks of a body are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chunks of the response are malformed")]
pub(crate) struct ChunkError;

/// Reads the chunks of one body.
#[derive(Debug, Default)]
pub(crate) struct ChunkReader {
    state: State,
    /// Bytes of the trailers so far.
    trailers: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The line with the size of the next chunk.
    #[default]
    Size,
    /// This number of bytes of the chunk.
    Data(u64),
    /// The line end behind the bytes of a chunk.
    LineEnd,
    Trailers,
    Ended,
}

impl ChunkReader {
    /// True after the end of the body.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Moves what is complete from `raw` to `out`. The bytes after the end stay in `raw`.
    ///
    /// # Errors
    /// The chunks are malformed.
    pub(crate) fn read(&mut self, raw: &mut BytesMut, out: &mut BytesMut) -> Result<(), ChunkError> {
        loop {
            match self.state {
                State::Ended => return Ok(()),
                State::Data(left) => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(raw.len());
                    if length == 0 {
                        return Ok(());
                    }
                    out.put_slice(format!("{length:x}\r\n").as_bytes());
                    out.put_slice(&raw[..length]);
                    out.put_slice(b"\r\n");
                    raw.advance(length);
                    self.state = match left - length as u64 {
                        0 => State::LineEnd,
                        left => State::Data(left),
                    };
                }
                State::Size | State::LineEnd | State::Trailers => {
                    let Some(line) = take_line(raw)? else {
                        return Ok(());
                    };
                    self.line(&line, out)?;
                }
            }
        }
    }

    fn line(&mut self, line: &[u8], out: &mut BytesMut) -> Result<(), ChunkError> {
        match (self.state, line) {
            (State::Size, line) => {
                self.state = match size(line)? {
                    0 => {
                        out.put_slice(b"0\r\n");
                        State::Trailers
                    }
                    size => State::Data(size),
                };
            }
            (State::LineEnd, []) => self.state = State::Size,
            (State::LineEnd, _) => return Err(ChunkError),
            (State::Trailers, []) => {
                out.put_slice(b"\r\n");
                self.state = State::Ended;
            }
            (State::Trailers, line) => self.trailer(line, out),
            (State::Data(_) | State::Ended, _) => {}
        }
        Ok(())
    }

    fn trailer(&mut self, line: &[u8], out: &mut BytesMut) {
        let Some((name, value)) = field_of_trailer(line) else {
            return;
        };
        let length = name.len() + value.len() + b": \r\n".len();
        if self.trailers + length > MAX_TRAILERS || value.iter().any(|byte| is_control(*byte)) {
            return;
        }
        self.trailers += length;
        for part in [name, b": ", value, b"\r\n"] {
            out.put_slice(part);
        }
    }
}

/// Takes a line without its end, CR LF or a bare LF; `None` if it is not complete.
fn take_line(raw: &mut BytesMut) -> Result<Option<BytesMut>, ChunkError> {
    let Some(end) = raw.iter().take(MAX_LINE + 1).position(|byte| *byte == b'\n') else {
        return if raw.len() > MAX_LINE {
            Err(ChunkError)
        } else {
            Ok(None)
        };
    };
    let mut line = raw.split_to(end + 1);
    line.truncate(end);
    if line.ends_with(b"\r") {
        line.truncate(end - 1);
    }
    Ok(Some(line))
}

/// Reads a size. Extensions are ignored; some servers pad the size with spaces.
fn size(line: &[u8]) -> Result<u64, ChunkError> {
    let size = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let digits = size.trim_ascii_end();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(ChunkError);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| ChunkError)?;
    let size = i64::from_str_radix(digits, 16).map_err(|_| ChunkError)?;
    u64::try_from(size).map_err(|_| ChunkError)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a body whose bytes arrive in pieces of this length; returns what is written and what is left.
    fn read(body: &[u8], piece: usize) -> Result<(Vec<u8>, Vec<u8>, bool), ChunkError> {
        let mut reader = ChunkReader::default();
        let (mut raw, mut out) = (BytesMut::new(), BytesMut::new());
        for piece in body.chunks(piece) {
            raw.put_slice(piece);
            reader.read(&mut raw, &mut out)?;
        }
        Ok((out.to_vec(), raw.to_vec(), reader.has_ended()))
    }

    /// The content of strict chunks.
    fn content(mut chunks: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        loop {
            let end = chunks.windows(2).position(|window| window == b"\r\n").unwrap();
            let size = usize::from_str_radix(std::str::from_utf8(&chunks[..end]).unwrap(), 16).unwrap();
            if size == 0 {
                return content;
            }
            content.extend(&chunks[end + 2..end + 2 + size]);
            assert_eq!(&chunks[end + 2 + size..end + 4 + size], b"\r\n");
            chunks = &chunks[end + 4 + size..];
        }
    }

    #[test]
    fn odd_chunks_have_the_content_that_browsers_see() {
        for body in [
            "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            "5\nhello\n6\n world\n0\n\n",
            "005\r\nhello\r\n6   \r\n world\r\n000\r\n\r\n",
            "5;a=b\r\nhello\r\n6 ; c=\"d\"\r\n world\r\n0;e\r\n\r\n",
            "5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\nno trailer\r\n: x\r\n\r\n",
        ] {
            for piece in 1..=body.len() {
                let (out, left, has_ended) = read(body.as_bytes(), piece).unwrap();
                assert!(has_ended && left.is_empty(), "{body:?}");
                assert_eq!(content(&out), b"hello world", "{body:?} in pieces of {piece}");
                assert!(out.ends_with(b"\r\n\r\n"));
            }
        }
    }

    #[test]
    fn bytes_after_the_end_stay() {
        let (out, left, has_ended) = read(b"1\r\na\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", 100).unwrap();
        assert_eq!(out, b"1\r\na\r\n0\r\n\r\n");
        assert_eq!(left, b"HTTP/1.1 200 OK\r\n\r\n");
        assert!(has_ended);
    }

    #[test]
    fn trailers_are_well_formed_and_few() {
        let long = format!("X-Long: {}\r\n", "y".repeat(MAX_TRAILERS));
        let body = format!("0\r\nA: 1\r\n{long}B : 2\r\nC: \x01\r\nContent-Length: 5\r\nD:3\r\n\r\n");
        let (out, ..) = read(body.as_bytes(), 7).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "0\r\nA: 1\r\nB: 2\r\nD: 3\r\n\r\n"
        );
    }

    #[test]
    fn trailers_fit_up_to_their_limit_together() {
        let trailer = |length: usize| format!("A: {}\r\n", "y".repeat(length - b"A: \r\n".len()));
        let eighths = trailer(MAX_TRAILERS / 8).repeat(8);
        for (sent, written) in [
            (trailer(MAX_TRAILERS), trailer(MAX_TRAILERS)),
            (trailer(MAX_TRAILERS + 1), String::new()),
            (eighths.clone(), eighths.clone()),
            (format!("{eighths}B:\r\n"), eighths.clone()),
            (
                format!("{}{eighths}", trailer(6)),
                trailer(6) + &trailer(MAX_TRAILERS / 8).repeat(7),
            ),
        ] {
            let (out, _, has_ended) = read(format!("0\r\n{sent}\r\n").as_bytes(), 1000).unwrap();
            assert!(has_ended);
            assert_eq!(String::from_utf8(out).unwrap(), format!("0\r\n{written}\r\n"));
        }
    }

    #[test]
    fn lines_fit_up_to_their_limit_in_pieces_of_any_length() {
        let line = |length: usize| format!("0;{}", "x".repeat(length - 2));
        for piece in [1000, MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE] {
            for end in ["\n", "\r\n"] {
                let longest = line(MAX_LINE + 1 - end.len());
                let (out, left, has_ended) = read(format!("{longest}{end}\r\n").as_bytes(), piece).unwrap();
                assert!(has_ended && left.is_empty(), "{piece}");
                assert_eq!(out, b"0\r\n\r\n");
                let longer = format!("{}{end}\r\n", line(MAX_LINE + 2 - end.len()));
                assert_eq!(read(longer.as_bytes(), piece), Err(ChunkError), "{piece}");
            }
        }
    }

    #[test]
    fn malformed_chunks_are_errors() {
        for body in [
            "\r\nhello",
            "+5\r\nhello\r\n",
            "-5\r\nhello\r\n",
            "0x5\r\nhello\r\n",
            " 5\r\nhello\r\n",
            "5,\r\nhello\r\n",
            "5\r\nhello!\r\n0\r\n\r\n",
            "8000000000000000\r\n",
            "zz\r\n",
        ] {
            for piece in [1, 100] {
                assert_eq!(read(body.as_bytes(), piece), Err(ChunkError), "{body:?}");
            }
        }
        let endless = "1".repeat(MAX_LINE + 2);
        assert_eq!(read(endless.as_bytes(), 1000), Err(ChunkError));
    }

    #[test]
    fn an_early_end_is_no_end() {
        for body in [
            "5\r\nhel",
            "5\r\nhello\r\n",
            "5\r\nhello\r\n0\r\n",
            "5\r\nhello\r\n0\r\nA: 1\r\n",
        ] {
            let (_, _, has_ended) = read(body.as_bytes(), 3).unwrap();
            assert!(!has_ended, "{body:?}");
        }
    }
}

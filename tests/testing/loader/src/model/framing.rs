//! Parser of HTTP/1 responses (RFC 9112). It tolerates the same deviations as browsers.
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// Maximum length of a response's header section with its status line; Chromium's limit.
const MAX_HEAD: usize = 256 * 1024;
/// Maximum number of header lines of a response; recorded responses have up to about 60.
const MAX_HEADERS: usize = 256;
/// Maximum length of the line before a chunk, including extensions, which are not in use.
const MAX_CHUNK_LINE: usize = 4096;
/// Maximum length of the trailers of a chunked body.
const MAX_TRAILERS: usize = 64 * 1024;
/// Maximum number of interim responses (1xx) before a final response.
const MAX_INTERIM: usize = 16;

/// Parts of a response, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The head of a final response.
    Head(Head),
    /// A part of its body, never empty.
    Data(Bytes),
    /// The response is complete.
    End,
}

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
}

/// Errors of invalid or truncated responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FramingError {
    #[error("the response is not HTTP/1")]
    Malformed,
    #[error("the response's head or trailer is too large")]
    HeadTooLarge,
    #[error("the response's Content-Length is invalid")]
    ContentLength,
    #[error("the response's chunked coding is invalid")]
    Chunk,
    #[error("the connection was closed before the response's end")]
    Truncated,
    #[error("the server switched protocols without a request")]
    Upgrade,
}

/// Parser of the responses on one connection.
#[derive(Debug, Default)]
pub(super) struct ResponseDecoder {
    buffer: BytesMut,
    state: State,
    interim: usize,
    /// True if another response may follow the current one.
    keep_alive: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Number of remaining bytes of the body.
    Length(u64),
    UntilClose,
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailers,
}

impl ResponseDecoder {
    /// Buffer for received bytes.
    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns true if a response has begun (including an incomplete head).
    pub(super) fn mid_response(&self) -> bool {
        self.state != State::Head || !self.buffer.is_empty() || self.interim > 0
    }

    /// After [`Part::End`]: returns true if the server keeps the connection open.
    pub(super) fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Returns the next part, or `None` if more bytes are needed. Call it until it returns `None` after each
    /// read.
    pub(super) fn next(&mut self) -> Result<Option<Part>, FramingError> {
        loop {
            match self.state {
                State::Head => match self.head()? {
                    Some(head) => return Ok(Some(Part::Head(head))),
                    None => return Ok(None),
                },
                State::Length(0) => return Ok(Some(self.end())),
                State::Length(left) => {
                    let data = self.data(left);
                    if let Some(data) = &data {
                        self.state = State::Length(left - length(data));
                    }
                    return Ok(data.map(Part::Data));
                }
                State::UntilClose => return Ok(self.data(u64::MAX).map(Part::Data)),
                State::ChunkData(0) => self.state = State::ChunkEnd,
                State::ChunkData(left) => {
                    let data = self.data(left);
                    if let Some(data) = &data {
                        self.state = State::ChunkData(left - length(data));
                    }
                    return Ok(data.map(Part::Data));
                }
                State::ChunkEnd => match self.line(MAX_CHUNK_LINE, FramingError::Chunk)? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => self.state = State::ChunkSize,
                    Some(_) => return Err(FramingError::Chunk),
                },
                State::ChunkSize => match self.line(MAX_CHUNK_LINE, FramingError::Chunk)? {
                    None => return Ok(None),
                    Some(line) => {
                        self.state = match chunk_size(&line)? {
                            0 => State::Trailers,
                            size => State::ChunkData(size),
                        }
                    }
                },
                State::Trailers => match self.line(MAX_TRAILERS, FramingError::HeadTooLarge)? {
                    None => return Ok(None),
                    Some(line) if line.is_empty() => return Ok(Some(self.end())),
                    Some(_) => {}
                },
            }
        }
    }

    /// Ends a body that lasts until the end of the connection, after the peer has closed it.
    pub(super) fn close(&mut self) -> Result<Option<Part>, FramingError> {
        self.keep_alive = false;
        if self.state == State::UntilClose {
            Ok(Some(self.end()))
        } else if self.mid_response() {
            Err(FramingError::Truncated)
        } else {
            Ok(None)
        }
    }

    fn end(&mut self) -> Part {
        self.state = State::Head;
        self.interim = 0;
        Part::End
    }

    fn head(&mut self) -> Result<Option<Head>, FramingError> {
        loop {
            // Empty lines before a status line are a common error (RFC 9112 section 2.2).
            while matches!(self.buffer.first(), Some(b'\r' | b'\n')) {
                self.buffer.advance(1);
            }
            if self.buffer.is_empty() {
                return Ok(None);
            }
            let Some((length, version, head)) = parse_head(&self.buffer)? else {
                return if self.buffer.len() > MAX_HEAD {
                    Err(FramingError::HeadTooLarge)
                } else {
                    Ok(None)
                };
            };
            if length > MAX_HEAD {
                return Err(FramingError::HeadTooLarge);
            }
            self.buffer.advance(length);
            if head.status == StatusCode::SWITCHING_PROTOCOLS {
                return Err(FramingError::Upgrade);
            }
            if head.status.is_informational() {
                self.interim += 1;
                if self.interim > MAX_INTERIM {
                    return Err(FramingError::Malformed);
                }
                continue;
            }
            self.frame(version, &head)?;
            return Ok(Some(head));
        }
    }

    /// Determines the end of the body (RFC 9112 section 6.3) and the persistence of the connection (section
    /// 9.3).
    fn frame(&mut self, version: u8, head: &Head) -> Result<(), FramingError> {
        let connection = tokens(&head.headers, &header::CONNECTION);
        let has_token = |token: &str| connection.iter().any(|found| found == token);
        self.keep_alive = !has_token("close") && (version >= 1 || has_token("keep-alive"));
        let codings = tokens(&head.headers, &header::TRANSFER_ENCODING);
        self.state = if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            State::Length(0)
        } else if let Some(last) = codings.last() {
            if last == "chunked" {
                State::ChunkSize
            } else {
                State::UntilClose
            }
        } else {
            match content_length(&head.headers)? {
                Some(length) => State::Length(length),
                None => State::UntilClose,
            }
        };
        self.keep_alive &= self.state != State::UntilClose;
        Ok(())
    }

    fn data(&mut self, most: u64) -> Option<Bytes> {
        if self.buffer.is_empty() {
            return None;
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Some(self.buffer.split_to(self.buffer.len().min(most)).freeze())
    }

    /// Returns the next line without its end.
    fn line(&mut self, limit: usize, error: FramingError) -> Result<Option<Bytes>, FramingError> {
        let Some(at) = self.buffer.iter().position(|&byte| byte == b'\n') else {
            return if self.buffer.len() > limit {
                Err(error)
            } else {
                Ok(None)
            };
        };
        if at > limit {
            return Err(error);
        }
        let mut line = self.buffer.split_to(at + 1);
        line.truncate(if at > 0 && line[at - 1] == b'\r' {
            at - 1
        } else {
            at
        });
        Ok(Some(line.freeze()))
    }
}

fn length(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// Parses a head at the start of `bytes`: its length, minor version and content; `None` if it is incomplete.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, u8, Head)>, FramingError> {
    let mut config = httparse::ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .ignore_invalid_headers_in_responses(true);
    let mut fields = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut fields);
    let length = match config.parse_response(&mut response, bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err(FramingError::HeadTooLarge),
        Err(_) => return Err(FramingError::Malformed),
    };
    let status = response.code.and_then(|code| StatusCode::from_u16(code).ok());
    let (Some(status), Some(version)) = (status, response.version) else {
        return Err(FramingError::Malformed);
    };
    let mut headers = HeaderMap::new();
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(field.value)) {
            headers.append(name, value);
        }
    }
    Ok(Some((length, version, Head { status, headers })))
}

/// Returns the tokens of a list field, in lower case.
fn tokens(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let values = headers.get_all(name).iter();
    values
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(|token| String::from_utf8_lossy(token).trim().to_ascii_lowercase())
        .filter(|token| !token.is_empty())
        .collect()
}

/// Returns the length; contradictory values are an error.
fn content_length(headers: &HeaderMap) -> Result<Option<u64>, FramingError> {
    let mut length = None;
    for token in tokens(headers, &header::CONTENT_LENGTH) {
        let digits = token.bytes().all(|byte| byte.is_ascii_digit());
        let value: u64 = token.parse().map_err(|_| FramingError::ContentLength)?;
        if !digits || length.is_some_and(|length| length != value) {
            return Err(FramingError::ContentLength);
        }
        length = Some(value);
    }
    Ok(length)
}

fn chunk_size(line: &[u8]) -> Result<u64, FramingError> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
    let digits = digits.trim_ascii();
    let text = std::str::from_utf8(digits).map_err(|_| FramingError::Chunk)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(FramingError::Chunk);
    }
    u64::from_str_radix(text, 16).map_err(|_| FramingError::Chunk)
}

#[cfg(test)]
#[path = "framing_tests.rs"]
mod tests;

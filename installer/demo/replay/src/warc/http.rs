//! The HTTP response inside a `response` record.
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// Maximum number of header lines of one response; recorders keep those of the origin, and no origin sends
/// this many.
const MAX_FIELDS: usize = 512;

/// A response as recorded: the body with its content coding, without transfer coding.
#[derive(Clone, Debug)]
pub struct RecordedResponse {
    /// Status.
    pub status: StatusCode,
    /// Header fields in recorded order, without those that belong to the recorded connection.
    pub headers: HeaderMap,
    /// The body as stored.
    pub body: Bytes,
}

/// Errors of parsing a recorded response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseResponseError {
    /// There is no `HTTP/x status` line.
    #[error("the recorded response has no valid status line")]
    StatusLine,
    /// There is no empty line after the header.
    #[error("the header of the recorded response has no end")]
    HeaderEnd,
    /// There are too many header lines.
    #[error("the recorded response has more than {MAX_FIELDS} header lines")]
    TooManyFields,
    /// The chunks of a chunked body are damaged.
    #[error("the recorded response has a damaged chunked body")]
    Chunk,
}

impl RecordedResponse {
    /// Parses the block of a `response` record (RFC 9112).
    ///
    /// Header lines that HTTP does not allow are omitted, as in browsers.
    ///
    /// # Errors
    /// The block is not an HTTP response.
    pub fn parse(block: &[u8]) -> Result<Self, ParseResponseError> {
        let (head, body) = split_head(block).ok_or(ParseResponseError::HeaderEnd)?;
        let mut lines = head.split(|&byte| byte == b'\n').map(trim);
        let status = lines
            .next()
            .and_then(status_of)
            .ok_or(ParseResponseError::StatusLine)?;
        let mut headers = HeaderMap::new();
        for (count, line) in lines.enumerate() {
            if count >= MAX_FIELDS {
                return Err(ParseResponseError::TooManyFields);
            }
            let Some(colon) = line.iter().position(|&byte| byte == b':') else {
                continue;
            };
            let name = HeaderName::from_bytes(trim(&line[..colon]));
            let value = HeaderValue::from_bytes(trim(&line[colon + 1..]));
            if let (Ok(name), Ok(value)) = (name, value) {
                headers.append(name, value);
            }
        }
        let chunked = headers
            .get(header::TRANSFER_ENCODING)
            .is_some_and(|coding| coding.as_bytes().to_ascii_lowercase().ends_with(b"chunked"));
        let body = if chunked { dechunk(body)? } else { body.to_vec() };
        drop_connection_fields(&mut headers);
        Ok(Self {
            status,
            headers,
            body: Bytes::from(body),
        })
    }

    /// Returns the media type of the body in lower case, without parameters.
    pub fn media_type(&self) -> String {
        let value = self
            .headers
            .get(header::CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default();
        String::from_utf8_lossy(trim(essence)).to_ascii_lowercase()
    }
}

/// Removes the fields that describe the recorded connection (RFC 9110 section 7.6.1), the length, which is
/// set again, and `Alt-Svc`, which would make a browser bypass the replay.
fn drop_connection_fields(headers: &mut HeaderMap) {
    let listed: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in &listed {
        headers.remove(name);
    }
    for name in [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "alt-svc",
    ] {
        headers.remove(name);
    }
}

fn split_head(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut start = 0;
    loop {
        let end = start + block.get(start..)?.iter().position(|&byte| byte == b'\n')?;
        if trim(&block[start..end]).is_empty() && start > 0 {
            return Some((&block[..start], &block[end + 1..]));
        }
        start = end + 1;
    }
}

fn status_of(line: &[u8]) -> Option<StatusCode> {
    let rest = line.strip_prefix(b"HTTP/")?;
    let mut words = rest
        .split(|&byte| byte == b' ')
        .skip(1)
        .filter(|word| !word.is_empty());
    StatusCode::from_bytes(words.next()?).ok()
}

fn dechunk(mut input: &[u8]) -> Result<Vec<u8>, ParseResponseError> {
    let mut body = Vec::with_capacity(input.len());
    loop {
        let end = input
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or(ParseResponseError::Chunk)?;
        let size = input[..end]
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default();
        let size = std::str::from_utf8(trim(size)).map_err(|_| ParseResponseError::Chunk)?;
        let size = usize::from_str_radix(size, 16).map_err(|_| ParseResponseError::Chunk)?;
        if size == 0 {
            return Ok(body);
        }
        let rest = &input[end + 1..];
        body.extend_from_slice(rest.get(..size).ok_or(ParseResponseError::Chunk)?);
        let rest = &rest[size..];
        let line_end = rest
            .iter()
            .position(|&byte| byte == b'\n')
            .ok_or(ParseResponseError::Chunk)?;
        input = &rest[line_end + 1..];
    }
}

fn trim(bytes: &[u8]) -> &[u8] {
    bytes.trim_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_drops_the_connections_fields() {
        let block = b"HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=x\r\nbad name: 1\r\nSet-Cookie: a=1\r\n\
            Set-Cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nContent-Length: 9\r\n\r\nbody\r\n\r\nx";
        let response = RecordedResponse::parse(block).unwrap();
        assert_eq!(response.status, 200);
        assert_eq!(response.media_type(), "text/html");
        assert_eq!(response.headers.get_all("set-cookie").iter().count(), 2);
        for gone in ["connection", "x-hop", "content-length"] {
            assert!(!response.headers.contains_key(gone), "{gone}");
        }
        assert_eq!(&response.body[..], b"body\r\n\r\nx");
    }

    #[test]
    fn chunked_bodies_are_joined() {
        let block =
            b"HTTP/1.1 200 OK\nTransfer-Encoding: gzip, chunked\n\n3\nabc\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(
            &RecordedResponse::parse(block).unwrap().body[..],
            b"abc0123456789"
        );
        let cut = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\nabc";
        assert_eq!(
            RecordedResponse::parse(cut).unwrap_err(),
            ParseResponseError::Chunk
        );
    }

    #[test]
    fn other_blocks_are_refused() {
        for (block, error) in [
            (&b""[..], ParseResponseError::HeaderEnd),
            (b"GET / HTTP/1.1\r\n\r\n", ParseResponseError::StatusLine),
            (b"HTTP/1.1 OK\r\n\r\n", ParseResponseError::StatusLine),
            (b"HTTP/1.1 200 OK\r\nA: b\r\n", ParseResponseError::HeaderEnd),
        ] {
            assert_eq!(RecordedResponse::parse(block).unwrap_err(), error);
        }
    }
}

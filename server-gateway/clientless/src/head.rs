//! Reads request heads from the bytes of a connection, and rejects those that two parsers could read differently
//! (request smuggling).
use bytes::{Buf as _, Bytes, BytesMut};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version,
    header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING},
    uri::Authority,
};
use longhaul_http::{
    framing::{self, BodyLength, FramingError},
    limits::HeaderLimits,
    list::members,
    target::{self, Scheme, Target, TargetError},
    target_encoder::TargetEncoder,
    url_credentials,
};

#[cfg(test)]
mod tests;

/// Maximum size of a head: the limits of target and fields together.
const MAX_HEAD: usize = 96 * 1024;
/// Maximum number of fields, as [`HeaderLimits`] has it.
const MAX_FIELDS: usize = 256;
/// Empty lines before a request line that are ignored (RFC 9112 section 2.2 recommends one).
const MAX_EMPTY_LINES: usize = 4;
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// A checked request head.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The target.
    pub target: RequestTarget,
    /// HTTP/1.0, HTTP/1.1 or HTTP/2.
    pub version: Version,
    /// The fields.
    pub headers: HeaderMap,
    /// Length of the body.
    pub body: BodyLength,
    /// False if the client closes the connection after the response.
    pub keeps_alive: bool,
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestTarget {
    /// An object of an origin.
    Origin(Target),
    /// Host and port of a tunnel.
    Tunnel(String, u16),
    /// Path of an object of the proxy itself.
    Proxy(String),
}

/// Reasons for the rejection of a head. The connection ends, because the position of the next head is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The head is too large.
    #[error("the request head is too large")]
    TooLarge,
    /// The head is malformed.
    #[error("the request is not valid HTTP")]
    Malformed,
    /// A line does not end with CR and LF, or there is a CR elsewhere.
    #[error("the lines of the request do not end with CR LF")]
    LineEnd,
    /// The length of the body is ambiguous.
    #[error(transparent)]
    Framing(#[from] FramingError),
    /// The target is not one that a proxy fetches.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// `Host` is missing, repeated, or differs from the target.
    #[error("the field Host does not name the host of the request")]
    Host,
    /// A CONNECT request with a body.
    #[error("a CONNECT request has no body")]
    TunnelBody,
}

impl HeadError {
    /// Status of the response.
    pub const fn status(self) -> StatusCode {
        match self {
            Self::TooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Malformed
            | Self::LineEnd
            | Self::Framing(_)
            | Self::Target(_)
            | Self::Host
            | Self::TunnelBody => StatusCode::BAD_REQUEST,
        }
    }
}

/// Reader of the heads of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadReader {
    /// Bytes of the buffer whose line ends were checked, so that each byte is checked once.
    checked: usize,
    empty_lines: usize,
}

impl HeadReader {
    /// Takes the next head from the beginning of the buffer; `None` if it is incomplete.
    ///
    /// # Errors
    /// The head is rejected.
    pub fn next(&mut self, buffer: &mut BytesMut) -> Result<Option<RequestHead>, HeadError> {
        Ok(self.next_with_bytes(buffer)?.map(|(head, _)| head))
    }

    /// The same with the bytes of the head. A head that is rejected stays in the buffer.
    ///
    /// # Errors
    /// The head is rejected.
    pub(super) fn next_with_bytes(
        &mut self,
        buffer: &mut BytesMut,
    ) -> Result<Option<(RequestHead, Bytes)>, HeadError> {
        while buffer.starts_with(b"\r\n") {
            self.empty_lines += 1;
            if self.empty_lines > MAX_EMPTY_LINES {
                return Err(HeadError::Malformed);
            }
            buffer.advance(2);
            self.checked = 0;
        }
        let Some(end) = self.end(buffer)? else {
            return Ok(None);
        };
        *self = Self::default();
        let head = parse(&buffer[..end])?;
        Ok(Some((head, buffer.split_to(end).freeze())))
    }

    /// Position after the empty line that ends the head.
    fn end(&mut self, buffer: &[u8]) -> Result<Option<usize>, HeadError> {
        for at in self.checked..buffer.len().min(MAX_HEAD) {
            let after_return = at > 0 && buffer[at - 1] == b'\r';
            if after_return != (buffer[at] == b'\n') {
                return Err(HeadError::LineEnd);
            }
            if buffer[..=at].ends_with(b"\r\n\r\n") {
                return Ok(Some(at + 1));
            }
        }
        self.checked = buffer.len();
        if buffer.len() >= MAX_HEAD {
            return Err(HeadError::TooLarge);
        }
        Ok(None)
    }
}

/// Parses a complete head.
fn parse(head: &[u8]) -> Result<RequestHead, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    // Another parser could take the first of these spaces for the target's last character.
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    if line.windows(7).any(|end| end == b"  HTTP/") {
        return Err(HeadError::Malformed);
    }
    let head = TargetEncoder::default().read(head);
    match request.parse(&head) {
        Ok(httparse::Status::Complete(length)) if length == head.len() => {}
        Ok(_) => return Err(HeadError::Malformed),
        Err(httparse::Error::TooManyHeaders) => return Err(HeadError::TooLarge),
        Err(_) => return Err(HeadError::Malformed),
    }
    let method = request.method.unwrap_or_default();
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| HeadError::Malformed)?;
    let version = match request.version {
        Some(1) => Version::HTTP_11,
        Some(0) => Version::HTTP_10,
        Some(_) | None => return Err(HeadError::Malformed),
    };
    let mut headers = header_map(request.headers)?;
    let limits = HeaderLimits::default();
    let path = request.path.unwrap_or_default();
    let target = request_target(&method, path)?;
    if matches!(target, RequestTarget::Origin(_)) {
        move_credentials(path, &mut headers)?;
    }
    if limits.check(&headers).is_err() || limits.check_target(path).is_err() {
        return Err(HeadError::TooLarge);
    }
    check_host(version, &headers, &target)?;
    let body = framing::request_body(version, &headers)?;
    let is_empty = matches!(body, BodyLength::None | BodyLength::Known(0));
    if matches!(target, RequestTarget::Tunnel(..)) && !is_empty {
        return Err(HeadError::TunnelBody);
    }
    Ok(RequestHead {
        keeps_alive: version == Version::HTTP_11 && !says_close(&headers),
        method,
        target,
        version,
        body: if is_empty { BodyLength::None } else { body },
        headers,
    })
}

fn header_map(fields: &[httparse::Header<'_>]) -> Result<HeaderMap, HeadError> {
    let mut headers = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| HeadError::Malformed)?;
        let value = HeaderValue::from_bytes(field.value).map_err(|_| HeadError::Malformed)?;
        headers.append(name, value);
    }
    // A connection may not remove what frames the message, and no field may be given by two names.
    let is_named = |name: &HeaderName| {
        members(&headers, CONNECTION).any(|member| member.eq_ignore_ascii_case(name.as_str()))
    };
    if [CONTENT_LENGTH, TRANSFER_ENCODING, HOST].iter().any(is_named) {
        return Err(HeadError::Malformed);
    }
    Ok(headers)
}

fn request_target(method: &Method, path: &str) -> Result<RequestTarget, HeadError> {
    if path.contains('#') || !path.is_ascii() {
        return Err(HeadError::Malformed);
    }
    let uri = || path.parse::<Uri>().map_err(|_| HeadError::Malformed);
    if *method == Method::CONNECT {
        let (host, port) = target::authority(&uri()?)?;
        return Ok(RequestTarget::Tunnel(host, port));
    }
    if path.starts_with('/') || path == "*" {
        return Ok(RequestTarget::Proxy(path.to_owned()));
    }
    let target = target::absolute(&uri()?)?;
    // What crosses this port is not encrypted, so https would only look secure.
    if target.scheme != Scheme::Http {
        return Err(TargetError::UnsupportedScheme.into());
    }
    Ok(RequestTarget::Origin(target))
}

/// Moves user name and password of the URL to their field. Some clients repeat them in `Host`, also decoded.
fn move_credentials(url: &str, headers: &mut HeaderMap) -> Result<(), HeadError> {
    let url: Uri = url.parse().map_err(|_| HeadError::Malformed)?;
    url_credentials::move_to_fields(&url, headers);
    let has_user = url
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'));
    let told = headers.get(HOST).and_then(|told| told.to_str().ok());
    if let (true, Some((_, host))) = (has_user, told.and_then(|told| told.rsplit_once('@'))) {
        let host = HeaderValue::from_str(host).map_err(|_| HeadError::Host)?;
        let repeated = headers.get_all(HOST).iter().nth(1).is_some();
        if !repeated {
            headers.insert(HOST, host);
        }
    }
    Ok(())
}

/// Checks that `Host` names the target, so that nobody behind the proxy can be told another host. Only HTTP/1.1
/// requires the field.
pub(super) fn check_host(
    version: Version,
    headers: &HeaderMap,
    target: &RequestTarget,
) -> Result<(), HeadError> {
    let mut values = headers.get_all(HOST).iter();
    let value = match (values.next(), values.next()) {
        (Some(value), None) => value,
        (None, _) if version != Version::HTTP_11 => return Ok(()),
        (None, _) | (Some(_), Some(_)) => return Err(HeadError::Host),
    };
    let told = value.to_str().map_err(|_| HeadError::Host)?;
    let is_same = match target {
        RequestTarget::Proxy(_) => true,
        RequestTarget::Origin(target) => {
            let told = host_and_port(told)?;
            told.0 == target.host && told.1.unwrap_or_else(|| target.scheme.port()) == target.port
        }
        RequestTarget::Tunnel(host, port) => {
            let told = host_and_port(told)?;
            // Some clients leave the port out.
            told.0 == *host && told.1.is_none_or(|told| told == *port)
        }
    };
    if is_same { Ok(()) } else { Err(HeadError::Host) }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), HeadError> {
    let authority: Authority = text.parse().map_err(|_| HeadError::Host)?;
    target::host_and_port(&authority).map_err(|_| HeadError::Host)
}

fn says_close(headers: &HeaderMap) -> bool {
    [CONNECTION, PROXY_CONNECTION]
        .into_iter()
        .any(|name| members(headers, name).any(|member| member.eq_ignore_ascii_case("close")))
}

//! Conversion of a stored response into that of a live server.
use std::{io::Write as _, time::SystemTime};

use bytes::Bytes;
use flate2::{Compression as Level, write::GzEncoder};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header, request::Parts};
use http_body_util::Full;

use crate::Compression;

/// Smaller bodies are not compressed: gzip's framing alone has 18 bytes, and such a body fits into one
/// segment anyway.
const MIN_COMPRESSED: usize = 256;
/// Compression level, the default of Apache and of zlib.
const LEVEL: u32 = 6;

/// Fields of a single connection (RFC 9110 section 7.6.1), and alternatives that do not exist here.
const DROPPED: [HeaderName; 7] = [
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::ALT_SVC,
];

/// Fields that `Connection` cannot remove: the message would have a different meaning.
const KEPT: [HeaderName; 4] = [
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::CACHE_CONTROL,
    header::SET_COOKIE,
];

/// Returns a response that the server generates itself.
pub(crate) fn refusal(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(
        status.canonical_reason().unwrap_or("").as_bytes(),
    ));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, text);
    response
}

/// Returns the response to send for a stored one.
pub(crate) fn live(
    request: &Parts,
    stored: Response<Bytes>,
    compression: Compression,
) -> Response<Full<Bytes>> {
    let mut stored = stored;
    if stored.status().is_informational() {
        // A recorded 101 or 103 is not a final response that this server could send.
        stored = refusal(StatusCode::NOT_FOUND);
    }
    let (mut head, mut body) = stored.into_parts();
    strip(&mut head.headers);
    renew_dates(&mut head.headers, SystemTime::now());
    if is_unchanged(request, head.status, &head.headers) {
        head.status = StatusCode::NOT_MODIFIED;
        keep_for_not_modified(&mut head.headers);
    }
    if matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        head.headers.remove(header::CONTENT_LENGTH);
        return Response::from_parts(head, Full::default());
    }
    if compression == Compression::Gzip {
        body = compress(request, &mut head.headers, body);
    }
    let recorded_head = request.method == Method::HEAD && body.is_empty();
    if !(recorded_head && head.headers.contains_key(header::CONTENT_LENGTH)) {
        let length = HeaderValue::from(body.len());
        head.headers.insert(header::CONTENT_LENGTH, length);
    }
    if request.method == Method::HEAD {
        body = Bytes::new();
    }
    Response::from_parts(head, Full::new(body))
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = members(headers, header::CONNECTION)
        .filter_map(|member| member.parse().ok())
        .filter(|name| !KEPT.contains(name))
        .collect();
    for name in named.iter().chain(&DROPPED) {
        headers.remove(name);
    }
    headers.remove(header::CONNECTION);
}

/// Sets `Date` to now, and moves a recorded `Expires` by the same time.
fn renew_dates(headers: &mut HeaderMap, now: SystemTime) {
    let recorded = date(headers, header::DATE);
    let expires = date(headers, header::EXPIRES);
    if let (Some(recorded), Some(expires)) = (recorded, expires) {
        let moved = match expires.duration_since(recorded) {
            Ok(lifetime) => now.checked_add(lifetime),
            Err(earlier) => now.checked_sub(earlier.duration()),
        };
        // A sum beyond the calendar leaves the recorded text in place.
        if let Some(value) = moved.and_then(format_date) {
            headers.insert(header::EXPIRES, value);
        }
    }
    if let Some(value) = format_date(now) {
        headers.insert(header::DATE, value);
    }
}

/// Returns true if a condition of the request means that the client has this response (RFC 9110 section
/// 13.2.2).
fn is_unchanged(request: &Parts, status: StatusCode, headers: &HeaderMap) -> bool {
    let conditional = matches!(request.method, Method::GET | Method::HEAD) && status == StatusCode::OK;
    if !conditional {
        return false;
    }
    if request.headers.contains_key(header::IF_NONE_MATCH) {
        let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
        return members(&request.headers, header::IF_NONE_MATCH)
            .any(|member| member == "*" || tag.is_some_and(|tag| opaque(member) == opaque(tag)));
    }
    let since = date(&request.headers, header::IF_MODIFIED_SINCE);
    let modified = date(headers, header::LAST_MODIFIED);
    since
        .zip(modified)
        .is_some_and(|(since, modified)| modified <= since)
}

/// Removes the fields that describe a body that is not sent (RFC 9110 section 15.4.5).
fn keep_for_not_modified(headers: &mut HeaderMap) {
    for name in [
        header::CONTENT_LENGTH,
        header::CONTENT_TYPE,
        header::CONTENT_ENCODING,
        header::CONTENT_LANGUAGE,
        header::CONTENT_RANGE,
        header::ACCEPT_RANGES,
    ] {
        headers.remove(name);
    }
    if headers.contains_key(header::ETAG) {
        headers.remove(header::LAST_MODIFIED);
    }
}

fn compress(request: &Parts, headers: &mut HeaderMap, body: Bytes) -> Bytes {
    let identity =
        !headers.contains_key(header::CONTENT_ENCODING) && !headers.contains_key(header::CONTENT_RANGE);
    if !identity || !is_text(headers) || body.len() < MIN_COMPRESSED {
        return body;
    }
    // In both cases caches must not serve this response to clients that cannot decode it.
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    if !accepts_gzip(&request.headers) {
        return body;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Level::new(LEVEL));
    let Ok(coded) = encoder.write_all(&body).and_then(|()| encoder.finish()) else {
        return body;
    };
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    // A strong tag guarantees identical bytes.
    let strong = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
    let weak = strong
        .filter(|tag| !tag.starts_with("W/"))
        .map(|tag| format!("W/{tag}"));
    if let Some(weak) = weak.and_then(|tag| HeaderValue::try_from(tag).ok()) {
        headers.insert(header::ETAG, weak);
    }
    coded.into()
}

/// Returns true for the types that servers are usually configured to compress.
fn is_text(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = value
        .and_then(|value| value.split(';').next())
        .unwrap_or_default();
    let essence = essence.trim().to_ascii_lowercase();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    essence.starts_with("text/")
        || subtype.ends_with("+xml")
        || subtype.ends_with("+json")
        || matches!(subtype, "javascript" | "x-javascript" | "json" | "xml")
}

/// Returns true if `Accept-Encoding` admits gzip (RFC 9110 section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let mut any = false;
    for member in members(headers, header::ACCEPT_ENCODING) {
        let mut parts = member.split(';').map(str::trim);
        let coding = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let wanted = weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0));
        if coding.eq_ignore_ascii_case("gzip") {
            return wanted;
        }
        any |= coding == "*" && wanted;
    }
    any
}

fn members(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Returns an entity tag without the weakness prefix.
fn opaque(tag: &str) -> &str {
    tag.trim().trim_start_matches("W/")
}

fn date(headers: &HeaderMap, name: HeaderName) -> Option<SystemTime> {
    let value = headers.get(name)?.to_str().ok()?;
    httpdate::parse_http_date(value).ok()
}

/// Returns a date in the format of HTTP, which ends with the year 9999.
fn format_date(at: SystemTime) -> Option<HeaderValue> {
    const YEAR_10000: u64 = 253_402_300_800;
    let seconds = at.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs();
    (seconds < YEAR_10000)
        .then(|| httpdate::fmt_http_date(at))
        .and_then(|text| HeaderValue::try_from(text).ok())
}

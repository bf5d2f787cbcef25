//! Content codings of origins: requesting them, deciding on their removal, and correcting the header section.
#[cfg(test)]
mod tests;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::{client_software, list::members, redirection};

/// `Accept-Encoding` of the gateway's requests to origins for clients that take decoded bodies. It is constant, so an
/// origin whose ETag depends on the coding (Apache appends `-gzip`, nginx weakens the tag) receives its own tag in
/// conditional requests.
pub const ORIGIN_ACCEPT_ENCODING: HeaderValue = HeaderValue::from_static("gzip, deflate, br, zstd");

const IDENTITY: HeaderValue = HeaderValue::from_static("identity");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const DIGEST: HeaderName = HeaderName::from_static("digest");
const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");

/// Returns true if the client is a browser by what it sends: it decodes every body before anybody sees it, so it may
/// get a body without the codings that the origin applied.
///
/// Such a client accepts gzip and deflate, weighs nothing, and is not known as a program. Every other client gets what the
/// origin answers to its own `Accept-Encoding`, byte for byte: programs write the bytes of a body into files as they
/// are, compare them with published hashes, and continue them later by offset.
pub fn takes_decoded(request: &HeaderMap) -> bool {
    let has = |coding: &str| {
        members(request, header::ACCEPT_ENCODING).any(|member| member.eq_ignore_ascii_case(coding))
    };
    has("gzip")
        && has("deflate")
        && !members(request, header::ACCEPT_ENCODING).any(|member| member.contains(';'))
        && !client_software::is_program(request)
}

/// Returns what distinguishes the codings of the response to a request from those of other responses to the same URL;
/// `None` for all clients that take decoded bodies.
pub fn own_negotiation(request: &HeaderMap) -> Option<Vec<u8>> {
    if takes_decoded(request) {
        return None;
    }
    let mut text = Vec::new();
    for value in request.get_all(header::ACCEPT_ENCODING) {
        // A request without the field differs from one with an empty field (RFC 9110 section 12.5.3).
        text.push(b':');
        text.extend_from_slice(value.as_bytes());
    }
    Some(text)
}

/// Sets the `Accept-Encoding` of a request to an origin if the client takes decoded bodies; other clients negotiate with
/// the origin themselves. Ranges are requested in the identity coding, because the browser holds decoded bytes and counts
/// these, except those of files that it holds as they are coded.
pub fn set_accept_encoding(headers: &mut HeaderMap, path: &str) {
    if !takes_decoded(headers) {
        return;
    }
    if !headers.contains_key(header::RANGE) {
        headers.insert(header::ACCEPT_ENCODING, ORIGIN_ACCEPT_ENCODING);
    } else if !is_compressed_name(path) {
        headers.insert(header::ACCEPT_ENCODING, IDENTITY);
    }
}

/// Returns the content codings of a message in the order of their application, in lower case, with `x-gzip`
/// as `gzip` and without `identity`.
pub fn content_codings(headers: &HeaderMap) -> Vec<String> {
    members(headers, header::CONTENT_ENCODING)
        .map(str::to_ascii_lowercase)
        .filter(|coding| coding != "identity")
        .map(|coding| {
            if coding == "x-gzip" {
                "gzip".to_owned()
            } else {
                coding
            }
        })
        .collect()
}

/// Treatment of the content codings of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodingPlan {
    /// The response has no content coding.
    Plain,
    /// Remove these codings, listed in the order of their application; then call [`describe_decoded`].
    Decode(Vec<String>),
    /// Forward the coded bytes and the header fields unchanged.
    Keep(KeepReason),
}

/// Reason for keeping the coded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeepReason {
    /// `Cache-Control: no-transform` (RFC 9111 section 5.2.2.6), and the browser accepts the coding.
    NoTransform,
    /// The client has negotiated the coding with the origin itself, uses the coded bytes, or does not read them.
    Negotiated,
    /// A part of a representation: a range of coded bytes cannot be decoded alone.
    Partial,
    /// A coding that is not supported here, but perhaps by the browser.
    UnknownCoding,
}

/// Decides on the content codings of a response to a request for `path`. `request` is the browser's header section, not
/// the one sent to the origin.
///
/// Also applies to bodyless responses: a response to HEAD must have the same fields as the response to GET.
///
/// With `no-transform`, a body whose coding the browser did not request is decoded nevertheless, because the
/// gateway's request caused the coding. The body of a redirection is not: browsers do not read it, and follow the redirection
/// also if the body cannot be decoded.
pub fn plan(request: &HeaderMap, path: &str, status: StatusCode, response: &HeaderMap) -> CodingPlan {
    let codings = content_codings(response);
    let accepted = || codings.iter().all(|coding| accepts(request, coding));
    if codings.is_empty() {
        CodingPlan::Plain
    } else if !takes_decoded(request)
        || redirection::is_followed(status, response)
        || is_compressed_file(path, response) && accepted()
    {
        CodingPlan::Keep(KeepReason::Negotiated)
    } else if status == StatusCode::PARTIAL_CONTENT {
        CodingPlan::Keep(KeepReason::Partial)
    } else if codings.len() > MAX_CODINGS || !lists_known_codings(response) {
        CodingPlan::Keep(KeepReason::UnknownCoding)
    } else if is_no_transform(response) && accepted() {
        CodingPlan::Keep(KeepReason::NoTransform)
    } else {
        CodingPlan::Decode(codings)
    }
}

/// Returns true if each member of `Content-Encoding` is a known coding. Browsers decode nothing if one is not, be it empty
/// or `identity`.
fn lists_known_codings(response: &HeaderMap) -> bool {
    let values = response.get_all(header::CONTENT_ENCODING).iter();
    let mut members = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    members.all(|member| {
        let member = member.trim_ascii();
        let is = |name: &str| member.eq_ignore_ascii_case(name.as_bytes());
        KNOWN.iter().any(|name| is(name)) || is("x-gzip")
    })
}

/// Returns true if the response is a compressed file whose compression the origin also calls a content coding, as servers
/// do for `.tar.gz`. Some browsers save such a file as it is and others decode it, so each gets the coded bytes.
pub fn is_compressed_file(path: &str, response: &HeaderMap) -> bool {
    let media_type = response.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let essence = media_type.unwrap_or_default().split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    is_compressed_name(path)
        || COMPRESSED_TYPES
            .iter()
            .any(|name| essence.eq_ignore_ascii_case(name.as_bytes()))
}

fn is_compressed_name(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending);
    COMPRESSED_ENDINGS
        .iter()
        .any(|name| ending.eq_ignore_ascii_case(name))
}

/// Returns true if `Cache-Control` contains `no-transform`.
pub fn is_no_transform(headers: &HeaderMap) -> bool {
    members(headers, header::CACHE_CONTROL).any(|directive| directive.eq_ignore_ascii_case("no-transform"))
}

/// Returns true if a request's `Accept-Encoding` admits `coding` (RFC 9110 section 12.5.3). Returns false
/// without the field: such a client may not decode any coding.
pub fn accepts(request: &HeaderMap, coding: &str) -> bool {
    let mut any = false;
    for member in members(request, header::ACCEPT_ENCODING) {
        let mut parts = member.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts.any(is_zero_weight);
        let same =
            name.eq_ignore_ascii_case(coding) || coding == "gzip" && name.eq_ignore_ascii_case("x-gzip");
        if same {
            return !refused;
        }
        any |= name == "*" && !refused;
    }
    any
}

/// Returns true if a parameter is a weight of zero, which refuses what it follows (RFC 9110 section 12.4.2).
pub(crate) fn is_zero_weight(parameter: &str) -> bool {
    parameter
        .split_once('=')
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"))
        .and_then(|(_, weight)| weight.trim().parse::<f32>().ok())
        .is_some_and(|weight| weight <= 0.0)
}

/// Corrects a header section after removal of the content codings; `length` is that of the decoded body, if
/// known.
///
/// Removes `Content-Encoding` and the digests of coded bytes (RFC 9530; `Digest` of RFC 3230; `Content-MD5`).
/// Keeps the ETag: it remains valid for the origin, whose `Accept-Encoding` stays the same. Removes
/// `Accept-Ranges`, because the origin's ranges may count coded bytes.
pub fn describe_decoded(headers: &mut HeaderMap, length: Option<u64>) {
    for name in [
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::ACCEPT_RANGES,
        CONTENT_DIGEST,
        CONTENT_MD5,
        DIGEST,
        REPR_DIGEST,
    ] {
        headers.remove(name);
    }
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

/// Media types of files that are compressed as a whole by what is also a content coding.
const COMPRESSED_TYPES: [&str; 5] = [
    "application/gzip",
    "application/x-compress",
    "application/x-gunzip",
    "application/x-gzip",
    "application/zstd",
];
/// Endings of the names of such files.
const COMPRESSED_ENDINGS: [&str; 6] = ["br", "gz", "svgz", "tgz", "z", "zst"];
const KNOWN: [&str; 4] = ["br", "deflate", "gzip", "zstd"];
/// The number of codings that the codec removes.
const MAX_CODINGS: usize = 3;

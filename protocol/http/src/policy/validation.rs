//! Validation (RFC 9111 section 4.3): the conditional request, and updates by its 304.
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use longhaul_types::UnixTime;

use crate::{
    conditional::{etags_match, is_conditional},
    date,
};

/// Returns the fields of the request that revalidates the stored response (RFC 9111 section 4.3.1). None if
/// the response has no validator, or has a status for which origins do not evaluate conditions.
///
/// Validators go back as they came, as browsers send them: origins recognise tags without quotation marks and dates in
/// their own format, whatever the standards say about both.
pub(super) fn conditional_request(
    request: &HeaderMap,
    status: StatusCode,
    response: &HeaderMap,
) -> Option<HeaderMap> {
    if status != StatusCode::OK && status != StatusCode::NON_AUTHORITATIVE_INFORMATION {
        return None;
    }
    let etag = response.get(header::ETAG).filter(|etag| names_a_version(etag));
    // Both validators are sent if present; recipients that support the first ignore the second (RFC 9110
    // section 13.1.3).
    let modified = response
        .get(header::LAST_MODIFIED)
        .filter(|modified| !modified.is_empty());
    if etag.is_none() && modified.is_none() {
        return None;
    }
    let mut fields = request.clone();
    fields.remove(header::IF_NONE_MATCH);
    fields.remove(header::IF_MODIFIED_SINCE);
    if let Some(etag) = etag {
        fields.insert(header::IF_NONE_MATCH, etag.clone());
    }
    if let Some(modified) = modified {
        fields.insert(header::IF_MODIFIED_SINCE, modified.clone());
    }
    debug_assert!(is_conditional(&fields));
    Some(fields)
}

/// See [`super::Freshness::after_304`].
pub(super) fn freshened(
    stored: &HeaderMap,
    not_modified: &HeaderMap,
    received_at: UnixTime,
) -> Option<HeaderMap> {
    if !is_about(stored, not_modified) {
        return None;
    }
    let mut fields = stored.clone();
    // Both fields state when the stored response was last valid, which is now.
    fields.remove(header::AGE);
    fields.insert(header::DATE, date::write(received_at));
    fields.remove(header::SET_COOKIE);
    for name in not_modified.keys().filter(|name| !is_kept(name)) {
        fields.remove(name);
        for value in not_modified.get_all(name) {
            fields.append(name.clone(), value.clone());
        }
    }
    Some(fields)
}

/// Returns true if a 304 concerns the stored version. A 304 without validator does: its request named only
/// this version.
fn is_about(stored: &HeaderMap, not_modified: &HeaderMap) -> bool {
    let same = |name: HeaderName, equal: fn(&HeaderValue, &HeaderValue) -> bool| {
        let pair = stored.get(&name).zip(not_modified.get(&name));
        pair.map(|(one, other)| equal(one, other))
    };
    // Weak comparison: servers that compress weaken the tag of a 200 but not that of a 304.
    same(header::ETAG, |one, other| {
        etags_match(one.as_bytes(), other.as_bytes())
    })
    .or_else(|| same(header::LAST_MODIFIED, |one, other| one == other))
    .unwrap_or(true)
}

/// False for a tag that origins would read as any version.
fn names_a_version(etag: &HeaderValue) -> bool {
    let mut members = etag.as_bytes().split(|byte| *byte == b',');
    !etag.is_empty() && !members.any(|member| member.trim_ascii() == b"*")
}

/// Returns true for fields of a 304 that never replace stored ones: they describe the stored bytes, select
/// the variant, or concern only this message. RFC 9111 section 3.2 excludes `Content-Length` and fields on
/// which the stored body depends.
fn is_kept(name: &HeaderName) -> bool {
    KEPT.contains(&name.as_str())
}

const KEPT: [&str; 21] = [
    "accept-ranges",
    "connection",
    "content-digest",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "digest",
    "etag",
    "keep-alive",
    "last-modified",
    "repr-digest",
    "set-cookie",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
];

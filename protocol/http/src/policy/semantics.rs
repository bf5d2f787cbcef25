//! Normalisation of messages for `http-cache-semantics`.
//!
//! That crate compares directive names case-sensitively, parses only one date format, uses neither `Date` nor
//! the response delay to compute ages, does not limit heuristics, and overflows on extreme numbers. It
//! therefore gets a normalised message: canonical directives, dates in one format, the age on arrival in
//! `Age`. The functions called here read no clock: `new_options`, `is_storable`, `time_to_live` and
//! `before_request` take the time as an argument.
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use longhaul_types::UnixTime;

use super::cache_kind::CacheKind;
use crate::{
    date,
    directives::{Directives, MAX_DELTA, delta_seconds},
    list::members,
};

/// A response as seen by a cache of one kind.
pub(super) struct Semantics(CachePolicy);

impl Semantics {
    pub(super) fn new(
        status: StatusCode,
        response: &HeaderMap,
        requested_at: UnixTime,
        received_at: UnixTime,
        kind: CacheKind,
    ) -> Self {
        let mut reading = Response::new(());
        *reading.status_mut() = as_understood(status, &Directives::of(response));
        *reading.headers_mut() = fields(response, requested_at, received_at, kind);
        let options = CacheOptions {
            shared: kind == CacheKind::Shared,
            cache_heuristic: HEURISTIC,
            // RFC 8246 applies only while a response is fresh; it makes no response fresh.
            immutable_min_time_to_live: Duration::ZERO,
            ignore_cargo_cult: false,
        };
        let received = date::system(received_at);
        Self(CachePolicy::new_options(
            &Request::new(()),
            &reading,
            received,
            options,
        ))
    }

    /// Storability by RFC 9111 section 3, as far as the response and the kind of cache decide it.
    pub(super) fn is_storable(&self) -> bool {
        self.0.is_storable()
    }

    /// Time for which the response remains fresh after `now` (RFC 9111 section 4.2).
    pub(super) fn fresh_for(&self, now: UnixTime) -> Duration {
        self.0.time_to_live(date::system(now))
    }

    /// Age at `now` in whole seconds (RFC 9111 section 4.2.3).
    pub(super) fn age(&self, now: UnixTime) -> u64 {
        self.0.age(date::system(now)).as_secs()
    }

    /// True if the response satisfies a request at `now` without validation, including `max-age` and
    /// `min-fresh` of the request (RFC 9111 section 5.2.1).
    pub(super) fn satisfies(&self, request: &HeaderMap, now: UnixTime) -> bool {
        let directives = Directives::of(request);
        let mut wanted = String::new();
        for name in ["max-age", "min-fresh"] {
            if let Some(limit) = directives.seconds(name) {
                push(&mut wanted, &format!("{name}={}", limit.as_secs()));
            }
        }
        let mut reading = Request::new(());
        if let Ok(value) = HeaderValue::from_str(&wanted) {
            reading.headers_mut().insert(header::CACHE_CONTROL, value);
        }
        matches!(
            self.0.before_request(&reading, date::system(now)),
            BeforeRequest::Fresh(_)
        )
    }
}

/// Returns a status that the crate understands. A response with any final status may be stored if it states its lifetime
/// or is `public` (RFC 9111 section 3): that is how 302 is treated. Statuses that concern one request may not be stored.
/// Unregistered statuses may not be stored if the response has `must-understand` (RFC 9111 section 5.2.2.3).
fn as_understood(status: StatusCode, directives: &Directives) -> StatusCode {
    let is_other = !status.is_informational()
        && (status.canonical_reason().is_some() || !directives.has("must-understand"))
        && !HEURISTIC_STATUSES.contains(&status.as_u16())
        && !UNSTORABLE_STATUSES.contains(&status.as_u16());
    if is_other { StatusCode::FOUND } else { status }
}

/// Returns the relevant fields in normalised form.
fn fields(response: &HeaderMap, requested_at: UnixTime, received_at: UnixTime, kind: CacheKind) -> HeaderMap {
    let mut reading = HeaderMap::new();
    let directives = Directives::of(response);
    if let Ok(value) = HeaderValue::from_str(&canonical(&directives, kind)) {
        reading.insert(header::CACHE_CONTROL, value);
    }
    // RFC 9111 section 5.4 does not define `Pragma` in responses; servers that send `no-cache` mean it.
    let pragma = members(response, header::PRAGMA).any(|member| member.eq_ignore_ascii_case("no-cache"));
    if pragma && !response.contains_key(header::CACHE_CONTROL) {
        reading.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
    let generated = date::field(response, header::DATE).unwrap_or(received_at);
    reading.insert(header::DATE, date::write(generated));
    if response.contains_key(header::EXPIRES) {
        let expires = date::field(response, header::EXPIRES).map_or(EXPIRED, date::write);
        reading.insert(header::EXPIRES, expires);
    }
    if let Some(modified) = date::field(response, header::LAST_MODIFIED) {
        // The heuristic lifetime is a tenth of this distance; limiting the distance limits the lifetime.
        let earliest = generated.since_epoch().saturating_sub(MAX_HEURISTIC_BASE);
        let modified = modified.max(UnixTime::new(earliest));
        reading.insert(header::LAST_MODIFIED, date::write(modified));
    }
    let age = age_on_arrival(response, generated, requested_at, received_at);
    reading.insert(header::AGE, HeaderValue::from(age.min(MAX_DELTA).as_secs()));
    reading
}

/// Returns the relevant directives for this kind of cache.
///
/// The qualified forms `no-cache="..."` and `private="..."` count as unqualified (according to RFC 9111
/// sections 5.2.2.4 and 5.2.2.7, many caches do so). `proxy-revalidate` and `must-revalidate` are omitted,
/// because this module never permits reuse of a stale response.
fn canonical(directives: &Directives, kind: CacheKind) -> String {
    let mut text = String::new();
    for name in ["no-store", "no-cache", "private", "public"] {
        if directives.has(name) {
            push(&mut text, name);
        }
    }
    let lifetimes: &[&str] = match kind {
        CacheKind::Shared => &["s-maxage", "max-age"],
        CacheKind::Private => &["max-age"],
    };
    for name in lifetimes {
        if let Some(lifetime) = directives.seconds(name) {
            push(&mut text, &format!("{name}={}", lifetime.as_secs()));
        }
    }
    text
}

fn push(text: &mut String, directive: &str) {
    if !text.is_empty() {
        text.push_str(", ");
    }
    text.push_str(directive);
}

/// `corrected_initial_age` of RFC 9111 section 4.2.3.
fn age_on_arrival(
    response: &HeaderMap,
    generated: UnixTime,
    requested_at: UnixTime,
    received_at: UnixTime,
) -> Duration {
    let received = received_at.since_epoch();
    let apparent = received.saturating_sub(generated.since_epoch());
    // RFC 9111 section 5.1: the first member counts. A cache should ignore an invalid one; but the response was stored for a
    // time that nobody knows, so it is treated as old.
    let told = members(response, header::AGE)
        .next()
        .map(|age| delta_seconds(age).unwrap_or(MAX_DELTA));
    let delay = received.saturating_sub(requested_at.since_epoch());
    apparent.max(told.unwrap_or_default().saturating_add(delay))
}

/// Statuses that caches may store without a stated lifetime (RFC 9110 section 15.1), except 206.
const HEURISTIC_STATUSES: [u16; 11] = [200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501];
/// Statuses that describe a part, a stored version, the connection, the credentials, the conditions or the rate of one
/// request.
const UNSTORABLE_STATUSES: [u16; 15] = [
    206, 304, 401, 407, 408, 412, 416, 417, 421, 425, 426, 428, 429, 431, 511,
];
/// The typical fraction according to RFC 9111 section 4.2.2.
const HEURISTIC: f32 = 0.1;
/// Ten days: limits heuristic freshness to one day.
const MAX_HEURISTIC_BASE: Duration = Duration::from_secs(10 * 24 * 3600);
/// RFC 9111 section 5.3: an invalid date, especially "0", is in the past.
const EXPIRED: HeaderValue = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");

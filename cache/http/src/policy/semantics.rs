//! The reading of a message that is handed to `http-cache-semantics`.
//!
//! That crate compares directive names by case, reads only one form of dates, knows neither `Date` nor the delay of
//! the response when it computes ages, does not bound heuristics, and overflows on absurd numbers. So it gets a
//! message of its own: canonical directives, dates in one form, the age on arrival in `Age`. It reads no clock in what
//! is called here: `new_options`, `is_storable`, `time_to_live` and `before_request` take the time.
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use http_cache_semantics::{BeforeRequest, CacheOptions, CachePolicy};
use longhaul_types::UnixTime;

use super::freshness::CacheKind;
use crate::{
    date,
    directives::{Directives, MAX_DELTA, delta_seconds},
    list::members,
};

/// A response as a cache of one kind judges it.
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
        *reading.status_mut() = status;
        *reading.headers_mut() = fields(response, requested_at, received_at, kind);
        let options = CacheOptions {
            shared: kind == CacheKind::Shared,
            cache_heuristic: HEURISTIC,
            // RFC 8246 says only what holds while a response is fresh, it makes none fresh.
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

    /// RFC 9111 section 3, as far as the response and the kind of cache decide it.
    pub(super) fn is_storable(&self) -> bool {
        self.0.is_storable()
    }

    /// How long the response stays fresh after `now` (RFC 9111 section 4.2).
    pub(super) fn fresh_for(&self, now: UnixTime) -> Duration {
        self.0.time_to_live(date::system(now))
    }

    /// The age at `now` in whole seconds (RFC 9111 section 4.2.3).
    pub(super) fn age(&self, now: UnixTime) -> u64 {
        self.0.age(date::system(now)).as_secs()
    }

    /// Whether the response satisfies a request at `now` without validation, `max-age` and `min-fresh` of the request
    /// included (RFC 9111 section 5.2.1).
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

/// The fields that decide, in the one form that is understood.
fn fields(response: &HeaderMap, requested_at: UnixTime, received_at: UnixTime, kind: CacheKind) -> HeaderMap {
    let mut reading = HeaderMap::new();
    let directives = Directives::of(response);
    if let Ok(value) = HeaderValue::from_str(&canonical(&directives, kind)) {
        reading.insert(header::CACHE_CONTROL, value);
    }
    // RFC 9111 section 5.4 leaves it undefined in responses; those who send it mean it.
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
        // A tenth of what lies between is the heuristic lifetime: bounded by bounding the distance.
        let earliest = generated.since_epoch().saturating_sub(MAX_HEURISTIC_BASE);
        let modified = modified.max(UnixTime::new(earliest));
        reading.insert(header::LAST_MODIFIED, date::write(modified));
    }
    let age = age_on_arrival(response, generated, requested_at, received_at);
    reading.insert(header::AGE, HeaderValue::from(age.min(MAX_DELTA).as_secs()));
    reading
}

/// The directives that decide for this kind of cache.
///
/// The qualified forms `no-cache="..."` and `private="..."` count as the unqualified ones (RFC 9111 sections 5.2.2.4
/// and 5.2.2.7 say that many caches do so). `proxy-revalidate` and `must-revalidate` are left out: nothing is reused
/// stale anyway.
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
    let told = members(response, header::AGE).next().and_then(delta_seconds);
    let delay = received.saturating_sub(requested_at.since_epoch());
    apparent.max(told.unwrap_or_default().saturating_add(delay))
}

/// RFC 9111 section 4.2.2 names this fraction as typical.
const HEURISTIC: f32 = 0.1;
/// Ten days: so no response is fresh for more than a day by guess.
const MAX_HEURISTIC_BASE: Duration = Duration::from_secs(10 * 24 * 3600);
/// RFC 9111 section 5.3: an invalid date, "0" above all, is in the past.
const EXPIRED: HeaderValue = HeaderValue::from_static("Thu, 01 Jan 1970 00:00:00 GMT");

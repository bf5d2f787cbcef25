//! Request fields that scripts and programs add: they may carry keys and tokens, as `Cookie` and `Authorization` do.
use http::{HeaderName, HeaderValue};

use crate::policy;

/// Fields that browsers, agent and gateway write by themselves, beside those that a shared response may depend on
/// ([`policy::is_keyed`]). Credentials in `Cookie` and `Authorization` are judged by themselves.
const STANDARD: [&str; 34] = [
    "accept-encoding",
    "alt-used",
    "authorization",
    "available-dictionary",
    "cache-control",
    "connection",
    "content-encoding",
    "content-language",
    "content-length",
    "content-type",
    "cookie",
    "dictionary-id",
    "early-data",
    "expect",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "last-event-id",
    "ping-from",
    "ping-to",
    "pragma",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "service-worker",
    "service-worker-navigation-preload",
    "te",
    "transfer-encoding",
    "upgrade",
    "x-requested-with",
];
/// Prefixes of fields that scripts cannot set (Fetch, section 2.2.2).
const STANDARD_PREFIXES: [&str; 2] = ["sec-", "access-control-request-"];

/// Returns true for a field that only scripts and programs send, such as `X-Api-Key` or `PRIVATE-TOKEN`. A list of the
/// fields that carry credentials could never be complete; therefore every unknown field counts.
pub fn is_own_field(name: &HeaderName, value: &HeaderValue) -> bool {
    let text = name.as_str();
    !policy::is_keyed(name, value)
        && !STANDARD.contains(&text)
        && !STANDARD_PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

/// True for fields that number the requests of a page for the operators of its servers. They differ in each request and
/// do not authenticate users.
pub(super) fn is_trace(name: &HeaderName) -> bool {
    const NAMES: [&str; 8] = [
        "baggage",
        "newrelic",
        "request-id",
        "sentry-trace",
        "traceparent",
        "tracestate",
        "x-correlation-id",
        "x-request-id",
    ];
    NAMES.contains(&name.as_str()) || name.as_str().starts_with("x-datadog-")
}

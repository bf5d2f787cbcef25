//! Header fields of tests.
use http::{HeaderMap, HeaderName, HeaderValue};

/// Returns the fields of these names and values.
pub(crate) fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let fields = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
    fields.collect()
}

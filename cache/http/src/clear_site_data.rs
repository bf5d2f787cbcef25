//! `Clear-Site-Data` (W3C, section 3.1): what an origin asks a browser to forget, as far as caches go.
use http::{HeaderMap, HeaderName};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// Whether a response asks for what is cached of its origin to be forgotten.
///
/// Members are quoted strings; those that nobody knows are passed over, as the specification has it. Members without
/// quotes are understood as well: browsers pass over them, but to forget too much does no harm.
pub fn clears_cache(response: &HeaderMap) -> bool {
    let values = response.get_all(CLEAR_SITE_DATA).iter();
    values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|member| member.trim().trim_matches('"'))
        .any(|kind| kind.eq_ignore_ascii_case("cache") || kind == "*")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn clears(values: &[&'static str]) -> bool {
        let values = values.iter().map(|value| HeaderValue::from_static(value));
        clears_cache(&values.map(|value| (CLEAR_SITE_DATA, value)).collect())
    }

    #[test]
    fn only_caches_count() {
        assert!(clears(&["\"cache\""]));
        assert!(clears(&["\"cookies\", \"cache\""]));
        assert!(clears(&["\"cookies\"", "\"*\""]));
        assert!(clears(&["cache"]));
        assert!(!clears(&["\"cookies\", \"storage\""]));
        assert!(!clears(&["\"cachet\""]));
        assert!(!clears(&[]));
    }
}

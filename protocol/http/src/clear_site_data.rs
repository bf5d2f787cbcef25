//! `Clear-Site-Data` (W3C, section 3.1), as far as it concerns caches.
use http::{HeaderMap, HeaderName};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");

/// Returns true if a response requests deletion of the cached responses of its origin.
///
/// Members are quoted strings; unknown members are ignored, as specified. Members without quotes count, too:
/// browsers ignore them, but deleting too much is harmless.
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
    fn only_the_cache_directive_counts() {
        assert!(clears(&["\"cache\""]));
        assert!(clears(&["\"cookies\", \"cache\""]));
        assert!(clears(&["\"cookies\"", "\"*\""]));
        assert!(clears(&["cache"]));
        assert!(!clears(&["\"cookies\", \"storage\""]));
        assert!(!clears(&["\"cachet\""]));
        assert!(!clears(&[]));
    }
}

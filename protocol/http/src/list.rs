//! Comma-separated field values (RFC 9110 section 5.6.1).
use http::{HeaderMap, header::AsHeaderName};

/// Returns the non-empty members of all values of the field `name`, without surrounding whitespace.
///
/// A value that is not visible ASCII has no members. Commas in quoted strings also separate: the fields that
/// use this function have no relevant quoted strings.
pub fn members(headers: &HeaderMap, name: impl AsHeaderName) -> impl Iterator<Item = &str> {
    headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|member| member.trim_matches([' ', '\t']))
        .filter(|member| !member.is_empty())
}

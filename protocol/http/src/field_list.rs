//! Conversion between header fields as pairs of name and value, which messages and caches hold, and [`HeaderMap`].
use http::{HeaderMap, HeaderName, HeaderValue};

/// A field with a name or value that HTTP does not allow (RFC 9110 sections 5.1 and 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a header field is not valid")]
pub struct InvalidField;

/// Converts fields to a map.
///
/// # Errors
/// A field is not valid.
pub fn to_map(fields: &[(String, Vec<u8>)]) -> Result<HeaderMap, InvalidField> {
    // One more, because most users add a field.
    let mut map = HeaderMap::with_capacity(fields.len() + 1);
    for field in fields {
        let (name, value) = parse(field)?;
        map.append(name, value);
    }
    Ok(map)
}

/// Converts fields to a map and leaves out invalid ones.
pub fn to_map_lossy(fields: &[(String, Vec<u8>)]) -> HeaderMap {
    fields.iter().filter_map(|field| parse(field).ok()).collect()
}

/// Converts a map to fields, in the order of the map.
pub fn from_map(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter()
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

fn parse((name, value): &(String, Vec<u8>)) -> Result<(HeaderName, HeaderValue), InvalidField> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| InvalidField)?;
    let value = HeaderValue::from_bytes(value).map_err(|_| InvalidField)?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &[u8]) -> (String, Vec<u8>) {
        (name.to_owned(), value.to_vec())
    }

    #[test]
    fn fields_survive_the_round_trip() {
        let fields = [
            field("set-cookie", b"a=1"),
            field("set-cookie", b"b=\xff"),
            field("etag", b""),
        ];
        let map = to_map(&fields).unwrap();
        assert_eq!(map.get_all("set-cookie").iter().count(), 2);
        let mut back = from_map(&map);
        back.sort();
        let mut sorted = fields.to_vec();
        sorted.sort();
        assert_eq!(back, sorted);
    }

    #[test]
    fn invalid_fields_are_rejected_or_left_out() {
        for invalid in [field("a b", b"x"), field("a", b"x\r\ny: z"), field("", b"x")] {
            assert_eq!(to_map(std::slice::from_ref(&invalid)), Err(InvalidField));
            let map = to_map_lossy(&[invalid, field("etag", b"1")]);
            assert_eq!(map.len(), 1);
        }
    }
}

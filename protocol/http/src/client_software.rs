//! What the fields of a request tell about the software that sent it. Nothing that protects anybody depends on it.
use http::{HeaderMap, header};

/// Returns true if the request is of a browser by its fields: it has Fetch Metadata, or the product name that all browsers
/// send.
pub fn is_browser(request: &HeaderMap) -> bool {
    request.contains_key("sec-fetch-mode") || named(request).is_some_and(|name| name.starts_with(b"Mozilla/"))
}

/// Returns true if the request names software that is no browser.
pub fn is_program(request: &HeaderMap) -> bool {
    named(request).is_some() && !is_browser(request)
}

fn named(request: &HeaderMap) -> Option<&[u8]> {
    request.get(header::USER_AGENT).map(http::HeaderValue::as_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn browsers_are_told_from_programs() {
        for (fields, browser, program) in [
            (&[][..], false, false),
            (&[("user-agent", "Mozilla/5.0 (X11; Linux x86_64)")], true, false),
            (
                &[("sec-fetch-mode", "cors"), ("user-agent", "Odd/1")],
                true,
                false,
            ),
            (&[("user-agent", "curl/8.5.0")], false, true),
            (&[("user-agent", "")], false, true),
        ] {
            let request = map(fields);
            assert_eq!(
                (is_browser(&request), is_program(&request)),
                (browser, program),
                "{fields:?}"
            );
        }
    }
}

//! Invalidation of stored responses by unsafe requests (RFC 9111 section 4.4).
use http::{HeaderMap, Method, StatusCode, header};
use url::Url;

/// Returns the URLs whose stored responses a response invalidates, without fragments. `url` is the URL of the request.
///
/// A non-error response to an unsafe method invalidates `url`, and the URLs of the same origin in `Location` and
/// `Content-Location`. Other responses invalidate nothing.
pub fn invalidated_urls(method: &Method, url: &str, status: StatusCode, response: &HeaderMap) -> Vec<String> {
    if method.is_safe() || !(status.is_success() || status.is_redirection()) {
        return Vec::new();
    }
    let base = Url::parse(url).ok();
    let named = [header::LOCATION, header::CONTENT_LOCATION]
        .into_iter()
        .filter_map(|name| response.get(name)?.to_str().ok())
        .filter_map(|reference| {
            let base = base.as_ref()?;
            let mut named = base.join(reference).ok()?;
            named.set_fragment(None);
            (named.origin() == base.origin()).then(|| named.to_string())
        });
    std::iter::once(url.to_owned()).chain(named).collect()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const OK: StatusCode = StatusCode::OK;

    fn urls(method: &Method, status: StatusCode, location: &'static str) -> Vec<String> {
        let fields = [(header::LOCATION, HeaderValue::from_static(location))];
        invalidated_urls(
            method,
            "http://a.test:81/x/form",
            status,
            &fields.into_iter().collect(),
        )
    }

    #[test]
    fn urls_of_the_same_origin_are_invalidated() {
        for (reference, expected) in [
            ("/list?x#y", Some("http://a.test:81/list?x")),
            ("http://a.test:81/list", Some("http://a.test:81/list")),
            ("//a.test:81/list", Some("http://a.test:81/list")),
            ("list?x", Some("http://a.test:81/x/list?x")),
            ("../list", Some("http://a.test:81/list")),
            ("http://a.test:8/x", None),
            ("https://a.test:81/x", None),
            ("//b.test/x", None),
            ("http://a.test:810/", None),
            ("http://", None),
        ] {
            let own = "http://a.test:81/x/form";
            let expected: Vec<_> = [Some(own), expected].into_iter().flatten().collect();
            assert_eq!(
                urls(&Method::POST, StatusCode::SEE_OTHER, reference),
                expected,
                "{reference}"
            );
        }
    }

    #[test]
    fn content_location_counts() {
        let fields = [(header::CONTENT_LOCATION, HeaderValue::from_static("/item/7"))];
        let fields = fields.into_iter().collect();
        let urls = invalidated_urls(&Method::PUT, "https://a.test/items", OK, &fields);
        assert_eq!(urls, ["https://a.test/items", "https://a.test/item/7"]);
    }

    #[test]
    fn errors_and_safe_methods_invalidate_nothing() {
        assert_eq!(urls(&Method::DELETE, OK, "/").len(), 2);
        for (method, status) in [
            (Method::POST, StatusCode::INTERNAL_SERVER_ERROR),
            (Method::POST, StatusCode::NOT_FOUND),
            (Method::GET, OK),
            (Method::OPTIONS, OK),
        ] {
            assert_eq!(urls(&method, status, "/").len(), 0, "{method} {status}");
        }
    }
}

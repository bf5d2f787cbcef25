//! Resumed fetches (docs/protocol/session.md section 6): check that the origin's response is still the same
//! version.
use http::{HeaderMap, StatusCode, header};
use longhaul_gateway_core::failure::Failure;
use longhaul_session::{FailureReason, Resume, Validator};

/// Checks that a response is the same version as the response to resume.
pub(crate) fn check(resume: &Resume, status: StatusCode, headers: &HeaderMap) -> Result<(), Failure> {
    let field = |name| {
        headers
            .get(name)
            .and_then(|value: &http::HeaderValue| value.to_str().ok())
    };
    let same = match &resume.validator {
        // Bodies with equal weak tags may differ in bytes (RFC 9110 section 8.8.1).
        Validator::EntityTag(tag) => !tag.starts_with("W/") && field(header::ETAG) == Some(tag),
        Validator::LastModified(date) => field(header::LAST_MODIFIED) == Some(date),
        // The last window contains the check of the whole body's hash, which the agent compares with this
        // hash.
        Validator::ContentHash(_) => true,
    };
    if same && [StatusCode::OK, StatusCode::PARTIAL_CONTENT].contains(&status) {
        return Ok(());
    }
    Err(Failure::new(
        FailureReason::Changed,
        "the resource changed since the response began",
    ))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use longhaul_types::ContentHash;

    use super::*;

    #[test]
    fn only_an_equal_strong_validator_resumes() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ETAG, HeaderValue::from_static("\"a\""));
        headers.insert(
            header::LAST_MODIFIED,
            HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT"),
        );
        let goes_on = |validator, status| check(&Resume { offset: 5, validator }, status, &headers).is_ok();
        let tag = |text: &str| Validator::EntityTag(text.to_owned());
        assert!(goes_on(tag("\"a\""), StatusCode::OK));
        assert!(!goes_on(tag("\"b\""), StatusCode::OK));
        assert!(!goes_on(tag("W/\"a\""), StatusCode::OK));
        assert!(!goes_on(tag("\"a\""), StatusCode::NOT_FOUND));
        assert!(goes_on(
            Validator::LastModified("Sun, 06 Nov 1994 08:49:37 GMT".to_owned()),
            StatusCode::OK
        ));
        assert!(goes_on(
            Validator::ContentHash(ContentHash::of(b"")),
            StatusCode::OK
        ));
    }
}

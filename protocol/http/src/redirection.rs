//! Redirections that browsers follow.
use http::{HeaderMap, StatusCode, header};

/// Returns true if a browser follows the response to another URL (Fetch standard, "HTTP-redirect fetch"). It reads nothing of
/// the body then, so that a body that breaks off, or that cannot be decoded, is no failure of the request.
pub fn is_followed(status: StatusCode, response: &HeaderMap) -> bool {
    let is_redirection = matches!(
        status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let mut locations = response.get_all(header::LOCATION).iter();
    is_redirection && locations.any(|location| !location.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn browsers_follow_five_statuses_with_a_location() {
        let is = |status, fields: &[(&'static str, &'static str)]| {
            is_followed(StatusCode::from_u16(status).unwrap(), &map(fields))
        };
        let location = [("location", "/x")];
        for status in [301, 302, 303, 307, 308] {
            assert!(is(status, &location), "{status}");
            assert!(!is(status, &[]) && !is(status, &[("location", "")]), "{status}");
        }
        for status in [200, 201, 300, 304, 305, 306, 309, 404] {
            assert!(!is(status, &location), "{status}");
        }
    }
}

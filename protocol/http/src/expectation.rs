//! The `Expect` field (RFC 9110 section 10.1.1).
use http::{HeaderMap, header};

use crate::list::members;

/// Returns true if the client sends the body of its request only once it is asked for.
pub fn is_continue_expected(request: &HeaderMap) -> bool {
    members(request, header::EXPECT).any(|expectation| expectation.eq_ignore_ascii_case("100-continue"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fields::map;

    #[test]
    fn only_one_expectation_is_defined() {
        for (value, expected) in [("100-Continue", true), ("x, 100-continue", true), ("100", false)] {
            assert_eq!(
                is_continue_expected(&map(&[("expect", value)])),
                expected,
                "{value}"
            );
        }
        assert!(!is_continue_expected(&map(&[])));
    }
}

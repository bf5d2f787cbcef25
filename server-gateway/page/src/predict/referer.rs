//! The `Referer` field (W3C Referrer Policy section 8.3).
use url::Url;

use crate::{ReferrerPolicy, jar::is_trustworthy};

/// Returns the `Referer` value of a request for `target` by `referrer` (page or style sheet); `None` if the
/// request has no such field.
pub fn referer(policy: ReferrerPolicy, referrer: &Url, target: &Url) -> Option<String> {
    if !matches!(referrer.scheme(), "http" | "https") {
        return None;
    }
    let same_origin = referrer.origin() == target.origin();
    let downgrade = is_trustworthy(referrer) && !is_trustworthy(target);
    let origin = || Some(format!("{}/", referrer.origin().ascii_serialization()));
    let whole = || {
        let mut stripped = referrer.clone();
        stripped.set_fragment(None);
        // These calls do not fail for URLs with a host, which all http URLs have.
        stripped.set_username("").ok();
        stripped.set_password(None).ok();
        if stripped.as_str().len() > MAX_REFERER {
            return origin();
        }
        Some(stripped.into())
    };
    match policy {
        ReferrerPolicy::NoReferrer => None,
        ReferrerPolicy::NoReferrerWhenDowngrade if downgrade => None,
        ReferrerPolicy::NoReferrerWhenDowngrade | ReferrerPolicy::UnsafeUrl => whole(),
        ReferrerPolicy::Origin => origin(),
        ReferrerPolicy::OriginWhenCrossOrigin if same_origin => whole(),
        ReferrerPolicy::OriginWhenCrossOrigin => origin(),
        ReferrerPolicy::SameOrigin if same_origin => whole(),
        ReferrerPolicy::SameOrigin => None,
        ReferrerPolicy::StrictOrigin if downgrade => None,
        ReferrerPolicy::StrictOrigin => origin(),
        ReferrerPolicy::StrictOriginWhenCrossOrigin if same_origin => whole(),
        ReferrerPolicy::StrictOriginWhenCrossOrigin if downgrade => None,
        ReferrerPolicy::StrictOriginWhenCrossOrigin => origin(),
    }
}

/// Maximum length; a longer value is reduced to the origin (section 8.3).
const MAX_REFERER: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies() {
        use ReferrerPolicy as P;
        let page: Url = "https://u:p@a.test/dir/page?q=1#f".parse().unwrap();
        let whole = Some("https://a.test/dir/page?q=1");
        let origin = Some("https://a.test/");
        // Columns: same origin, other origin, from https to http.
        let cases = [
            (P::NoReferrer, None, None, None),
            (P::NoReferrerWhenDowngrade, whole, whole, None),
            (P::Origin, origin, origin, origin),
            (P::OriginWhenCrossOrigin, whole, origin, origin),
            (P::SameOrigin, whole, None, None),
            (P::StrictOrigin, origin, origin, None),
            (P::StrictOriginWhenCrossOrigin, whole, origin, None),
            (P::UnsafeUrl, whole, whole, whole),
        ];
        for (policy, same, other, down) in cases {
            for (target, expected) in [
                ("https://a.test/x", same),
                ("https://b.test/x", other),
                ("http://b.test/x", down),
            ] {
                let found = referer(policy, &page, &target.parse().unwrap());
                assert_eq!(found.as_deref(), expected, "{policy:?} {target}");
            }
        }
    }

    #[test]
    fn ports_are_origins_and_length_is_bounded() {
        let page: Url = "http://a.test:8080/p".parse().unwrap();
        let policy = ReferrerPolicy::default();
        assert_eq!(
            referer(policy, &page, &"http://a.test/x".parse().unwrap()).as_deref(),
            Some("http://a.test:8080/")
        );
        let long: Url = format!("http://a.test/{}", "x".repeat(5000)).parse().unwrap();
        assert_eq!(
            referer(policy, &long, &"http://a.test/y".parse().unwrap()).as_deref(),
            Some("http://a.test/")
        );
    }
}

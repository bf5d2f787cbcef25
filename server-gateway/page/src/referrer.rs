//! Referrer policies (W3C Referrer Policy).
use http::HeaderMap;

/// Amount of a page's URL that its requests reveal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferrerPolicy {
    /// Nothing.
    NoReferrer,
    /// The full URL, but nothing from https to http.
    NoReferrerWhenDowngrade,
    /// The origin.
    Origin,
    /// The full URL to the same origin, the origin to others.
    OriginWhenCrossOrigin,
    /// The full URL to the same origin, nothing to others.
    SameOrigin,
    /// The origin, but nothing from https to http.
    StrictOrigin,
    /// The full URL to the same origin, the origin to others, but nothing from https to http: the default.
    #[default]
    StrictOriginWhenCrossOrigin,
    /// The full URL to all targets.
    UnsafeUrl,
}

impl ReferrerPolicy {
    /// Returns the policy with this name, if any.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name.trim().to_ascii_lowercase().as_str() {
            "no-referrer" => Self::NoReferrer,
            "no-referrer-when-downgrade" => Self::NoReferrerWhenDowngrade,
            "origin" => Self::Origin,
            "origin-when-cross-origin" => Self::OriginWhenCrossOrigin,
            "same-origin" => Self::SameOrigin,
            "strict-origin" => Self::StrictOrigin,
            "strict-origin-when-cross-origin" => Self::StrictOriginWhenCrossOrigin,
            "unsafe-url" => Self::UnsafeUrl,
            _ => return None,
        })
    }

    /// Returns the policy of a response: the last known one in its `Referrer-Policy` fields (section 8.1).
    pub fn of_response(headers: &HeaderMap) -> Option<Self> {
        let fields = headers.get_all(http::header::REFERRER_POLICY).iter();
        let last = |field: &http::HeaderValue| {
            let value = String::from_utf8_lossy(field.as_bytes()).into_owned();
            value.rsplit(',').find_map(Self::named)
        };
        fields.rev().find_map(last)
    }

    /// Returns the policy of `<meta name=referrer>`, where older names are also valid (HTML Living Standard
    /// 4.2.5.1).
    pub(crate) fn of_meta(content: &str) -> Option<Self> {
        match content.trim().to_ascii_lowercase().as_str() {
            "never" => Some(Self::NoReferrer),
            "default" => Some(Self::default()),
            "always" => Some(Self::UnsafeUrl),
            "origin-when-crossorigin" => Some(Self::OriginWhenCrossOrigin),
            other => Self::named(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_known_policy_of_a_response_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(ReferrerPolicy::of_response(&headers), None);
        headers.append(
            "referrer-policy",
            "no-referrer, Origin, new-policy".parse().unwrap(),
        );
        assert_eq!(
            ReferrerPolicy::of_response(&headers),
            Some(ReferrerPolicy::Origin)
        );
        headers.append("referrer-policy", "same-origin".parse().unwrap());
        assert_eq!(
            ReferrerPolicy::of_response(&headers),
            Some(ReferrerPolicy::SameOrigin)
        );
        headers.append("referrer-policy", "bogus".parse().unwrap());
        assert_eq!(
            ReferrerPolicy::of_response(&headers),
            Some(ReferrerPolicy::SameOrigin)
        );
    }

    #[test]
    fn legacy_policy_names_count_in_markup_only() {
        assert_eq!(
            ReferrerPolicy::of_meta(" Never "),
            Some(ReferrerPolicy::NoReferrer)
        );
        assert_eq!(ReferrerPolicy::named("never"), None);
        assert_eq!(ReferrerPolicy::of_meta("bogus"), None);
    }
}

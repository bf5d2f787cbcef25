//! Form of a learned request: what its URL and destination do not determine.
use http::{HeaderMap, header};
use url::Url;

use crate::{CrossOrigin, Destination, Initiator, ReferrerPolicy, predict};

/// Mode, credentials mode and referrer policy of a request that a script made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestForm {
    /// Mode and credentials mode.
    pub cross_origin: CrossOrigin,
    /// The policy of the request; `None`: that of the document.
    pub referrer_policy: Option<ReferrerPolicy>,
}

/// A request whose URL stands in the document of the page: destination and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralRequest {
    /// Destination of the subresource.
    pub destination: Destination,
    /// Mode, credentials mode and referrer policy of the request.
    pub form: RequestForm,
}

impl RequestForm {
    /// Returns the form of the browser's `request` for `url`, which `document` made. `None` if no plan can contain such
    /// a request: its mode is `same-origin` (workers) or `websocket`, or `no-cors` without a destination.
    pub fn of(
        document: &Initiator,
        url: &Url,
        destination: Destination,
        request: &HeaderMap,
    ) -> Option<Self> {
        let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
        let has_origin = request.contains_key(header::ORIGIN);
        let is_own = document.url().origin() == url.origin();
        let is_fetched = destination == Destination::Other;
        let cross_origin = match text("sec-fetch-mode") {
            Some("navigate") if destination.is_document() => CrossOrigin::None,
            Some("no-cors") if !is_fetched => CrossOrigin::None,
            // On plain http the mode is not stated, and `Origin` shows it.
            None if !has_origin => CrossOrigin::None,
            Some("cors") if is_own && is_fetched && !has_origin => CrossOrigin::None,
            Some("cors") | None if !is_own && request.contains_key(header::COOKIE) => {
                CrossOrigin::Credentials
            }
            Some("cors") | None => CrossOrigin::Anonymous,
            Some(_) => return None,
        };
        let policy = referrer_policy(document, url, text(header::REFERER.as_str()));
        Some(Self {
            cross_origin,
            referrer_policy: policy,
        })
    }

    /// The form as a byte in a record.
    pub(super) const fn code(self) -> u8 {
        let cross_origin = match self.cross_origin {
            CrossOrigin::None => 0,
            CrossOrigin::Anonymous => 1,
            CrossOrigin::Credentials => 2,
            CrossOrigin::Omitted => 3,
        };
        let policy = match self.referrer_policy {
            None => 0,
            Some(ReferrerPolicy::NoReferrer) => 1,
            Some(ReferrerPolicy::NoReferrerWhenDowngrade) => 2,
            Some(ReferrerPolicy::Origin) => 3,
            Some(ReferrerPolicy::OriginWhenCrossOrigin) => 4,
            Some(ReferrerPolicy::SameOrigin) => 5,
            Some(ReferrerPolicy::StrictOrigin) => 6,
            Some(ReferrerPolicy::StrictOriginWhenCrossOrigin) => 7,
            Some(ReferrerPolicy::UnsafeUrl) => 8,
        };
        cross_origin | policy << 2
    }

    /// The form of a byte of [`Self::code`].
    pub(super) fn of_code(code: u8) -> Option<Self> {
        let cross_origin = match code & 3 {
            0 => CrossOrigin::None,
            1 => CrossOrigin::Anonymous,
            2 => CrossOrigin::Credentials,
            _ => CrossOrigin::Omitted,
        };
        let policy = usize::from(code >> 2).checked_sub(1);
        Some(Self {
            cross_origin,
            referrer_policy: match policy {
                None => None,
                Some(number) => Some(*POLICIES.get(number)?),
            },
        })
    }
}

/// Returns the policy by which the document's `Referer` would be the stated one; `None` if the document's own policy
/// explains it, or none does.
fn referrer_policy(document: &Initiator, url: &Url, stated: Option<&str>) -> Option<ReferrerPolicy> {
    let referrer = document.referrer()?;
    let gives = |policy| predict::referer(policy, referrer, url).as_deref() == stated;
    if gives(document.referrer_policy().unwrap_or_default()) {
        return None;
    }
    POLICIES.into_iter().find(|policy| gives(*policy))
}

const POLICIES: [ReferrerPolicy; 8] = [
    ReferrerPolicy::NoReferrer,
    ReferrerPolicy::NoReferrerWhenDowngrade,
    ReferrerPolicy::Origin,
    ReferrerPolicy::OriginWhenCrossOrigin,
    ReferrerPolicy::SameOrigin,
    ReferrerPolicy::StrictOrigin,
    ReferrerPolicy::StrictOriginWhenCrossOrigin,
    ReferrerPolicy::UnsafeUrl,
];

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn of(
        target: &str,
        destination: Destination,
        request: &[(&'static str, &'static str)],
    ) -> Option<RequestForm> {
        let page = Url::parse("https://a.test/dir/page?q=1").unwrap();
        let request: HeaderMap = request
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        let document = Initiator::page(&page, &HeaderMap::new());
        RequestForm::of(&document, &page.join(target).unwrap(), destination, &request)
    }

    #[test]
    fn the_mode_follows_from_the_fields_of_the_request() {
        let mode =
            |target, destination, fields: &[_]| of(target, destination, fields).map(|form| form.cross_origin);
        let (no_cors, cors) = (("sec-fetch-mode", "no-cors"), ("sec-fetch-mode", "cors"));
        let origin = ("origin", "https://a.test");
        let (other, script) = (Destination::Other, Destination::Script);
        for (target, destination, fields, expected) in [
            ("/x.js", script, &[no_cors][..], Some(CrossOrigin::None)),
            ("/x.js", script, &[], Some(CrossOrigin::None)),
            ("/m.js", script, &[cors, origin], Some(CrossOrigin::Anonymous)),
            ("/x.json", other, &[cors], Some(CrossOrigin::None)),
            (
                "https://b.test/x",
                other,
                &[cors, origin],
                Some(CrossOrigin::Anonymous),
            ),
            (
                "https://b.test/x",
                other,
                &[cors, origin, ("cookie", "a=1")],
                Some(CrossOrigin::Credentials),
            ),
            ("/ping", other, &[no_cors], None),
            ("/worker.js", script, &[("sec-fetch-mode", "same-origin")], None),
            ("/socket", other, &[("sec-fetch-mode", "websocket")], None),
        ] {
            assert_eq!(mode(target, destination, fields), expected, "{target} {fields:?}");
        }
    }

    #[test]
    fn the_referrer_policy_is_stored_only_if_it_is_not_the_documents() {
        let policy =
            |target: &str, fields: &[_]| of(target, Destination::Image, fields).unwrap().referrer_policy;
        let whole = ("referer", "https://a.test/dir/page?q=1");
        assert_eq!(policy("/x.png", &[whole]), None);
        assert_eq!(
            policy("https://b.test/x.png", &[("referer", "https://a.test/")]),
            None
        );
        assert_eq!(policy("/x.png", &[]), Some(ReferrerPolicy::NoReferrer));
        let whole_to_others = policy("https://b.test/x.png", &[whole]);
        assert_eq!(whole_to_others, Some(ReferrerPolicy::NoReferrerWhenDowngrade));
        assert_eq!(policy("/x.png", &[("referer", "https://other.test/")]), None);
    }

    #[test]
    fn codes_round_trip() {
        let mut known = 0;
        for code in 0..=u8::MAX {
            if let Some(form) = RequestForm::of_code(code) {
                assert_eq!(form.code(), code);
                known += 1;
            }
        }
        assert_eq!(known, 4 * 9);
        assert_eq!(RequestForm::of_code(0), Some(RequestForm::default()));
    }
}

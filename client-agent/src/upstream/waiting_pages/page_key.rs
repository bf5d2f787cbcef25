//! Which requests the answer to a waiting request may answer.
use http::{HeaderMap, HeaderName, header};
use longhaul_http::request_context::{RequestContext, SiteRelation};
use longhaul_types::{ClientId, ContentHash};

/// Request fields that must be equal: those of the user, and those that the browser's program and settings determine.
/// Another browser of the same user may be unable to use the answer.
const SELECTING: [HeaderName; 6] = [
    header::COOKIE,
    header::AUTHORIZATION,
    header::USER_AGENT,
    header::ACCEPT,
    header::ACCEPT_ENCODING,
    header::ACCEPT_LANGUAGE,
];

/// What a request must have in common with the request that is waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageKey {
    pub(super) client: ClientId,
    pub(super) url: String,
    /// Hash of the [`SELECTING`] fields.
    fields: ContentHash,
    relation: SiteRelation,
}

impl PageKey {
    pub(crate) fn of(context: &RequestContext, url: &str, headers: &HeaderMap) -> Self {
        let mut fields = Vec::new();
        for name in SELECTING {
            for value in headers.get_all(&name) {
                fields.extend_from_slice(name.as_str().as_bytes());
                fields.extend_from_slice(&(value.len() as u64).to_be_bytes());
                fields.extend_from_slice(value.as_bytes());
            }
        }
        Self {
            client: context.client(),
            url: url.to_owned(),
            fields: ContentHash::of(&fields),
            relation: context.relation(),
        }
    }

    /// True if the answer to this request may answer `other`. The page that waits has the target's origin, and so has
    /// the request with which its browser asks again.
    pub(super) fn answers(&self, other: &Self) -> bool {
        let by_this_page_or_user = matches!(
            other.relation,
            SiteRelation::SameOrigin | SiteRelation::None | SiteRelation::Unknown
        );
        self.client == other.client
            && self.url == other.url
            && self.fields == other.fields
            && (by_this_page_or_user || self.relation == other.relation)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use http::{HeaderValue, Method};
    use longhaul_http::request_context::CredentialsSecret;

    use super::*;

    const URL: &str = "http://www.a.test/page";

    pub(in super::super) fn key(relation: SiteRelation, fields: &[u8]) -> PageKey {
        PageKey {
            client: ClientId::OWNER,
            url: URL.to_owned(),
            fields: ContentHash::of(fields),
            relation,
        }
    }

    #[test]
    fn only_the_same_client_with_the_same_cookies_gets_the_answer() {
        let asked = key(SiteRelation::CrossSite, b"a=1");
        assert!(
            asked.answers(&key(SiteRelation::SameOrigin, b"a=1")),
            "the page itself"
        );
        assert!(asked.answers(&key(SiteRelation::CrossSite, b"a=1")));
        assert!(!asked.answers(&key(SiteRelation::SameOrigin, b"")));
        let typed = key(SiteRelation::None, b"a=1");
        assert!(
            !typed.answers(&key(SiteRelation::CrossSite, b"a=1")),
            "another site"
        );
        assert!(!typed.answers(&key(SiteRelation::SameSite, b"a=1")));
        let other = PageKey {
            client: ClientId(7),
            ..key(SiteRelation::None, b"a=1")
        };
        assert!(!typed.answers(&other));
    }

    #[test]
    fn another_browser_gets_no_answer() {
        let secret = CredentialsSecret::derived_from(&[7]);
        let key = |fields: &[(&'static str, &'static str)]| {
            let fields = fields.iter().chain(&[("sec-fetch-mode", "navigate")]);
            let headers: HeaderMap = fields
                .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
                .collect();
            let context = RequestContext::of(ClientId::OWNER, &secret, &Method::GET, URL, &headers);
            PageKey::of(&context, URL, &headers)
        };
        let first = key(&[("user-agent", "one"), ("accept-encoding", "br")]);
        // What the page that waits adds to its request.
        assert!(first.answers(&key(&[
            ("user-agent", "one"),
            ("accept-encoding", "br"),
            ("cache-control", "max-age=0")
        ])));
        for other in [
            &[("user-agent", "other"), ("accept-encoding", "br")][..],
            &[("user-agent", "one")],
            &[
                ("user-agent", "one"),
                ("accept-encoding", "br"),
                ("cookie", "a=1"),
            ],
        ] {
            assert!(!first.answers(&key(other)), "{other:?}");
        }
    }
}

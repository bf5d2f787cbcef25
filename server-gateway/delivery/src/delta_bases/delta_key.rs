//! The delta key: the properties of a response that decide which bodies may be its base.
use http::{HeaderMap, Method, StatusCode, header};
use longhaul_cache::Partition;
use longhaul_http::{policy, request_context::CredentialsKey};
use longhaul_webcache::RequesterIdentity;
use url::Url;

/// Delta key of a response that may have a base and be a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaKey {
    /// Bases are limited to one client and requesting site.
    pub(super) partition: Partition,
    /// Bases are limited to one origin.
    pub(super) origin: String,
    pub(super) url: u64,
    /// Hash of the URL without the parts that differ between pages of a kind and versions of a file.
    pub(super) template: u64,
    pub(super) kind: TextKind,
    /// Key of the request's credentials; `None` if it had none.
    pub(super) credentials: Option<CredentialsKey>,
}

/// Kind of text: texts of different kinds have little in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum TextKind {
    Document = 1,
    Style = 2,
    Script = 3,
    Data = 4,
}

impl DeltaKey {
    /// Derives the delta key of an exchange; `request` contains the fields that the origin received. `None`
    /// if the body must neither have a base nor be one.
    pub fn of(
        url: &Url,
        identity: &RequesterIdentity,
        request: &HeaderMap,
        status: StatusCode,
        response: &HeaderMap,
    ) -> Option<Self> {
        if !status.is_success() || !policy::agent_stores(&Method::GET, request, status, response) {
            return None;
        }
        let kind = TextKind::of(response)?;
        // A site that makes a browser request another site's pages with the user's cookies must neither
        // choose their bases nor what they are bases for. An unknown requester may be such a site.
        if identity.context().is_credentialed_by_stranger(request) {
            return None;
        }
        Some(Self {
            partition: identity.partition()?,
            origin: url.origin().ascii_serialization(),
            url: hash(url.as_str().as_bytes()),
            template: hash(template(url).as_bytes()),
            kind,
            credentials: identity.context().credentials(),
        })
    }

    /// Returns true if the response may contain a user's data, so that its size must be padded.
    pub(super) fn is_personal(&self) -> bool {
        self.credentials.is_some()
    }
}

impl TextKind {
    fn of(response: &HeaderMap) -> Option<Self> {
        let value = response.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let essence = value.split(';').next().unwrap_or_default().trim();
        let essence = essence.to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/')?;
        match (kind, subtype) {
            (_, "html" | "xhtml+xml") => Some(Self::Document),
            ("text", "css") => Some(Self::Style),
            (_, "javascript" | "x-javascript" | "ecmascript") => Some(Self::Script),
            (_, "json" | "xml" | "svg+xml" | "rss+xml" | "atom+xml" | "ld+json" | "plain") => {
                Some(Self::Data)
            }
            _ => None,
        }
    }

    pub(super) fn of_code(code: u8) -> Option<Self> {
        [Self::Document, Self::Style, Self::Script, Self::Data]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// The URL's path and query names, without numbers, hashes and titles.
fn template(url: &Url) -> String {
    let mut template = String::new();
    for segment in url.path().split('/') {
        let mut words = segment.split(['-', '_', '.']).peekable();
        let is_title = segment.split(['-', '_']).count() > TITLE_WORDS;
        let extension = segment.rsplit_once('.').map_or("", |(_, extension)| extension);
        template.push('/');
        if is_title {
            template.push('*');
            template.push_str(extension);
            continue;
        }
        while let Some(word) = words.next() {
            if word.bytes().any(|byte| byte.is_ascii_digit()) {
                template.push('#');
            } else {
                template.push_str(word);
            }
            if words.peek().is_some() {
                template.push('.');
            }
        }
    }
    let mut names: Vec<_> = url.query_pairs().map(|(name, _)| name.into_owned()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        template.push('&');
        template.push_str(&name);
    }
    template
}

/// A path segment with more words than this counts as a title.
const TITLE_WORDS: usize = 4;

fn hash(bytes: &[u8]) -> u64 {
    first(blake3::hash(bytes))
}

fn first(hash: blake3::Hash) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, Method};
    use longhaul_http::request_context::CredentialsSecret;
    use longhaul_types::{ClientId, PublicKey};

    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn identity(url: &str, request: &HeaderMap) -> RequesterIdentity {
        let who = (PublicKey::from_bytes([1; 32]), ClientId::OWNER);
        RequesterIdentity::of(
            who,
            &CredentialsSecret::derived_from(&[7]),
            &Method::GET,
            url,
            request,
        )
    }

    fn subject(url: &str, request: &[(&'static str, &str)]) -> Option<DeltaKey> {
        let response = fields(&[("content-type", "text/html; charset=utf-8")]);
        let request = fields(request);
        let identity = identity(url, &request);
        DeltaKey::of(
            &Url::parse(url).unwrap(),
            &identity,
            &request,
            StatusCode::OK,
            &response,
        )
    }

    const TYPED: [(&str, &str); 3] = [
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];

    #[test]
    fn versions_of_a_file_and_similar_pages_share_a_template() {
        let same = |one: &str, other: &str| {
            let of = |path: &str| template(&Url::parse("http://a.test").unwrap().join(path).unwrap());
            of(one) == of(other)
        };
        assert!(same("/app.3f2a1c.js", "/app.91bc00.js"));
        assert!(same("/static/main-0a1b.css?v=1", "/static/main-9f9f.css?v=2"));
        assert!(same(
            "/news/2026/11/21/a-long-title-of-an-article",
            "/news/2025/1/2/another-title-that-is-long-enough"
        ));
        assert!(same("/story/12345", "/story/999"));
        assert!(!same("/story/12345", "/author/12345"));
        assert!(!same("/app.3f2a1c.js", "/vendor.3f2a1c.js"));
        assert!(!same("/x?a=1", "/x?b=1"));
        assert!(
            !same("/one-two-three-four", "/five-six-seven-eight"),
            "too short for a title"
        );
        assert!(same("/one-two-three-four-five", "/six-seven-eight-nine-ten"));
    }

    #[test]
    fn other_urls_and_other_templates_have_other_keys() {
        let of = |url| subject(url, &TYPED).unwrap();
        let (story, next, author) = (
            of("http://a.test/story/1"),
            of("http://a.test/story/2"),
            of("http://a.test/author/1"),
        );
        assert_ne!(story.url, next.url);
        assert_eq!(story.template, next.template);
        assert_ne!(story.template, author.template);
    }

    #[test]
    fn bodies_are_compared_with_bodies_of_their_kind() {
        let kind = |content_type| TextKind::of(&fields(&[("content-type", content_type)]));
        for (content_type, expected) in [
            ("application/xhtml+xml", TextKind::Document),
            ("text/css;charset=utf-8", TextKind::Style),
            ("text/javascript", TextKind::Script),
            ("application/json", TextKind::Data),
            ("application/ld+json", TextKind::Data),
            ("image/svg+xml", TextKind::Data),
            ("application/rss+xml", TextKind::Data),
            ("text/plain", TextKind::Data),
        ] {
            assert_eq!(kind(content_type), Some(expected), "{content_type}");
            assert_eq!(TextKind::of_code(expected as u8), Some(expected));
        }
        assert_eq!(kind("image/css"), None);
        assert_eq!(TextKind::of_code(9), None);
    }

    #[test]
    fn users_have_separate_bases_and_visit_counters_are_ignored() {
        let of = |name: &'static str, value: &str| {
            let typed = [&TYPED[..], &[(name, value)]].concat();
            subject("http://a.test/", &typed).unwrap()
        };
        assert!(!subject("http://a.test/", &TYPED).unwrap().is_personal());
        assert!(!of("cookie", "_ga=1; _gid=2").is_personal());
        let credentials = |cookie| of("cookie", cookie).credentials;
        assert_ne!(credentials("sid=1"), credentials("sid=2"));
        assert_eq!(credentials("sid=1; a=b"), credentials("a=b; _ga=7;sid=1"));
        assert!(of("authorization", "Basic eDp5").is_personal());
    }

    #[test]
    fn cross_site_requests_with_cookies_get_no_base() {
        let says_upgrade = ("upgrade-insecure-requests", "1");
        let from = |fields: &[(&'static str, &str)], cookie: &str| {
            let request = [fields, &[("cookie", cookie)]].concat();
            subject("http://a.test/", &request).is_some()
        };
        let cross = [("sec-fetch-site", "cross-site"), TYPED[1], TYPED[2]];
        assert!(!from(&cross, "sid=1"), "also without referrer");
        assert!(!from(&[("referer", "http://evil.test/"), says_upgrade], "sid=1"));
        assert!(!from(&[("origin", "null")], "sid=1"));
        assert!(!from(&[says_upgrade], "sid=1"), "nobody knows who asks");
        assert!(from(
            &[("referer", "http://a.test/before"), says_upgrade],
            "sid=1"
        ));
        assert!(from(&TYPED, "sid=1"));
        // The request contains no data of the user.
        assert!(subject("http://a.test/", &cross).is_some());
        assert!(
            subject(
                "http://a.test/",
                &[("referer", "http://evil.test/"), says_upgrade]
            )
            .is_some()
        );
    }

    #[test]
    fn bases_come_from_the_same_requesting_site() {
        let from = |referrer: &str| {
            subject("http://cdn.test/x.html", &[("referer", referrer)])
                .unwrap()
                .partition
        };
        assert_eq!(from("http://a.test/1"), from("http://www.a.test/2"));
        assert_ne!(from("http://a.test/"), from("http://b.test/"));
        assert_eq!(
            subject("http://cdn.test/x.html", &[]),
            None,
            "nobody knows who asks"
        );
    }

    #[test]
    fn only_text_that_the_agent_stores_becomes_a_base() {
        let of = |status: u16, response: &[(&'static str, &str)]| {
            let status = StatusCode::from_u16(status).unwrap();
            let url = Url::parse("http://a.test/x").unwrap();
            let request = fields(&TYPED);
            let identity = identity(url.as_str(), &request);
            DeltaKey::of(&url, &identity, &request, status, &fields(response)).is_some()
        };
        assert!(of(200, &[("content-type", "application/javascript")]));
        assert!(of(200, &[("content-type", "Text/CSS")]));
        assert!(!of(200, &[("content-type", "image/png")]));
        assert!(!of(200, &[]));
        assert!(!of(404, &[("content-type", "text/html")]));
        assert!(!of(
            200,
            &[("content-type", "text/html"), ("cache-control", "no-store")]
        ));
    }
}

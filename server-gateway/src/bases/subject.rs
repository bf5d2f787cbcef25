//! What a response is about, as far as the choice of its base goes.
use http::{HeaderMap, StatusCode, header};
use longhaul_http::policy;
use url::Url;

/// A response that may be a base, and may have one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Bases stay within an origin.
    pub(super) origin: String,
    pub(super) url: u64,
    /// The URL without what differs between pages of a kind and versions of a file.
    pub(super) template: u64,
    pub(super) kind: Kind,
    pub(super) credentials: Credentials,
}

/// What kind of text it is: others have little in common with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    Document = 1,
    Style = 2,
    Script = 3,
    Data = 4,
}

/// As whom it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Credentials {
    /// As nobody.
    None,
    /// With these cookies and this authorization, as a hash.
    Of(u64),
}

impl Subject {
    /// Judges an exchange; `request` is what the origin got. `None`: its body neither has a base nor is one.
    pub(crate) fn of(
        url: &Url,
        request: &HeaderMap,
        status: StatusCode,
        response: &HeaderMap,
    ) -> Option<Self> {
        if !status.is_success() || !policy::agent_stores(status, response) {
            return None;
        }
        let kind = Kind::of(response)?;
        let credentials = Credentials::of(request);
        // Whoever makes a browser ask with its user's cookies for pages of another site must not choose their bases, nor
        // what they are bases for.
        if credentials != Credentials::None && is_from_elsewhere(url, request) {
            return None;
        }
        Some(Self {
            origin: url.origin().ascii_serialization(),
            url: hash(url.as_str().as_bytes()),
            template: hash(template(url).as_bytes()),
            kind,
            credentials,
        })
    }

    /// Whether it may tell something about a user, so that its size must not tell more.
    pub(crate) fn is_personal(&self) -> bool {
        self.credentials != Credentials::None
    }
}

impl Kind {
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

impl Credentials {
    fn of(request: &HeaderMap) -> Self {
        let mut hasher = blake3::Hasher::new();
        let mut any = false;
        for value in request.get_all(header::AUTHORIZATION) {
            any = true;
            hasher.update(b"a").update(value.as_bytes()).update(&[0]);
        }
        let cookies = request.get_all(header::COOKIE).iter();
        let mut pairs: Vec<&[u8]> = cookies
            .flat_map(|value| value.as_bytes().split(|byte| *byte == b';'))
            .map(<[u8]>::trim_ascii)
            .filter(|pair| !pair.is_empty() && !is_measurement(pair))
            .collect();
        pairs.sort_unstable();
        for pair in pairs {
            any = true;
            hasher.update(b"c").update(pair).update(&[0]);
        }
        if any {
            Self::Of(first(hasher.finalize()))
        } else {
            Self::None
        }
    }
}

/// Cookies that count visits: they change with each and say nothing about what a page shows.
fn is_measurement(pair: &[u8]) -> bool {
    const NAMES: [&[u8]; 10] = [
        b"_ga", b"_gid", b"_gat", b"_gcl_", b"__utm", b"_pk_", b"_fbp", b"_hj", b"_cl", b"__gads",
    ];
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    NAMES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether another site's page made the browser ask. Where the browser does not say, its user did.
fn is_from_elsewhere(url: &Url, request: &HeaderMap) -> bool {
    let text = |name: &str| request.get(name).and_then(|value| value.to_str().ok());
    if let Some(site) = text("sec-fetch-site") {
        return !matches!(site, "same-origin" | "none");
    }
    let referrer = text("origin").or_else(|| text("referer"));
    referrer.is_some_and(|referrer| {
        Url::parse(referrer).map_or(true, |referrer| referrer.host_str() != url.host_str())
    })
}

/// The path and the names of the query, with numbers, hashes and titles taken out.
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

/// A segment of more words is a title.
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
    use http::HeaderName;

    use super::*;

    fn fields(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    fn subject(url: &str, request: &[(&'static str, &str)]) -> Option<Subject> {
        let response = fields(&[("content-type", "text/html; charset=utf-8")]);
        Subject::of(
            &Url::parse(url).unwrap(),
            &fields(request),
            StatusCode::OK,
            &response,
        )
    }

    #[test]
    fn versions_of_a_file_and_pages_of_a_kind_have_a_template_in_common() {
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
    }

    #[test]
    fn users_are_kept_apart_and_visit_counters_do_not_matter() {
        let of = |cookie: &str| {
            subject("http://a.test/", &[("cookie", cookie)])
                .unwrap()
                .credentials
        };
        assert_eq!(
            subject("http://a.test/", &[]).unwrap().credentials,
            Credentials::None
        );
        assert_eq!(of("_ga=1; _gid=2"), Credentials::None);
        assert_ne!(of("sid=1"), of("sid=2"));
        assert_eq!(of("sid=1; a=b"), of("a=b; _ga=7;sid=1"));
        let basic = subject("http://a.test/", &[("authorization", "Basic eDp5")]).unwrap();
        assert!(basic.is_personal());
    }

    #[test]
    fn what_other_sites_ask_for_with_cookies_is_left_alone() {
        let from = |name: &'static str, value: &str, cookie: &str| {
            subject("http://a.test/", &[(name, value), ("cookie", cookie)]).is_some()
        };
        assert!(!from("referer", "http://evil.test/", "sid=1"));
        assert!(!from("sec-fetch-site", "cross-site", "sid=1"));
        assert!(!from("origin", "null", "sid=1"));
        assert!(from("referer", "http://a.test/before", "sid=1"));
        assert!(from("sec-fetch-site", "none", "sid=1"));
        assert!(from("referer", "http://evil.test/", "_ga=1"));
    }

    #[test]
    fn only_text_that_the_agent_stores_counts() {
        let of = |status: u16, response: &[(&'static str, &str)]| {
            let status = StatusCode::from_u16(status).unwrap();
            let url = Url::parse("http://a.test/x").unwrap();
            Subject::of(&url, &HeaderMap::new(), status, &fields(response)).is_some()
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

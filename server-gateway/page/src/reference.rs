//! References to subresources.
use std::borrow::Cow;

use encoding_rs::Encoding;
use url::Url;

use crate::{Destination, ReferrerPolicy, Sandbox, port};

/// Maximum length of a planned URL; browsers load longer ones, but these contain data that a plan cannot
/// predict.
const MAX_URL: usize = 16 * 1024;

/// Degree to which the display of the page waits for a subresource; lower values are more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Importance {
    /// Painting or parsing waits for the object.
    Blocking,
    /// Used soon, or changes the display.
    High,
    /// Completes the display.
    Normal,
    /// Not displayed at first.
    Lazy,
}

/// Probability that the browser requests a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The markup alone determines the load.
    Sure,
    /// The load depends on layout, elements or settings: fonts, background images, lazy images, icons.
    Likely,
    /// The markup does not cause the load, but a script or the user may: background images of rules for
    /// elements that the document does not contain, or for states such as `:hover`. Not sent unless used
    /// before.
    Unlikely,
}

/// Mode and credentials mode of a cross-origin request (HTML Living Standard 2.5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrossOrigin {
    /// `no-cors` with credentials (`navigate` for frames): only the browser's cookie rules apply.
    #[default]
    None,
    /// `cors`, with credentials only to the same origin. Other origins receive `Origin`.
    Anonymous,
    /// `cors` with credentials. Other origins receive `Origin`.
    Credentials,
    /// `cors` without credentials, also to the same origin.
    Omitted,
}

impl CrossOrigin {
    /// Parses a `crossorigin` attribute; an unknown value counts as `anonymous`.
    pub(crate) fn of_attribute(value: Option<&str>) -> Self {
        match value {
            None => Self::None,
            Some(value) if value.eq_ignore_ascii_case("use-credentials") => Self::Credentials,
            Some(_) => Self::Anonymous,
        }
    }
}

/// Source that inserts a subresource into a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inserter {
    /// Markup or a style sheet.
    #[default]
    Parser,
    /// A script, on an earlier visit.
    Script,
}

/// Permission of a request to carry credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CredentialsPermission {
    /// The cookie rules decide.
    #[default]
    ByCookieRules,
    /// Only other users' browsers reported the object: its requests never carry credentials.
    Never,
}

/// A subresource to which a page, a style sheet or a response's `Link` field refers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Absolute URL, http or https, without fragment and user.
    pub url: Url,
    /// Destination of the request.
    pub destination: Destination,
    /// Importance for the display of the page.
    pub importance: Importance,
    /// Certainty of the browser's request.
    pub certainty: Certainty,
    /// Mode and credentials mode of the request.
    pub cross_origin: CrossOrigin,
    /// The policy of the element or document; `None`: that of the referring response, else the default.
    pub referrer_policy: Option<ReferrerPolicy>,
    /// The element's `nonce`, which a content security policy may require.
    pub nonce: Option<Box<str>>,
    /// The element's `integrity`, which a content security policy may list.
    pub integrity: Option<Box<str>>,
    /// For a frame: the restrictions of its `sandbox` attribute.
    pub sandbox: Sandbox,
    /// Source that inserts the subresource into the document.
    pub inserter: Inserter,
    /// Permission to carry credentials.
    pub credentials: CredentialsPermission,
    /// True if only backgrounds of `style` attributes display the image: a style sheet that is not known yet may override
    /// them.
    pub is_inline_background: bool,
}

impl Reference {
    /// Creates a reference with the default importance, certainty and mode of its destination.
    pub fn new(url: Url, destination: Destination) -> Self {
        let (importance, certainty) = match destination {
            Destination::Document | Destination::Style => (Importance::Blocking, Certainty::Sure),
            Destination::Script => (Importance::Blocking, Certainty::Sure),
            Destination::Frame => (Importance::High, Certainty::Sure),
            Destination::Font => (Importance::High, Certainty::Likely),
            Destination::Image | Destination::Other => (Importance::Normal, Certainty::Sure),
            Destination::InactiveStyle => (Importance::Lazy, Certainty::Sure),
            Destination::Icon | Destination::Manifest => (Importance::Lazy, Certainty::Likely),
        };
        let cross_origin = match destination {
            Destination::Font => CrossOrigin::Anonymous,
            Destination::Manifest => CrossOrigin::Omitted,
            Destination::Document
            | Destination::Frame
            | Destination::Style
            | Destination::InactiveStyle
            | Destination::Script
            | Destination::Image
            | Destination::Other
            | Destination::Icon => CrossOrigin::None,
        };
        Self {
            url,
            destination,
            importance,
            certainty,
            cross_origin,
            referrer_policy: None,
            nonce: None,
            integrity: None,
            sandbox: Sandbox::default(),
            inserter: Inserter::Parser,
            credentials: CredentialsPermission::ByCookieRules,
            is_inline_background: false,
        }
    }

    pub(crate) fn with_importance(mut self, importance: Importance) -> Self {
        self.importance = importance;
        self
    }

    pub(crate) fn with_certainty(mut self, certainty: Certainty) -> Self {
        self.certainty = certainty;
        self
    }

    pub(crate) fn with_cross_origin(mut self, cross_origin: CrossOrigin) -> Self {
        self.cross_origin = cross_origin;
        self
    }
}

/// Base of relative URLs.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) url: Url,
    /// Encoding of the document or style sheet, in which browsers encode the query of a URL.
    pub(crate) encoding: &'static Encoding,
}

impl Base {
    /// Creates a base with UTF-8.
    pub(crate) fn new(url: &Url) -> Self {
        Self {
            url: url.clone(),
            encoding: encoding_rs::UTF_8,
        }
    }

    /// Returns the absolute URL of `target`, without fragment; `None` for `data:` URLs, fragments of the same
    /// document and similar, and for URLs that browsers do not fetch: blocked ports, dangling markup.
    pub(crate) fn resolve(&self, target: &str) -> Option<Url> {
        if is_dangling(target) {
            return None;
        }
        let target = target.trim_matches(|c: char| c <= ' ');
        if target.is_empty() || target.starts_with('#') || target.len() > MAX_URL {
            return None;
        }
        let mut url = self.join(target)?;
        url.set_fragment(None);
        let http = matches!(url.scheme(), "http" | "https") && url.has_host();
        // Browsers block subresource requests with a user in the URL (Fetch standard, 4.5
        // HTTP-network-or-cache fetch).
        let plain = url.username().is_empty() && url.password().is_none();
        (http && plain && !url.port().is_some_and(port::is_blocked) && url.as_str().len() <= MAX_URL)
            .then_some(url)
    }

    /// Like `resolve`, for any scheme.
    pub(crate) fn join(&self, target: &str) -> Option<Url> {
        let encoding = self.encoding.output_encoding();
        if encoding == encoding_rs::UTF_8 || target.is_ascii() {
            return self.url.join(target).ok();
        }
        let encode: &dyn Fn(&str) -> Cow<'_, [u8]> = &|query| encoding.encode(query).0;
        let options = Url::options();
        options
            .base_url(Some(&self.url))
            .encoding_override(Some(encode))
            .parse(target)
            .ok()
    }
}

/// Returns true if a URL may come from an unclosed attribute that contains the following markup (Fetch
/// standard, "potentially dangling markup"): it contains `<` and a line break or tab.
fn is_dangling(target: &str) -> bool {
    target.contains('<') && target.contains(['\n', '\r', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangling_markup_and_blocked_ports_give_no_url() {
        let base = Base::new(&Url::parse("http://a.test/").unwrap());
        for target in [
            "http://evil.test/log?\n<input value=token>",
            "http://evil.test/log?<b>\t",
            "/x?\r<",
            "http://a.test:25/",
            "//a.test:6667/x",
            "https://a.test:22/",
        ] {
            assert_eq!(base.resolve(target), None, "{target:?}");
        }
        // URLs with only one of both are fetched, and so are those whose path contains a blocked port.
        for target in ["/x?<b>", "/x?\nb", "//a.test:8080/", "/:25/"] {
            assert!(base.resolve(target).is_some(), "{target:?}");
        }
    }

    #[test]
    fn urls_are_resolved_as_browsers_do() {
        let base = Base::new(&Url::parse("https://a.test/dir/page?q#f").unwrap());
        let cases = [
            ("x.png", Some("https://a.test/dir/x.png")),
            (" \n/x.png\t ", Some("https://a.test/x.png")),
            ("x\n.pn\tg", Some("https://a.test/dir/x.png")),
            ("\\\\b.test\\x.png", Some("https://b.test/x.png")),
            ("..\\up.png", Some("https://a.test/up.png")),
            ("//b.test/x", Some("https://b.test/x")),
            ("https:x.png", Some("https://a.test/dir/x.png")),
            ("http:x.png", Some("http://x.png/")),
            ("?only", Some("https://a.test/dir/page?only")),
            ("x.png#part", Some("https://a.test/dir/x.png")),
            ("a b.png", Some("https://a.test/dir/a%20b.png")),
            ("ä.png?ä", Some("https://a.test/dir/%C3%A4.png?%C3%A4")),
            ("//B.TEST:443/x", Some("https://b.test/x")),
            ("//bücher.test/", Some("https://xn--bcher-kva.test/")),
            ("#f", None),
            ("", None),
            (" ", None),
            ("data:image/gif;base64,AA", None),
            ("javascript:void(0)", None),
            ("about:blank", None),
            ("blob:https://a.test/x", None),
            ("ftp://a.test/x", None),
            ("http://", None),
            ("http://[", None),
            ("http://user:pass@a.test/x", None),
        ];
        for (target, expected) in cases {
            let url = base.resolve(target);
            assert_eq!(url.as_ref().map(Url::as_str), expected, "{target:?}");
        }
        assert!(base.resolve(&"x".repeat(MAX_URL + 1)).is_none());
    }

    #[test]
    fn queries_are_written_in_the_documents_encoding() {
        let url = Url::parse("http://a.test/").unwrap();
        let base = |encoding| Base {
            url: url.clone(),
            encoding,
        };
        let latin = base(encoding_rs::WINDOWS_1252).resolve("/ä?ä=\u{20ac}").unwrap();
        assert_eq!(latin.as_str(), "http://a.test/%C3%A4?%E4=%80");
        let japanese = base(encoding_rs::SHIFT_JIS).resolve("?q=日本").unwrap();
        assert_eq!(japanese.as_str(), "http://a.test/?q=%93%FA%96{");
        let utf16 = base(encoding_rs::UTF_16LE).resolve("?ä").unwrap();
        assert_eq!(utf16.as_str(), "http://a.test/?%C3%A4");
    }
}

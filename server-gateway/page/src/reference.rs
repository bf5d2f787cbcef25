//! References to sub-resources.
use std::borrow::Cow;

use encoding_rs::Encoding;
use url::Url;

use crate::{Destination, ReferrerPolicy, Sandbox, port};

/// Longest URL that is planned for; browsers load longer ones, but these carry data, which a plan cannot foresee.
const MAX_URL: usize = 16 * 1024;

/// How much the display of the page waits for a sub-resource. The lower the more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Importance {
    /// Nothing is painted, or the parser does not go on, before it is there.
    Blocking,
    /// Is used soon, or changes what is displayed.
    High,
    /// Fills in what is displayed.
    Normal,
    /// Is not part of what is displayed first.
    Lazy,
}

/// Whether the browser will ask for a sub-resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Certainty {
    /// The markup alone decides that it is loaded.
    Sure,
    /// It depends on layout, on which elements there are, or on settings: fonts, background images, lazy images, icons.
    Likely,
    /// Nothing in the markup makes it be loaded; a script or the user may: background images of rules for elements that the
    /// document does not have, or for states such as `:hover`. Not worth sending unless it was used before.
    Unlikely,
}

/// How a request crosses origins (HTML Living Standard 2.5.4): its mode and credentials mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CrossOrigin {
    /// `no-cors` with credentials (`navigate` for frames): the browser's cookie rules alone decide.
    #[default]
    None,
    /// `cors`, credentials to the same origin only. Sends `Origin` to other origins.
    Anonymous,
    /// `cors` with credentials. Sends `Origin` to other origins.
    Credentials,
    /// `cors` without credentials even to the same origin.
    Omitted,
}

impl CrossOrigin {
    /// What a `crossorigin` attribute says; an unknown value counts as `anonymous`.
    pub(crate) fn of_attribute(value: Option<&str>) -> Self {
        match value {
            None => Self::None,
            Some(value) if value.eq_ignore_ascii_case("use-credentials") => Self::Credentials,
            Some(_) => Self::Anonymous,
        }
    }
}

/// What puts a sub-resource into a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inserter {
    /// Markup or a style sheet names it.
    #[default]
    Parser,
    /// A script made the browser load it, on an earlier visit.
    Script,
}

/// Whether a request for a sub-resource may carry credentials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trust {
    /// As the rules for cookies have it.
    #[default]
    Own,
    /// Others than this user's browser told of it: it never carries any.
    Others,
}

/// A sub-resource that a page, a style sheet or a response's `Link` field refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where it is: absolute, http or https, without fragment and user.
    pub url: Url,
    /// What it is for.
    pub destination: Destination,
    /// How much the page waits for it.
    pub importance: Importance,
    /// Whether it will be asked for.
    pub certainty: Certainty,
    /// Mode and credentials of its request.
    pub cross_origin: CrossOrigin,
    /// The policy that element or document declare; `None`: that of the referring response, else the default.
    pub referrer_policy: Option<ReferrerPolicy>,
    /// The element's `nonce`, which a content security policy may want.
    pub nonce: Option<Box<str>>,
    /// The element's `integrity`, which a content security policy may know.
    pub integrity: Option<Box<str>>,
    /// Of a frame: what its `sandbox` attribute takes away.
    pub sandbox: Sandbox,
    /// What puts it into the document.
    pub inserter: Inserter,
    /// Who knows of it.
    pub trust: Trust,
}

impl Reference {
    /// A sub-resource of the usual importance for its destination, asked for in the usual mode.
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
            trust: Trust::Own,
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

/// What relative URLs are resolved against.
#[derive(Clone, Debug)]
pub(crate) struct Base {
    pub(crate) url: Url,
    /// Of the document or style sheet: browsers write the query of a URL in it.
    pub(crate) encoding: &'static Encoding,
}

impl Base {
    /// A base in UTF-8.
    pub(crate) fn new(url: &Url) -> Self {
        Self {
            url: url.clone(),
            encoding: encoding_rs::UTF_8,
        }
    }

    /// The absolute URL of `target`, without fragment; `None` for `data:`, fragments of the same document and the like,
    /// and for what browsers do not fetch: blocked ports, and dangling markup.
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
        // Requests with a user in the URL are blocked for sub-resources (Fetch standard, 4.5 HTTP-network-or-cache fetch).
        let plain = url.username().is_empty() && url.password().is_none();
        (http && plain && !port::is_blocked(&url) && url.as_str().len() <= MAX_URL).then_some(url)
    }

    /// As `resolve`, for any scheme.
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

/// Whether an address may be an attribute that was left open and took in the markup behind it (Fetch standard, "potentially
/// dangling markup"): it spans lines and holds a `<`.
fn is_dangling(target: &str) -> bool {
    target.contains('<') && target.contains(['\n', '\r', '\t'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dangling_markup_and_blocked_ports_lead_nowhere() {
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
        // Either alone is fetched, and so is what has the port of another protocol in its path.
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

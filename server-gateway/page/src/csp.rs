//! Content Security Policy Level 3, as far as it decides which URLs a document loads.
//!
//! The interpretation is conservative, so that the gateway plans nothing that the browser would not fetch: an
//! unknown directive may forbid anything, so under a policy with an unknown directive no cross-origin object
//! is planned. Objects that a policy allows only by the hash of inline content are not planned either.
//!
//! The crate `content-security-policy` is not used: like browsers, it ignores unknown directives without
//! reporting them, and it depends on a second Base64 implementation and a regular-expression engine.
mod source;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use http::{HeaderMap, HeaderName};
use url::Url;

use self::source::Sources;
use crate::{Destination, Reference, Sandbox, reference::Inserter};

/// Policies of one document; all of them apply. Documents of `srcdoc` frames share those of the document around them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies(Arc<Vec<Policy>>);

#[derive(Clone, Debug)]
struct Policy {
    /// The URL whose origin is `'self'`.
    own: Url,
    /// By name; the first of several directives with one name applies.
    directives: BTreeMap<String, Sources>,
    sandbox: Option<Sandbox>,
    upgrades: bool,
    is_understood: bool,
}

/// Location of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicySource {
    /// `Content-Security-Policy`
    Header,
    /// `<meta http-equiv>`, where three directives are ignored.
    Markup,
}

/// Kinds of inline styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inline<'a> {
    /// A `style` element, with its nonce.
    Element(Option<&'a str>),
    /// A `style` attribute.
    Attribute,
}

const FIELD: HeaderName = http::header::CONTENT_SECURITY_POLICY;

/// Maximum number of policies per document; real documents have up to three.
const MAX_POLICIES: usize = 16;
/// Maximum length of a policy; real ones have up to about 10 KB.
const MAX_LENGTH: usize = 64 * 1024;
/// Maximum number of source expressions in all policies of a document, which bounds their memory. Real documents have up to
/// 300.
const MAX_SOURCES: usize = 1024;

impl Policies {
    /// Parses the policies of the response from `url`.
    pub(crate) fn of_response(url: &Url, headers: &HeaderMap) -> Self {
        let mut policies = Self::default();
        for field in headers.get_all(FIELD) {
            match field.to_str() {
                Ok(list) => list
                    .split(',')
                    .for_each(|text| policies.add(url, text, PolicySource::Header)),
                Err(_) => Arc::make_mut(&mut policies.0).push(Policy::unknown(url)),
            }
        }
        policies
    }

    /// Adds one policy.
    pub(crate) fn add(&mut self, url: &Url, text: &str, source: PolicySource) {
        let policies = Arc::make_mut(&mut self.0);
        if policies.len() >= MAX_POLICIES {
            // The policy is dropped: it may forbid anything.
            if let Some(last) = policies.last_mut() {
                last.is_understood = false;
            }
        } else if !text.trim().is_empty() {
            let policy = Policy::parse(url, text, source);
            let sources: usize = policies.iter().chain([&policy]).map(Policy::sources).sum();
            policies.push(if sources > MAX_SOURCES {
                Policy::unknown(url)
            } else {
                policy
            });
        }
    }

    /// Returns true if all policies allow a reference whose URL is the target of `redirects` redirects.
    /// `client` is the document's URL.
    pub(crate) fn allow(&self, reference: &Reference, client: &Url, redirects: usize) -> bool {
        self.0
            .iter()
            .all(|policy| policy.allows(reference, client, redirects))
    }

    /// Returns true if plug-in content may be loaded from this URL.
    pub(crate) fn allow_plugin(&self, url: &Url) -> bool {
        self.0
            .iter()
            .all(|policy| policy.matches(&["object-src", "default-src"], url, 0))
    }

    /// Returns true if a `base` element may have this URL.
    pub(crate) fn allow_base(&self, url: &Url) -> bool {
        self.0.iter().all(|policy| policy.matches(&["base-uri"], url, 0))
    }

    /// Returns true if an inline style applies.
    pub(crate) fn allow_inline(&self, style: Inline<'_>) -> bool {
        self.0.iter().all(|policy| {
            let (name, nonce) = match style {
                Inline::Element(nonce) => ("style-src-elem", nonce),
                Inline::Attribute => ("style-src-attr", None),
            };
            let sources = policy.first(&[name, "style-src", "default-src"]);
            sources.is_none_or(|sources| sources.allow_inline() || sources.has_nonce(nonce))
        })
    }

    /// Returns whether documents at these URLs may display this document in a frame; `None` if no policy
    /// restricts this.
    pub(crate) fn allow_ancestors<'a>(
        &self,
        mut ancestors: impl Iterator<Item = &'a Url> + Clone,
    ) -> Option<bool> {
        let lists = self.0.iter().filter_map(|policy| {
            let sources = policy.directives.get("frame-ancestors")?;
            Some((sources, &policy.own))
        });
        let lists: Vec<_> = lists.collect();
        (!lists.is_empty()).then(|| {
            ancestors.all(|ancestor| {
                lists
                    .iter()
                    .all(|(sources, own)| sources.match_url(ancestor, own, 0))
            })
        })
    }

    /// Returns true if `http` references are upgraded to `https`.
    pub(crate) fn upgrade(&self) -> bool {
        self.0.iter().any(|policy| policy.upgrades)
    }

    /// Returns the restrictions of all `sandbox` directives.
    pub(crate) fn sandbox(&self) -> Sandbox {
        let own = self.0.iter().filter_map(|policy| policy.sandbox);
        own.fold(Sandbox::default(), Sandbox::and)
    }
}

impl Policy {
    /// Returns a policy that is not understood.
    fn unknown(url: &Url) -> Self {
        Self {
            own: url.clone(),
            directives: BTreeMap::new(),
            sandbox: None,
            upgrades: false,
            is_understood: false,
        }
    }

    fn parse(url: &Url, text: &str, source: PolicySource) -> Self {
        let mut policy = Self::unknown(url);
        if text.len() > MAX_LENGTH || !text.is_ascii() {
            return policy;
        }
        policy.is_understood = true;
        for directive in text.split(';') {
            let mut tokens = directive.split_ascii_whitespace();
            let Some(name) = tokens.next().map(str::to_ascii_lowercase) else {
                continue;
            };
            if policy.directives.contains_key(&name)
                || source == PolicySource::Markup && HEADER_ONLY.contains(&name.as_str())
            {
                continue;
            }
            match name.as_str() {
                "sandbox" => policy.sandbox = Some(Sandbox::of_tokens(tokens)),
                "upgrade-insecure-requests" => policy.upgrades = true,
                _ if FOR_URLS.contains(&name.as_str()) => {
                    policy.directives.insert(name, Sources::parse(tokens));
                }
                _ => policy.is_understood &= WITHOUT_URLS.contains(&name.as_str()),
            }
        }
        policy
    }

    /// Number of source expressions.
    fn sources(&self) -> usize {
        self.directives.values().map(Sources::len).sum()
    }

    fn allows(&self, reference: &Reference, client: &Url, redirects: usize) -> bool {
        let url = &reference.url;
        if !self.is_understood && url.origin() != client.origin() {
            return false;
        }
        let nonce = reference.nonce.as_deref();
        match reference.destination {
            // A navigation of the window is not a subresource.
            Destination::Document => true,
            Destination::Script => {
                let Some(sources) = self.first(&["script-src-elem", "script-src", "default-src"]) else {
                    return true;
                };
                if sources.has_nonce(nonce) || sources.has_integrity(reference.integrity.as_deref()) {
                    return true;
                }
                if sources.strict_dynamic {
                    return reference.inserter == Inserter::Script;
                }
                sources.match_url(url, &self.own, redirects)
            }
            Destination::Style | Destination::InactiveStyle => {
                let sources = self.first(&["style-src-elem", "style-src", "default-src"]);
                sources.is_none_or(|sources| {
                    sources.has_nonce(nonce) || sources.match_url(url, &self.own, redirects)
                })
            }
            Destination::Frame => self.matches(&["frame-src", "child-src", "default-src"], url, redirects),
            Destination::Image | Destination::Icon => {
                self.matches(&["img-src", "default-src"], url, redirects)
            }
            Destination::Font => self.matches(&["font-src", "default-src"], url, redirects),
            Destination::Manifest => self.matches(&["manifest-src", "default-src"], url, redirects),
            // Objects that scripts load; audio and video have a directive of their own.
            Destination::Other => {
                self.matches(&["connect-src", "default-src"], url, redirects)
                    && (!is_media(url) || self.matches(&["media-src", "default-src"], url, redirects))
            }
        }
    }

    /// Returns the sources of the first of these directives that is present.
    fn first(&self, names: &[&str]) -> Option<&Sources> {
        names.iter().find_map(|name| self.directives.get(*name))
    }

    fn matches(&self, names: &[&str], url: &Url, redirects: usize) -> bool {
        self.first(names)
            .is_none_or(|sources| sources.match_url(url, &self.own, redirects))
    }
}

/// Returns true if a URL looks like audio or video.
fn is_media(url: &Url) -> bool {
    let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
    MEDIA.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

const MEDIA: [&str; 14] = [
    "aac", "flac", "m3u8", "m4a", "m4v", "mov", "mp3", "mp4", "mpd", "oga", "ogg", "ogv", "opus", "webm",
];

/// Directives that list URLs and decide about loads, frames or base URLs.
const FOR_URLS: [&str; 18] = [
    "base-uri",
    "child-src",
    "connect-src",
    "default-src",
    "font-src",
    "frame-ancestors",
    "frame-src",
    "img-src",
    "manifest-src",
    "media-src",
    "object-src",
    "prefetch-src",
    "script-src",
    "script-src-elem",
    "style-src",
    "style-src-attr",
    "style-src-elem",
    "worker-src",
];

/// Directives that forbid no planned load.
const WITHOUT_URLS: [&str; 14] = [
    // Mixed content is never planned.
    "block-all-mixed-content",
    "fenced-frame-src",
    "form-action",
    "navigate-to",
    "plugin-types",
    "referrer",
    "reflected-xss",
    "report-to",
    "report-uri",
    "require-trusted-types-for",
    "script-src-attr",
    "trusted-types",
    "webrtc",
    "disown-opener",
];

/// Directives that are ignored in markup.
const HEADER_ONLY: [&str; 3] = ["frame-ancestors", "report-uri", "sandbox"];

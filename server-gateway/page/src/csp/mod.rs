//! Content Security Policy Level 3, as far as it decides which URLs a document loads.
//!
//! A policy is read so that nothing is planned that the browser would not fetch: a directive that is not known here may
//! forbid anything, so under a policy with one nothing of other origins is planned. What a policy allows by the hash of
//! inline content is not planned either.
//!
//! An own reader, for the kept one (crate `content-security-policy`) passes over what it does not know, as browsers do,
//! and does not say so, and brings a second Base64 and an engine for regular expressions along.
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use url::Url;

use self::source::Sources;
use crate::{Destination, Reference, Sandbox, reference::Inserter};

/// Policies of one document: all of them hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies(Vec<Policy>);

#[derive(Clone, Debug)]
struct Policy {
    /// Whose origin `'self'` means.
    own: Url,
    /// By name; of several of one name the first counts.
    directives: BTreeMap<String, Sources>,
    sandbox: Option<Sandbox>,
    upgrades: bool,
    is_understood: bool,
}

/// Where a policy stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// `Content-Security-Policy`
    Header,
    /// `<meta http-equiv>`, where three directives do not count.
    Markup,
}

/// What an inline style is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inline<'a> {
    /// A `style` element with this nonce.
    Element(Option<&'a str>),
    /// A `style` attribute.
    Attribute,
}

const FIELD: HeaderName = http::header::CONTENT_SECURITY_POLICY;

/// Policies of one document; real ones have up to three.
const MAX_POLICIES: usize = 16;
/// Real ones have up to some 10 KB.
const MAX_LENGTH: usize = 64 * 1024;

impl Policies {
    /// Those of the response from `url`.
    pub(crate) fn of_response(url: &Url, headers: &HeaderMap) -> Self {
        let mut policies = Self::default();
        for field in headers.get_all(FIELD) {
            match field.to_str() {
                Ok(list) => list
                    .split(',')
                    .for_each(|text| policies.add(url, text, Place::Header)),
                Err(_) => policies.0.push(Policy::unknown(url)),
            }
        }
        policies
    }

    /// Adds one policy.
    pub(crate) fn add(&mut self, url: &Url, text: &str, place: Place) {
        if self.0.len() >= MAX_POLICIES {
            // What it says is not kept: it may forbid anything.
            if let Some(last) = self.0.last_mut() {
                last.is_understood = false;
            }
        } else if !text.trim().is_empty() {
            self.0.push(Policy::parse(url, text, place));
        }
    }

    /// Whether all let a reference through, whose URL is behind `redirects` redirections. `client` is the document's URL.
    pub(crate) fn allow(&self, reference: &Reference, client: &Url, redirects: usize) -> bool {
        self.0
            .iter()
            .all(|policy| policy.allows(reference, client, redirects))
    }

    /// Whether a plug-in's content may come from here.
    pub(crate) fn allow_plugin(&self, url: &Url) -> bool {
        self.0
            .iter()
            .all(|policy| policy.matches(&["object-src", "default-src"], url, 0))
    }

    /// Whether a `base` element may name this URL.
    pub(crate) fn allow_base(&self, url: &Url) -> bool {
        self.0.iter().all(|policy| policy.matches(&["base-uri"], url, 0))
    }

    /// Whether inline styles count.
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

    /// Whether documents at these URLs may display this one in a frame; none if no policy says.
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

    /// Whether `http` references are fetched by `https`.
    pub(crate) fn upgrade(&self) -> bool {
        self.0.iter().any(|policy| policy.upgrades)
    }

    /// What all `sandbox` directives take away.
    pub(crate) fn sandbox(&self) -> Sandbox {
        let own = self.0.iter().filter_map(|policy| policy.sandbox);
        own.fold(Sandbox::default(), Sandbox::and)
    }
}

impl Policy {
    /// One of which nothing is known.
    fn unknown(url: &Url) -> Self {
        Self {
            own: url.clone(),
            directives: BTreeMap::new(),
            sandbox: None,
            upgrades: false,
            is_understood: false,
        }
    }

    fn parse(url: &Url, text: &str, place: Place) -> Self {
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
                || place == Place::Markup && HEADER_ONLY.contains(&name.as_str())
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

    fn allows(&self, reference: &Reference, client: &Url, redirects: usize) -> bool {
        let url = &reference.url;
        if !self.is_understood && url.origin() != client.origin() {
            return false;
        }
        let nonce = reference.nonce.as_deref();
        match reference.destination {
            // Navigations of the window are nobody's sub-resources.
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
            // What scripts load; what is heard and seen besides pictures has a directive of its own.
            Destination::Other => {
                self.matches(&["connect-src", "default-src"], url, redirects)
                    && (!is_media(url) || self.matches(&["media-src", "default-src"], url, redirects))
            }
        }
    }

    /// The first of these directives that there is.
    fn first(&self, names: &[&str]) -> Option<&Sources> {
        names.iter().find_map(|name| self.directives.get(*name))
    }

    fn matches(&self, names: &[&str], url: &Url, redirects: usize) -> bool {
        self.first(names)
            .is_none_or(|sources| sources.match_url(url, &self.own, redirects))
    }
}

/// Whether a URL looks like one of sound or moving pictures.
fn is_media(url: &Url) -> bool {
    let extension = url.path().rsplit_once('.').map_or("", |(_, extension)| extension);
    MEDIA.iter().any(|known| extension.eq_ignore_ascii_case(known))
}

const MEDIA: [&str; 14] = [
    "aac", "flac", "m3u8", "m4a", "m4v", "mov", "mp3", "mp4", "mpd", "oga", "ogg", "ogv", "opus", "webm",
];

/// Directives that list URLs, and decide about loads, frames or base addresses.
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

/// Directives that forbid no load that is planned here.
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

/// Directives that do not count in markup.
const HEADER_ONLY: [&str; 3] = ["frame-ancestors", "report-uri", "sandbox"];

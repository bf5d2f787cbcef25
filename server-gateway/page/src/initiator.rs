//! Who makes a request: the document that contains a reference, and the documents around it.
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, header};
use longhaul_http::site::SchemefulSite;
use url::{Origin, Url};

use crate::{
    Destination, Reference, ReferrerPolicy,
    csp::{Inline, Place, Policies},
    jar::{is_same_site, is_trustworthy},
    port,
};

/// A document that makes requests, in the Fetch standard's words their client. Clones are the same document.
///
/// It knows the documents around it, and what its response and its markup so far say about what it may load.
#[derive(Clone, Debug)]
pub struct Initiator(Arc<Document>);

#[derive(Debug)]
struct Document {
    url: Url,
    sandbox: Sandbox,
    /// The document in one of whose frames it is.
    parent: Option<Initiator>,
    said: Mutex<Said>,
}

/// What response and markup say; markup adds to it while it arrives.
#[derive(Clone, Debug, Default)]
struct Said {
    policies: Policies,
    referrer_policy: Option<ReferrerPolicy>,
}

/// What a `sandbox` attribute or directive takes away from a document; by default nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sandbox {
    /// Its origin is equal to no other.
    pub opaque: bool,
    /// Its scripts are not loaded.
    pub scriptless: bool,
}

impl Sandbox {
    /// What is taken away where only this is allowed.
    pub fn of_tokens<'a>(allowed: impl Iterator<Item = &'a str>) -> Self {
        let mut sandbox = Self {
            opaque: true,
            scriptless: true,
        };
        for token in allowed {
            sandbox.opaque &= !token.eq_ignore_ascii_case("allow-same-origin");
            sandbox.scriptless &= !token.eq_ignore_ascii_case("allow-scripts");
        }
        sandbox
    }

    /// What both take away.
    pub fn and(self, other: Self) -> Self {
        Self {
            opaque: self.opaque || other.opaque,
            scriptless: self.scriptless || other.scriptless,
        }
    }
}

/// How a request's initiator is related to its target (`Sec-Fetch-Site`). The greater the more distant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// Scheme, host and port are equal.
    SameOrigin,
    /// Scheme and registrable domain are equal.
    SameSite,
    /// All else.
    CrossSite,
}

impl Relation {
    /// The value of `Sec-Fetch-Site`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SameOrigin => "same-origin",
            Self::SameSite => "same-site",
            Self::CrossSite => "cross-site",
        }
    }
}

impl Initiator {
    /// The document that the browser's window displays, from the response at `url`.
    pub fn page(url: &Url, response: &HeaderMap) -> Self {
        let policies = Policies::of_response(url, response);
        Self(Arc::new(Document {
            url: url.clone(),
            sandbox: policies.sandbox(),
            parent: None,
            said: Mutex::new(Said {
                policies,
                referrer_policy: ReferrerPolicy::of_response(response),
            }),
        }))
    }

    /// The document in one of this document's frames, from the response at `url`; `attribute` is the frame's sandbox.
    ///
    /// `None` if nothing that it refers to is to be planned: it is of another site than a document around it, which its
    /// requests must not be taken for, or it may not be displayed there.
    pub fn frame(&self, url: &Url, response: &HeaderMap, attribute: Sandbox) -> Option<Self> {
        let policies = Policies::of_response(url, response);
        let ancestors = self.with_ancestors().map(|document| &document.0.url);
        let is_framed = policies
            .allow_ancestors(ancestors.clone())
            .unwrap_or_else(|| frame_options_allow(url, response, ancestors.clone()));
        if !is_framed || !ancestors.clone().all(|ancestor| is_same_site(ancestor, url)) {
            return None;
        }
        let sandbox = self.0.sandbox.and(attribute).and(policies.sandbox());
        Some(Self(Arc::new(Document {
            url: url.clone(),
            sandbox,
            parent: Some(self.clone()),
            said: Mutex::new(Said {
                policies,
                referrer_policy: ReferrerPolicy::of_response(response),
            }),
        })))
    }

    /// The document that a frame's `srcdoc` holds: it has this document's address and policies. `None` if its sandbox
    /// gives it another origin.
    pub(crate) fn srcdoc(&self, attribute: Sandbox) -> Option<Self> {
        (!attribute.opaque).then(|| {
            Self(Arc::new(Document {
                url: self.0.url.clone(),
                sandbox: self.0.sandbox.and(attribute),
                parent: self.0.parent.clone(),
                said: Mutex::new(self.said().clone()),
            }))
        })
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.0.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The document and those around it, from within.
    fn with_ancestors(&self) -> impl Iterator<Item = &Self> + Clone {
        std::iter::successors(Some(self), |document| document.0.parent.as_ref())
    }

    /// The document's URL.
    pub fn url(&self) -> &Url {
        &self.0.url
    }

    /// What its requests may have as `Referer`: a document without an origin has none.
    pub(crate) fn referrer(&self) -> Option<&Url> {
        (!self.0.sandbox.opaque).then_some(&self.0.url)
    }

    /// The policy that response or markup declare.
    pub fn referrer_policy(&self) -> Option<ReferrerPolicy> {
        self.said().referrer_policy
    }

    pub(crate) fn set_referrer_policy(&self, policy: ReferrerPolicy) {
        self.said().referrer_policy = Some(policy);
    }

    /// The value of `Origin`.
    pub(crate) fn origin(&self) -> String {
        if self.0.sandbox.opaque {
            "null".to_owned()
        } else {
            self.0.url.origin().ascii_serialization()
        }
    }

    /// How it is related to a URL.
    pub fn relation(&self, url: &Url) -> Relation {
        if self.0.sandbox.opaque {
            Relation::CrossSite
        } else if is_same_origin(&self.0.url, url) {
            Relation::SameOrigin
        } else if is_same_site(&self.0.url, url) {
            Relation::SameSite
        } else {
            Relation::CrossSite
        }
    }

    /// Whether a request of it for `url` is a same-site one (RFC 6265bis section 5.2): it and all documents around it are
    /// of the target's site.
    pub fn is_same_site_with(&self, url: &Url) -> bool {
        let site = site(url);
        self.with_ancestors()
            .all(|document| !document.0.sandbox.opaque && site.is_same_site(&self::site(&document.0.url)))
    }

    /// The reference as the document fetches it, or `None` if it does not: by its content security policies, for mixed
    /// content, its sandbox, or the port. `redirects` is how many redirections lead to the reference's URL.
    pub fn admit(&self, mut reference: Reference, redirects: usize) -> Option<Reference> {
        let said = self.said();
        // The window's navigation is no sub-resource of the document that it leaves.
        let is_own = reference.destination != Destination::Document;
        if is_own && reference.url.scheme() == "http" && said.policies.upgrade() {
            // Where it fails the URL keeps its scheme, and is judged by that.
            let _kept = reference.url.set_scheme("https");
        }
        let url = &reference.url;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() || port::is_blocked(url) {
            return None;
        }
        let is_secure = |document: &Self| document.0.url.scheme() == "https";
        let is_mixed = !is_trustworthy(url) && self.with_ancestors().any(is_secure);
        let is_forbidden = self.0.sandbox.scriptless && reference.destination == Destination::Script;
        let is_allowed = said.policies.allow(&reference, &self.0.url, redirects);
        (!is_own || !is_mixed && !is_forbidden && is_allowed).then_some(reference)
    }

    // What follows is for markup.

    /// Takes in the policy of a `meta` element.
    pub(crate) fn add_policy(&self, content: &str) {
        self.said().policies.add(&self.0.url, content, Place::Markup);
    }

    pub(crate) fn allows_base(&self, url: &Url) -> bool {
        self.said().policies.allow_base(url)
    }

    pub(crate) fn allows_plugin(&self, url: &Url) -> bool {
        self.said().policies.allow_plugin(url)
    }

    pub(crate) fn allows_inline(&self, style: Inline<'_>) -> bool {
        self.said().policies.allow_inline(style)
    }
}

/// The way from a document to a request of it.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The document that makes the request.
    pub initiator: Initiator,
    /// The style sheet in which the reference stands, with its own referrer policy, if it is not the document itself.
    pub sheet: Option<(Url, Option<ReferrerPolicy>)>,
    /// The URLs that redirected, from the first on.
    pub redirects: Vec<Url>,
    /// The referrer policy that the last of the redirections to have one declared.
    pub redirect_policy: Option<ReferrerPolicy>,
}

impl Cause {
    /// A reference in the document itself.
    pub const fn document(initiator: Initiator) -> Self {
        Self {
            initiator,
            sheet: None,
            redirects: Vec::new(),
            redirect_policy: None,
        }
    }

    /// The URLs of the request, `url` the last.
    fn urls<'a>(&'a self, url: &'a Url) -> impl Iterator<Item = &'a Url> {
        self.redirects.iter().chain([url])
    }

    /// The most distant relation of the initiator to all URLs of the request (Fetch Metadata section 2.4).
    pub fn relation(&self, url: &Url) -> Relation {
        let relations = self.urls(url).map(|url| self.initiator.relation(url));
        relations.max().unwrap_or(Relation::CrossSite)
    }

    /// Whether the request is a same-site one: its initiator, all documents around that, and all URLs on the way.
    pub fn is_same_site(&self, url: &Url) -> bool {
        self.urls(url).all(|url| self.initiator.is_same_site_with(url))
    }

    /// Whether no other origin has to do with the request.
    pub(crate) fn is_same_origin(&self, url: &Url) -> bool {
        self.relation(url) == Relation::SameOrigin
    }

    /// The value of `Origin`: `null` if another origin redirected to a third one (Fetch standard, "redirect-tainted").
    pub(crate) fn origin(&self, url: &Url) -> String {
        let mut urls = self.urls(url).peekable();
        while let Some(from) = urls.next() {
            let is_tainted = urls
                .peek()
                .is_some_and(|to| !is_same_origin(from, to) && !is_same_origin(from, self.initiator.url()));
            if is_tainted {
                return "null".to_owned();
            }
        }
        self.initiator.origin()
    }
}

fn is_same_origin(one: &Url, other: &Url) -> bool {
    matches!(one.origin(), Origin::Tuple(..)) && one.origin() == other.origin()
}

fn site(url: &Url) -> SchemefulSite {
    SchemefulSite::of(url.scheme(), url.host_str().unwrap_or_default())
}

/// Whether `X-Frame-Options` lets documents at these URLs display the response from `url`. A value that is not known
/// forbids it.
fn frame_options_allow<'a>(
    url: &Url,
    response: &HeaderMap,
    ancestors: impl Iterator<Item = &'a Url> + Clone,
) -> bool {
    response.get_all(header::X_FRAME_OPTIONS).iter().all(|field| {
        let text = field.to_str().unwrap_or("?").to_ascii_lowercase();
        text.split(',').all(|value| match value.trim() {
            "" | "allowall" => true,
            "sameorigin" => ancestors.clone().all(|ancestor| is_same_origin(ancestor, url)),
            _ => false,
        })
    })
}

#[cfg(test)]
mod tests;

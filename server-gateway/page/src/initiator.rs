//! Initiators of requests: the document that contains a reference, and its ancestors.
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use http::{HeaderMap, header};
use longhaul_http::site::SchemefulSite;
use url::{Origin, Url};

use crate::{
    Destination, Reference, ReferrerPolicy, Sandbox,
    csp::{Inline, Policies, PolicySource},
    jar::{is_same_site, is_trustworthy},
    port,
};

/// A document that makes requests; the client of its requests in the Fetch standard. Clones denote the same
/// document.
///
/// The document holds its ancestors, and the policies of its response and of its markup so far.
#[derive(Clone, Debug)]
pub struct Initiator(Arc<Document>);

#[derive(Debug)]
struct Document {
    url: Url,
    sandbox: Sandbox,
    /// The document that contains this document's frame.
    parent: Option<Initiator>,
    declared: Mutex<DeclaredPolicies>,
}

/// Policies of the response and the markup; the markup adds policies while it arrives.
#[derive(Clone, Debug, Default)]
struct DeclaredPolicies {
    policies: Policies,
    referrer_policy: Option<ReferrerPolicy>,
}

/// Relation of a request's initiator to its target (`Sec-Fetch-Site`). Greater means more distant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Relation {
    /// Scheme, host and port are equal.
    SameOrigin,
    /// Scheme and registrable domain are equal.
    SameSite,
    /// Any other relation.
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
    /// Creates the top-level document of the response at `url`.
    pub fn page(url: &Url, response: &HeaderMap) -> Self {
        let policies = Policies::of_response(url, response);
        Self(Arc::new(Document {
            url: url.clone(),
            sandbox: policies.sandbox(),
            parent: None,
            declared: Mutex::new(DeclaredPolicies {
                policies,
                referrer_policy: ReferrerPolicy::of_response(response),
            }),
        }))
    }

    /// Creates the document of a frame in this document, from the response at `url`; `attribute` is the
    /// frame's sandbox.
    ///
    /// Returns `None` if none of the document's references may be planned: the document is cross-site to an
    /// ancestor, and its requests must not appear to be the ancestor's, or the document may not be framed
    /// there.
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
            declared: Mutex::new(DeclaredPolicies {
                policies,
                referrer_policy: ReferrerPolicy::of_response(response),
            }),
        })))
    }

    /// Creates the document of a frame's `srcdoc`, which has this document's URL and policies. Returns `None`
    /// if its sandbox makes its origin opaque.
    pub(crate) fn srcdoc(&self, attribute: Sandbox) -> Option<Self> {
        (!attribute.opaque).then(|| {
            Self(Arc::new(Document {
                url: self.0.url.clone(),
                sandbox: self.0.sandbox.and(attribute),
                parent: self.0.parent.clone(),
                declared: Mutex::new(self.declared().clone()),
            }))
        })
    }

    fn declared(&self) -> MutexGuard<'_, DeclaredPolicies> {
        self.0.declared.lock()
    }

    /// The document and its ancestors, innermost first.
    fn with_ancestors(&self) -> impl Iterator<Item = &Self> + Clone {
        std::iter::successors(Some(self), |document| document.0.parent.as_ref())
    }

    /// The document's URL.
    pub fn url(&self) -> &Url {
        &self.0.url
    }

    /// The URL that its requests may send as `Referer`; `None` for a document with an opaque origin.
    pub fn referrer(&self) -> Option<&Url> {
        (!self.0.sandbox.opaque).then_some(&self.0.url)
    }

    /// The referrer policy that the response or the markup declares.
    pub fn referrer_policy(&self) -> Option<ReferrerPolicy> {
        self.declared().referrer_policy
    }

    pub(crate) fn set_referrer_policy(&self, policy: ReferrerPolicy) {
        self.declared().referrer_policy = Some(policy);
    }

    /// Value of the `Origin` field.
    pub(crate) fn origin(&self) -> String {
        if self.0.sandbox.opaque {
            "null".to_owned()
        } else {
            self.0.url.origin().ascii_serialization()
        }
    }

    /// Returns the relation of the document to a URL.
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

    /// Returns true if the document's request for `url` is same-site (RFC 6265bis section 5.2): the document
    /// and all its ancestors are same-site with the target.
    pub fn is_same_site_with(&self, url: &Url) -> bool {
        let site = site(url);
        self.with_ancestors()
            .all(|document| !document.0.sandbox.opaque && site.is_same_site(&self::site(&document.0.url)))
    }

    /// Returns the reference as the document fetches it, or `None` if the document does not fetch it because
    /// of its content security policies, mixed content, its sandbox, or the port. `redirects` is the number
    /// of redirects that lead to the reference's URL.
    pub fn admit(&self, mut reference: Reference, redirects: usize) -> Option<Reference> {
        let declared = self.declared();
        // The window's navigation is not a subresource of the document that it leaves.
        let is_own = reference.destination != Destination::Document;
        if is_own && reference.url.scheme() == "http" && declared.policies.upgrade() {
            // If this fails, the URL keeps its scheme, and the checks below apply to that scheme.
            let _kept = reference.url.set_scheme("https");
        }
        let url = &reference.url;
        if !matches!(url.scheme(), "http" | "https")
            || !url.has_host()
            || url.port().is_some_and(port::is_blocked)
        {
            return None;
        }
        let is_secure = |document: &Self| document.0.url.scheme() == "https";
        let is_mixed = !is_trustworthy(url) && self.with_ancestors().any(is_secure);
        let is_forbidden = self.0.sandbox.scriptless && reference.destination == Destination::Script;
        let is_allowed = declared.policies.allow(&reference, &self.0.url, redirects);
        (!is_own || !is_mixed && !is_forbidden && is_allowed).then_some(reference)
    }

    // Methods for the markup parser.

    /// Adds the policy of a `meta` element.
    pub(crate) fn add_policy(&self, content: &str) {
        self.declared()
            .policies
            .add(&self.0.url, content, PolicySource::Markup);
    }

    pub(crate) fn allows_base(&self, url: &Url) -> bool {
        self.declared().policies.allow_base(url)
    }

    pub(crate) fn allows_plugin(&self, url: &Url) -> bool {
        self.declared().policies.allow_plugin(url)
    }

    pub(crate) fn allows_inline(&self, style: Inline<'_>) -> bool {
        self.declared().policies.allow_inline(style)
    }
}

/// Path from a document to one of its requests.
#[derive(Clone, Debug)]
pub struct RequestChain {
    /// The document that makes the request.
    pub initiator: Initiator,
    /// The style sheet that contains the reference, with its own referrer policy; `None` if the document
    /// itself contains it.
    pub sheet: Option<(Url, Option<ReferrerPolicy>)>,
    /// The URLs that redirected, in order.
    pub redirects: Vec<Url>,
    /// The referrer policy of the last redirect that declared one.
    pub redirect_policy: Option<ReferrerPolicy>,
}

impl RequestChain {
    /// Creates the request chain of a reference in the document itself.
    pub const fn document(initiator: Initiator) -> Self {
        Self {
            initiator,
            sheet: None,
            redirects: Vec::new(),
            redirect_policy: None,
        }
    }

    /// The URLs of the request; `url` is the last.
    fn urls<'a>(&'a self, url: &'a Url) -> impl Iterator<Item = &'a Url> {
        self.redirects.iter().chain([url])
    }

    /// Returns the most distant relation of the initiator to any URL of the request (Fetch Metadata section
    /// 2.3).
    pub fn relation(&self, url: &Url) -> Relation {
        let relations = self.urls(url).map(|url| self.initiator.relation(url));
        relations.max().unwrap_or(Relation::CrossSite)
    }

    /// Returns true if the request is same-site: its initiator, all ancestors, and all URLs of the redirect
    /// chain.
    pub fn is_same_site(&self, url: &Url) -> bool {
        self.urls(url).all(|url| self.initiator.is_same_site_with(url))
    }

    /// Returns true if no other origin takes part in the request.
    pub(crate) fn is_same_origin(&self, url: &Url) -> bool {
        self.relation(url) == Relation::SameOrigin
    }

    /// Value of the `Origin` field: `null` if another origin redirected to a third one (Fetch standard,
    /// "redirect-tainted").
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

/// Returns true if `X-Frame-Options` allows documents at these URLs to frame the response from `url`. An
/// unknown value forbids it.
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

//! Who asks: the context of a request, built from the request alone.
//!
//! Browsers keep sites, users and logins apart: by partitioned caches, `SameSite`, Fetch Metadata. A proxy that answers
//! by URL alone would undo that. So everything in agent and gateway that looks something up or keeps it takes a
//! [`RequestContext`]. Both ends build it with the same constructor from the same fields, which the agent forwards
//! unchanged; only the [`ClientId`] travels in addition.
//!
//! A request does not tell the top-level site of what a frame's document asks for: `docs/THREAT-MODEL.md` says what
//! follows from that.
mod credentials;
mod fetch_metadata;
mod partition;
mod requester;

use http::{HeaderMap, Method, header};
use longhaul_types::ClientId;

pub use self::{
    credentials::{CredentialsKey, CredentialsSecret, identity_key},
    fetch_metadata::{Navigation, RequestDestination, RequestMode, RequestShape, SiteRelation},
    partition::PartitionKey,
    requester::{Requester, origin_of},
};
use self::{fetch_metadata::FetchMetadata, partition::partition};
use crate::{directives::Directives, site::SchemefulSite};

/// Who asks, and for what.
///
/// Two requests with equal contexts may be answered from the same private response; the rules for contexts that
/// differ are [`RequestContext::may_reuse`] and, for pushed responses, [`RequestContext::shape`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestContext {
    client: ClientId,
    requester: Requester,
    relation: SiteRelation,
    destination: RequestDestination,
    mode: RequestMode,
    navigation: Navigation,
    partition: Option<PartitionKey>,
    credentials: Option<CredentialsKey>,
}

impl RequestContext {
    /// The context of a request for `url`, which is absolute, with its scheme and host in lower case and without a
    /// default port. `secret` is the keeper's own: keys of credentials mean nothing to others.
    pub fn of(
        client: ClientId,
        secret: &CredentialsSecret,
        method: &Method,
        url: &str,
        headers: &HeaderMap,
    ) -> Self {
        let metadata = FetchMetadata::of(headers);
        let target = SchemefulSite::of_url(url);
        let navigation = metadata.navigation(method, headers);
        let mut requester = Requester::of(headers);
        let relation = metadata.relation(&requester, url, target.as_ref());
        if navigation == Navigation::None {
            requester = requester.confirmed(relation, metadata.says_site(), url, target.as_ref());
        }
        Self {
            partition: target.and_then(|target| partition(navigation, &requester, target)),
            client,
            requester,
            relation,
            destination: metadata.destination,
            mode: metadata.mode,
            navigation,
            credentials: secret.key(headers),
        }
    }

    /// The operating-system user, and the proxy credential, for which the agent acts.
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The document or style sheet that asks.
    pub const fn requester(&self) -> &Requester {
        &self.requester
    }

    /// How the requester is related to the target.
    pub const fn relation(&self) -> SiteRelation {
        self.relation
    }

    /// Whether a document is wanted, and for what.
    pub const fn navigation(&self) -> Navigation {
        self.navigation
    }

    /// What the response is for, as far as the browser says it.
    pub const fn destination(&self) -> RequestDestination {
        self.destination
    }

    /// The key of everything private. None: nothing private is looked up or kept.
    pub const fn partition(&self) -> Option<&PartitionKey> {
        self.partition.as_ref()
    }

    /// The key of the request's credentials; none if it has none.
    pub const fn credentials(&self) -> Option<CredentialsKey> {
        self.credentials
    }

    /// Relation, mode and destination: a response that was fetched ahead of a request answers it only if these are
    /// equal.
    pub const fn shape(&self) -> RequestShape {
        RequestShape::of(self.relation, self.mode, self.destination)
    }

    /// The same without a partition: nothing private is looked up or kept by it. For a requester that is known to be
    /// in a frame of another site.
    pub fn without_partition(self) -> Self {
        Self {
            partition: None,
            ..self
        }
    }

    /// Whether a stored response that was fetched with `credentials`, in the same partition and for the same client,
    /// may answer this request, as far as credentials go.
    ///
    /// Documents are for the credentials with which they were fetched, always. Anything else is for others, too, if it
    /// was fetched without credentials or its origin says that it is for everybody (`public`, `immutable`).
    pub fn may_reuse(&self, credentials: Option<CredentialsKey>, response: &HeaderMap) -> bool {
        if self.credentials == credentials {
            return true;
        }
        self.navigation == Navigation::None && (credentials.is_none() || is_for_everybody(response))
    }

    /// Whether a page of another site, or nobody knows who, makes the browser ask with its user's credentials. Such a
    /// response must not be coded against what the user holds, nor serve as a base: its length would tell of it.
    pub fn is_credentialed_by_stranger(&self, headers: &HeaderMap) -> bool {
        let has_credentials = [header::COOKIE, header::AUTHORIZATION]
            .iter()
            .any(|name| headers.contains_key(name));
        has_credentials
            && !matches!(
                self.relation,
                SiteRelation::SameOrigin | SiteRelation::SameSite | SiteRelation::None
            )
    }
}

/// Whether the origin says that a response is the same for everybody.
fn is_for_everybody(response: &HeaderMap) -> bool {
    let directives = Directives::of(response);
    (directives.has("public") || directives.has("immutable")) && !directives.has("private")
}

#[cfg(test)]
mod tests;

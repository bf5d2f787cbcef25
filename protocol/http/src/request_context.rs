//! The request context (`docs/protocol/session.md` section 9), derived from the request alone.
//!
//! Browsers separate sites, users and logins by partitioned caches, `SameSite` and Fetch Metadata. A proxy
//! that answered by URL alone would break this separation. Therefore all lookups and stores of agent and
//! gateway take a [`RequestContext`]. Both ends derive it with the same constructor from the same fields,
//! which the agent forwards unchanged; only the [`ClientId`] is sent in addition.
//!
//! A request of a frame's document does not reveal the top-level site: `docs/THREAT-MODEL.md` describes the
//! consequences.
mod credentials;
mod fetch_metadata;
mod own_fields;
mod partition;
mod requester;
mod site_relation;

use http::{HeaderMap, Method, header};
use longhaul_types::ClientId;

pub use self::{
    credentials::{CredentialsKey, CredentialsSecret, identity_key},
    fetch_metadata::{Navigation, RequestDestination, RequestMode, RequestShape},
    own_fields::is_own_field,
    partition::PartitionKey,
    requester::Requester,
    site_relation::{SiteRelation, origin_of},
};
use self::{fetch_metadata::FetchMetadata, partition::partition};
use crate::{
    directives::Directives,
    site::{SchemefulSite, host_of_url},
};

/// Requester, target relation, partition and credentials of a request.
///
/// Two requests with equal contexts may be answered from the same private response.
/// [`RequestContext::may_reuse`] and, for pushed responses, [`RequestContext::shape`] define the rules for
/// different contexts.
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
    /// Returns the context of a request for `url`, which must be absolute, with scheme and host in lower case
    /// and without a default port. `secret` is that of the storing program: keys of credentials are
    /// comparable only under one secret.
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

    /// The operating-system user or proxy credential that the agent serves.
    pub const fn client(&self) -> ClientId {
        self.client
    }

    /// The document or style sheet that makes the request.
    pub const fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Relation of the requester to the target.
    pub const fn relation(&self) -> SiteRelation {
        self.relation
    }

    /// Kind of navigation.
    pub const fn navigation(&self) -> Navigation {
        self.navigation
    }

    /// Destination of the response, if the browser states it.
    pub const fn destination(&self) -> RequestDestination {
        self.destination
    }

    /// Partition of private data. With None, nothing private is looked up or stored.
    pub const fn partition(&self) -> Option<&PartitionKey> {
        self.partition.as_ref()
    }

    /// Host of the page that displays the response, as far as the request tells: the requester's host; of a top-level
    /// navigation, and where the requester is unknown, the host of `url`, which is that of the request.
    pub fn page_host<'a>(&'a self, url: &'a str) -> Option<&'a str> {
        let requester = self.requester.origin().and_then(host_of_url);
        let requester = requester.filter(|_| self.navigation != Navigation::TopLevel);
        requester.or_else(|| host_of_url(url))
    }

    /// Key of the request's credentials; none without credentials.
    pub const fn credentials(&self) -> Option<CredentialsKey> {
        self.credentials
    }

    /// Relation, mode and destination. A response that was fetched before a request answers the request only
    /// if these are equal.
    pub const fn shape(&self) -> RequestShape {
        RequestShape::of(self.relation, self.mode, self.destination)
    }

    /// Returns the context without partition, so that nothing private is looked up or stored with it. For a
    /// requester that is known to be in a frame of another site.
    pub fn without_partition(self) -> Self {
        Self {
            partition: None,
            ..self
        }
    }

    /// Returns true if a stored response that was fetched with `credentials`, in the same partition and for
    /// the same client, may answer this request, as far as credentials are concerned.
    ///
    /// Documents always require the credentials with which they were fetched. Other responses may also answer
    /// requests with other credentials if they were fetched without credentials or are `public` or
    /// `immutable` (and not `private`).
    pub fn may_reuse(&self, credentials: Option<CredentialsKey>, response: &HeaderMap) -> bool {
        if self.credentials == credentials {
            return true;
        }
        self.navigation == Navigation::None && (credentials.is_none() || is_for_everybody(response))
    }

    /// Returns true for a request with credentials that a page of another site or an unknown requester
    /// caused. Its response must neither be encoded against a base nor serve as base: its length would reveal
    /// information about the user's other responses.
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

/// Returns true if the origin declares a response to be the same for all users.
fn is_for_everybody(response: &HeaderMap) -> bool {
    let directives = Directives::of(response);
    (directives.has("public") || directives.has("immutable")) && !directives.has("private")
}

#[cfg(test)]
mod tests;

//! State of one connection of a browser.
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use http::{HeaderMap, Response};
use longhaul_http::{client_software::is_browser, credentials};
use longhaul_origin::OriginClient;
use longhaul_session::BoundConnectionId;

use super::{connection_limit::ConnectionPermit, connection_slot::InUse};
use crate::access::{Client, UserId};

/// Number of the next connection; 0 means none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One connection of a browser. It becomes bound once it has carried a login for the connection (NTLM,
/// Negotiate: RFC 4559); its responses then belong to this connection only.
#[derive(Debug)]
pub struct ConnectionScope {
    number: u64,
    bound: AtomicBool,
    /// Client for direct fetches of a bound connection.
    direct: OnceLock<OriginClient>,
    /// Client for login pages of the network, of a bound connection.
    at_portal: OnceLock<OriginClient>,
    /// Client for local hosts, of a bound connection.
    local: OnceLock<OriginClient>,
    user: Option<UserId>,
    /// Credential of the first request that had one; requests with another credential are refused.
    credential: OnceLock<Arc<str>>,
    /// `None` in tests.
    permit: Option<Arc<ConnectionPermit>>,
}

impl ConnectionScope {
    /// Creates the state of a client's connection, with a unique number.
    pub fn new(client: &Client) -> Self {
        let scope = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            bound: AtomicBool::new(false),
            direct: OnceLock::new(),
            at_portal: OnceLock::new(),
            local: OnceLock::new(),
            user: client.user(),
            credential: OnceLock::new(),
            permit: None,
        };
        if let Some(name) = client.credential() {
            let _new = scope.credential.set(name.into());
        }
        scope
    }

    /// Creates the state of a connection that has a permit.
    pub(crate) fn with_permit(user: Option<UserId>, permit: Arc<ConnectionPermit>) -> Self {
        Self {
            permit: Some(permit),
            ..Self::new(&Client::new(user, None))
        }
    }

    /// Creates the state of a connection inside this one, such as TLS in a tunnel: it has the same client and
    /// permit, and its own number and logins.
    pub(crate) fn inner(&self) -> Self {
        Self {
            permit: self.permit.clone(),
            ..Self::new(&self.client())
        }
    }

    /// Creates the state of a connection with the same client that has no place: for a request that may last longer
    /// than its connection.
    pub(crate) fn detached(&self) -> Self {
        Self::new(&self.client())
    }

    /// The client of the connection.
    pub fn client(&self) -> Client {
        Client::new(self.user, self.credential.get().cloned())
    }

    /// Records the credential of a request; returns `false` if an earlier request had another credential.
    pub(crate) fn accepts_credential(&self, name: &Arc<str>) -> bool {
        self.credential.get_or_init(|| Arc::clone(name)) == name
    }

    /// Marks the connection as in use until the guard is dropped.
    pub(crate) fn begin(&self) -> Option<InUse> {
        self.permit.as_ref().map(|permit| permit.begin())
    }

    /// Marks that the client must send bytes that are not yet a request, such as a ClientHello.
    pub(crate) fn expect_first_bytes(&self) {
        if let Some(permit) = &self.permit {
            permit.expect_first_bytes();
        }
    }

    /// Marks that requests follow; `begun` if the first one has begun.
    pub(crate) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        if let Some(permit) = &self.permit {
            permit.expect_requests(multiplexed, begun);
        }
    }

    /// Marks that the connection has become a tunnel; `is_used` if the tunnel has carried bytes.
    pub(crate) fn become_tunnel(&self, is_used: bool) {
        if let Some(permit) = &self.permit {
            permit.become_tunnel(is_used);
        }
    }

    /// Processes the fields of a request.
    pub fn observe_request(&self, request: &HeaderMap) {
        if credentials::is_connection_bound(request) {
            self.bound.store(true, Ordering::Relaxed);
        }
        if let Some(permit) = &self.permit {
            permit.record_browser(is_browser(request));
        }
    }

    /// Processes the response to the last request.
    pub fn observe_response<B>(&self, response: &Response<B>) {
        if credentials::is_connection_challenge(response) {
            self.bound.store(true, Ordering::Relaxed);
        }
    }

    /// The connection's number, if it is bound.
    pub fn bound_number(&self) -> Option<BoundConnectionId> {
        let is_bound = self.bound.load(Ordering::Relaxed);
        BoundConnectionId::new(self.number).filter(|_| is_bound)
    }

    /// Returns the client for direct fetches: a bound connection has a client with origin connections of its
    /// own.
    pub fn direct(&self, shared: &OriginClient) -> OriginClient {
        self.own_if_bound(&self.direct, shared)
    }

    /// Returns the client for login pages of the network, in the same way.
    pub fn at_portal(&self, shared: &OriginClient) -> OriginClient {
        self.own_if_bound(&self.at_portal, shared)
    }

    /// Returns the client for local hosts, in the same way.
    pub fn local(&self, shared: &OriginClient) -> OriginClient {
        self.own_if_bound(&self.local, shared)
    }

    fn own_if_bound(&self, own: &OnceLock<OriginClient>, shared: &OriginClient) -> OriginClient {
        match self.bound_number() {
            None => shared.clone(),
            Some(_) => own.get_or_init(|| shared.isolated()).clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue, StatusCode, header};

    use super::*;

    fn fields(name: HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    fn scope() -> ConnectionScope {
        ConnectionScope::new(&Client::new(Some(UserId::new(7)), None))
    }

    #[test]
    fn a_connection_login_binds_the_connection_until_it_ends() {
        let (one, other) = (scope(), scope());
        one.observe_request(&fields(header::AUTHORIZATION, "Basic eA=="));
        assert_eq!(one.bound_number(), None);
        one.observe_request(&fields(header::AUTHORIZATION, "NTLM x"));
        one.observe_request(&HeaderMap::new());
        let mut refused = Response::new(());
        *refused.headers_mut() = fields(header::WWW_AUTHENTICATE, "Negotiate");
        other.observe_response(&refused);
        assert_eq!(other.bound_number(), None, "a 200");
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        other.observe_response(&refused);
        let (one, other) = (one.bound_number().unwrap(), other.bound_number().unwrap());
        assert_ne!(one, other);
    }

    #[test]
    fn a_connection_and_its_tunnel_have_one_client() {
        let scope = scope();
        assert!(scope.accepts_credential(&"me".into()));
        assert!(scope.accepts_credential(&"me".into()));
        assert!(!scope.accepts_credential(&"you".into()));
        let expected = Client::new(Some(UserId::new(7)), Some("me".into()));
        assert_eq!(scope.client(), expected);
        assert_eq!(scope.inner().client(), expected);
    }
}

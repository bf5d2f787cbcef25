//! What belongs to one connection of a browser.
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use http::{HeaderMap, Response};
use longhaul_http::credentials;
use longhaul_origin::OriginClient;

use super::{
    Client, UserId,
    places::{InUse, Place},
};

/// The number of the next connection; 0 is none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// One connection of a browser, which may become bound: once a login of a connection (NTLM, Negotiate: RFC 4559) was
/// seen on it, what it carries belongs to nobody else.
#[derive(Debug)]
pub struct ConnectionScope {
    number: u64,
    bound: AtomicBool,
    /// For the way around the gateway.
    direct: OnceLock<OriginClient>,
    user: Option<UserId>,
    /// Of the first request that showed one; requests that show another are refused.
    credential: OnceLock<Arc<str>>,
    /// `None` in tests.
    place: Option<Arc<Place>>,
}

impl ConnectionScope {
    /// A connection of a client, with a number that no other has.
    pub fn new(client: &Client) -> Self {
        let scope = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            bound: AtomicBool::new(false),
            direct: OnceLock::new(),
            user: client.user(),
            credential: OnceLock::new(),
            place: None,
        };
        if let Some(name) = client.credential() {
            let _new = scope.credential.set(name.into());
        }
        scope
    }

    /// The same, of a connection that has a place.
    pub(crate) fn with_place(user: Option<UserId>, place: Arc<Place>) -> Self {
        Self {
            place: Some(place),
            ..Self::new(&Client::new(user, None))
        }
    }

    /// A connection inside this one, such as that of TLS in a tunnel: of the same client and in the same place, with a
    /// number and logins of its own.
    pub(crate) fn inner(&self) -> Self {
        Self {
            place: self.place.clone(),
            ..Self::new(&self.client())
        }
    }

    /// Whose connection it is.
    pub fn client(&self) -> Client {
        Client::new(self.user, self.credential.get().cloned())
    }

    /// Notes whose credential a request shows; `false` if another one showed somebody else's before.
    pub(crate) fn shows(&self, name: &Arc<str>) -> bool {
        self.credential.get_or_init(|| Arc::clone(name)) == name
    }

    /// The connection is in use for as long as what this gives lives.
    pub(crate) fn begin(&self) -> Option<InUse> {
        self.place.as_ref().map(|place| place.begin())
    }

    /// The client has to say something first that is no request, such as the begin of TLS.
    pub(crate) fn expect(&self) {
        if let Some(place) = &self.place {
            place.expect();
        }
    }

    /// Requests follow, of which the first may have `begun`.
    pub(crate) fn expect_requests(&self, multiplexed: bool, begun: bool) {
        if let Some(place) = &self.place {
            place.expect_requests(multiplexed, begun);
        }
    }

    /// It has become a tunnel, which has carried something already or not.
    pub(crate) fn becomes_tunnel(&self, is_used: bool) {
        if let Some(place) = &self.place {
            place.becomes_tunnel(is_used);
        }
    }

    /// Notes a request on it.
    pub fn asked(&self, request: &HeaderMap) {
        if credentials::is_connection_bound(request) {
            self.bound.store(true, Ordering::Relaxed);
        }
    }

    /// Notes the response to the last request on it.
    pub fn answered<B>(&self, response: &Response<B>) {
        if credentials::is_connection_challenge(response) {
            self.bound.store(true, Ordering::Relaxed);
        }
    }

    /// Its number, from 1, once it is bound.
    pub fn bound(&self) -> Option<u64> {
        self.bound.load(Ordering::Relaxed).then_some(self.number)
    }

    /// The client that asks origins directly for it: once it is bound, one with connections of its own.
    pub fn direct(&self, shared: &OriginClient) -> OriginClient {
        match self.bound() {
            None => shared.clone(),
            Some(_) => self.direct.get_or_init(|| shared.isolated()).clone(),
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
    fn logins_bind_connections_for_good() {
        let (one, other) = (scope(), scope());
        one.asked(&fields(header::AUTHORIZATION, "Basic eA=="));
        assert_eq!(one.bound(), None);
        one.asked(&fields(header::AUTHORIZATION, "NTLM x"));
        one.asked(&HeaderMap::new());
        let mut refused = Response::new(());
        *refused.headers_mut() = fields(header::WWW_AUTHENTICATE, "Negotiate");
        other.answered(&refused);
        assert_eq!(other.bound(), None, "a 200");
        *refused.status_mut() = StatusCode::UNAUTHORIZED;
        other.answered(&refused);
        let (one, other) = (one.bound().unwrap(), other.bound().unwrap());
        assert!(one > 0 && other > one);
    }

    #[test]
    fn a_connection_has_one_client_and_so_has_what_is_inside() {
        let scope = scope();
        assert!(scope.shows(&"me".into()));
        assert!(scope.shows(&"me".into()));
        assert!(!scope.shows(&"you".into()));
        let expected = Client::new(Some(UserId::new(7)), Some("me".into()));
        assert_eq!(scope.client(), expected);
        assert_eq!(scope.inner().client(), expected);
    }
}

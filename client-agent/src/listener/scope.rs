//! What belongs to one connection of a browser.
use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use http::{HeaderMap, Response};
use longhaul_http::credentials;
use longhaul_origin::OriginClient;

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
}

impl ConnectionScope {
    /// A connection with a number that no other has.
    #[expect(
        clippy::new_without_default,
        reason = "each call takes a number, which a default value should not"
    )]
    pub fn new() -> Self {
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            bound: AtomicBool::new(false),
            direct: OnceLock::new(),
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

    #[test]
    fn logins_bind_connections_for_good() {
        let (one, other) = (ConnectionScope::new(), ConnectionScope::new());
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
}

//! Who may use the admin port: a program of root or of the gateway's own user that has the token. The token comes from the
//! admin socket, and ends with the gateway.
use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    extract::{Request, State},
    http::{HeaderValue, StatusCode},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, header};
use longhaul_tcp_info::{UserId, peer::Peer};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The port and the token of one run of the gateway.
#[derive(Debug)]
pub(crate) struct AdminAccess {
    address: SocketAddr,
    token: String,
}

impl AdminAccess {
    /// Makes the token of the port with this address.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub(crate) fn new(address: SocketAddr) -> Result<Self, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let token = URL_SAFE_NO_PAD.encode(secret);
        Ok(Self { address, token })
    }

    /// The token.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Address of the port.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// True if the request has the token, and is not that of a page in a browser, for another name of this machine (DNS
    /// rebinding), or one that came through a proxy.
    fn admits(&self, fields: &HeaderMap) -> bool {
        let text = |name: HeaderName| fields.get(name).map(HeaderValue::as_bytes);
        let names = [
            self.address.to_string(),
            format!("localhost:{}", self.address.port()),
        ];
        let is_own_name =
            text(header::HOST).is_some_and(|named| names.iter().any(|own| own.as_bytes() == named));
        let is_elsewhere = [header::ORIGIN, SEC_FETCH_SITE, header::VIA]
            .iter()
            .any(|name| fields.contains_key(name));
        let token = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix(b"Bearer "));
        is_own_name && !is_elsewhere && token.is_some_and(|token| hash(token) == hash(self.token.as_bytes()))
    }
}

/// True if a program of this peer may use the port. Where the system does not report users, the token alone decides.
pub(super) fn may_connect(peer: Peer) -> bool {
    match peer {
        Peer::User(user) => user == UserId::own() || user == UserId::new(0),
        Peer::Unreported => true,
        Peer::Closed | Peer::OtherMachine => false,
    }
}

/// The requests of the admin socket, for programs with the token.
pub(crate) fn guarded(router: Router, access: Arc<AdminAccess>) -> Router {
    router.layer(from_fn_with_state(access, guard))
}

/// Refuses whoever may not. A path that does not exist gets the same answer as one that does.
async fn guard(State(access): State<Arc<AdminAccess>>, request: Request, next: Next) -> Response {
    if access.admits(request.headers()) {
        return next.run(request).await;
    }
    let words = "This needs the token that `longhaul-gateway admin --token` prints, in the field `Authorization: Bearer`.\n";
    (StatusCode::FORBIDDEN, words).into_response()
}

/// Tokens are compared by their hashes, so that the time of a comparison says nothing about the token.
fn hash(token: &[u8]) -> blake3::Hash {
    blake3::hash(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                HeaderName::from_static(name),
                HeaderValue::from_str(value).unwrap(),
            )
        });
        pairs.collect()
    }

    #[test]
    fn only_programs_with_the_token_are_admitted() {
        let access = AdminAccess::new("127.0.0.1:9434".parse().unwrap()).unwrap();
        let token = format!("Bearer {}", access.token());
        let admits = |more: &[(&'static str, &str)], token: &str| {
            access.admits(&fields(&[&[("authorization", token)], more].concat()))
        };
        assert!(admits(&[("host", "127.0.0.1:9434")], &token));
        assert!(admits(&[("host", "localhost:9434")], &token));
        for wrong in ["Bearer x", "Bearer ", access.token(), ""] {
            assert!(!admits(&[("host", "127.0.0.1:9434")], wrong), "{wrong}");
        }
        for wrong in [
            &[][..],
            &[("host", "127.0.0.1")],
            &[("host", "evil.test:9434")],
            &[("host", "127.0.0.1:9434"), ("origin", "http://127.0.0.1:9434")],
            &[("host", "127.0.0.1:9434"), ("sec-fetch-site", "none")],
            &[("host", "127.0.0.1:9434"), ("via", "1.1 x")],
        ] {
            assert!(!admits(wrong, &token), "{wrong:?}");
        }
    }

    #[test]
    fn other_users_may_not_connect() {
        let own = UserId::own();
        assert!(may_connect(Peer::User(own)));
        assert!(may_connect(Peer::User(UserId::new(0))));
        assert!(!may_connect(Peer::User(UserId::new(own.get() + 1))));
        assert!(!may_connect(Peer::Closed));
        assert!(!may_connect(Peer::OtherMachine));
    }
}

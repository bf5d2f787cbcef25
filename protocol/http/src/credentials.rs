//! Connection-bound logins (`docs/protocol/session.md` section 8).
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

/// Authentication schemes that authenticate a connection: NTLM, and Negotiate (RFC 4559), which carries NTLM
/// or Kerberos.
const CONNECTION_BOUND: [&str; 2] = ["ntlm", "negotiate"];

/// Returns true if a request's `Authorization` authenticates its connection: all later requests on that
/// connection then have the same user.
pub fn is_connection_bound(request: &HeaderMap) -> bool {
    request
        .get_all(header::AUTHORIZATION)
        .iter()
        .any(|value| is_bound_scheme(first_word(value.as_bytes())))
}

/// Returns true if a response starts or continues a connection-bound login: a 401 whose `WWW-Authenticate`
/// has such a scheme.
pub fn is_connection_challenge<B>(response: &Response<B>) -> bool {
    response.status() == StatusCode::UNAUTHORIZED
        && response
            .headers()
            .get_all(header::WWW_AUTHENTICATE)
            .iter()
            .any(offers_bound_scheme)
}

/// Several challenges may share a field (RFC 9110 section 11.6.1). A parameter whose quoted text looks like a
/// scheme counts as one: this error reduces sharing, the opposite error would break a login.
fn offers_bound_scheme(value: &HeaderValue) -> bool {
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .any(|challenge| is_bound_scheme(first_word(challenge)))
}

fn first_word(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    let end = text.iter().position(u8::is_ascii_whitespace);
    &text[..end.unwrap_or(text.len())]
}

fn is_bound_scheme(scheme: &[u8]) -> bool {
    CONNECTION_BOUND
        .iter()
        .any(|bound| scheme.eq_ignore_ascii_case(bound.as_bytes()))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn fields(name: HeaderName, values: &[&'static str]) -> HeaderMap {
        let fields = values
            .iter()
            .map(|value| (name.clone(), HeaderValue::from_static(value)));
        fields.collect()
    }

    #[test]
    fn ntlm_and_negotiate_requests_bind_the_connection() {
        let of = |values: &[&'static str]| is_connection_bound(&fields(header::AUTHORIZATION, values));
        assert!(of(&["NTLM TlRMTVNTUAAB"]));
        assert!(of(&["negotiate YII"]));
        assert!(of(&[" NEGOTIATE"]));
        assert!(of(&["Basic eA==", "nTlM x"]));
        for other in [
            "",
            "Basic NTLM",
            "Bearer negotiate",
            "NTLMv2 x",
            "Digest username=\"ntlm\"",
        ] {
            assert!(!of(&[other]), "{other}");
        }
        assert!(!of(&[]));
    }

    #[test]
    fn connection_challenges_are_recognised_by_status_and_scheme() {
        let of = |status: StatusCode, values: &[&'static str]| {
            let mut response = Response::new(());
            *response.status_mut() = status;
            *response.headers_mut() = fields(header::WWW_AUTHENTICATE, values);
            is_connection_challenge(&response)
        };
        let refused = StatusCode::UNAUTHORIZED;
        assert!(of(refused, &["NTLM"]));
        assert!(of(refused, &["Basic realm=\"a\"", "Negotiate"]));
        assert!(of(refused, &["Basic realm=\"a, b\", ntlm TlRM, Digest nonce=x"]));
        assert!(!of(refused, &["Basic realm=\"NTLM\""]));
        assert!(!of(refused, &[]));
        assert!(!of(StatusCode::OK, &["NTLM"]));
    }
}

//! The answer of a proxy to CONNECT (RFC 9110 section 9.3.6). Pure.
use crate::ProxyError;

/// Maximum length of the head of an answer.
pub const MAX_HEAD: usize = 8 * 1024;
/// Maximum number of fields of the head.
const MAX_FIELDS: usize = 64;
/// Maximum length of the names of login methods that are kept.
const MAX_METHODS: usize = 60;

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The head is incomplete.
    Partial,
    /// The proxy has opened the tunnel, which begins after this number of bytes.
    Open(usize),
}

/// Parses the head of the answer. `has_credentials`: the request contained some.
///
/// # Errors
/// The proxy opens no tunnel.
pub fn parse(bytes: &[u8], has_credentials: bool) -> Result<Answer, ProxyError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut answer = httparse::Response::new(&mut fields);
    let length = match answer.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(Answer::Partial),
        Ok(httparse::Status::Partial) | Err(_) => return Err(ProxyError::NotAProxy(None)),
    };
    match answer.code.unwrap_or_default() {
        200..300 => Ok(Answer::Open(length)),
        407 => {
            let fields = answer.headers.iter();
            let offers = fields.filter(|field| field.name.eq_ignore_ascii_case("proxy-authenticate"));
            Err(login_wanted(offers.map(|field| field.value), has_credentials))
        }
        // Answers of web servers, which have no method CONNECT, or of a portal.
        code @ (100..200 | 300..400 | 400 | 404 | 405 | 501) => Err(ProxyError::NotAProxy(Some(code))),
        code @ 400..=499 => Err(ProxyError::Forbidden(code)),
        code => Err(ProxyError::NoWay(code)),
    }
}

/// The error of an answer 407 with these values of `Proxy-Authenticate`.
pub fn login_wanted<'a>(offers: impl Iterator<Item = &'a [u8]>, has_credentials: bool) -> ProxyError {
    ProxyError::Credentials {
        were_sent: has_credentials,
        methods: methods(offers),
    }
}

/// Names of the login methods that the proxy offers, such as `Basic, NTLM`.
fn methods<'a>(offers: impl Iterator<Item = &'a [u8]>) -> String {
    let mut names = String::new();
    for offer in offers {
        let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
        let name: String = offer
            .iter()
            .take_while(|byte| is_token(byte))
            .map(|byte| char::from(*byte))
            .collect();
        let is_new = !name.is_empty() && names.split(", ").all(|other| other != name);
        if is_new && names.len() + name.len() < MAX_METHODS {
            if !names.is_empty() {
                names.push_str(", ");
            }
            names.push_str(&name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn answers_of_proxies_and_of_other_servers_are_told_apart() {
        let head = "HTTP/1.1 200 Connection established\r\nVia: squid\r\n\r\n";
        let bytes = format!("{head}SSH-2.0-x\r\n");
        assert_eq!(parse(bytes.as_bytes(), false), Ok(Answer::Open(head.len())));
        for cut in 0..head.len() {
            assert_eq!(parse(&head.as_bytes()[..cut], false), Ok(Answer::Partial));
        }
        let of = |status: &str| parse(format!("HTTP/1.1 {status}\r\n\r\n").as_bytes(), false);
        assert_eq!(of("204 x"), Ok(Answer::Open("HTTP/1.1 204 x\r\n\r\n".len())));
        for (status, error) in [
            ("403 Forbidden", ProxyError::Forbidden(403)),
            ("429 x", ProxyError::Forbidden(429)),
            ("503 x", ProxyError::NoWay(503)),
            ("404 x", ProxyError::NotAProxy(Some(404))),
            ("302 x", ProxyError::NotAProxy(Some(302))),
            ("101 x", ProxyError::NotAProxy(Some(101))),
        ] {
            assert_eq!(of(status), Err(error));
        }
        for bytes in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            &[b'a'; MAX_HEAD],
            &[0x16, 3, 1, 0, 5],
        ] {
            assert_eq!(parse(bytes, true), Err(ProxyError::NotAProxy(None)));
        }
        let endless = format!("HTTP/1.1 200 x\r\na: {}", "a".repeat(MAX_HEAD));
        assert_eq!(parse(endless.as_bytes(), true), Err(ProxyError::NotAProxy(None)));
    }

    #[test]
    fn a_wanted_login_names_its_methods() {
        let head = "HTTP/1.1 407 x\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate: NTLM abc\r\n\
                    Proxy-Authenticate: Basic realm=\"x\"\r\nProxy-Authenticate: NTLM\r\n\r\n";
        let wanted = ProxyError::Credentials {
            were_sent: true,
            methods: "Negotiate, NTLM, Basic".to_owned(),
        };
        assert_eq!(parse(head.as_bytes(), true), Err(wanted));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "HTTP/1.[01] [0-9]{3}.{0,100}") {
            let _any = parse(&bytes, false);
            if let Ok(Answer::Open(length)) = parse(text.as_bytes(), true) {
                prop_assert!(length <= text.len());
            }
        }

        /// What follows the head never changes what is read.
        #[test]
        fn the_head_ends_where_it_ends(code in 100_u16..1000, fields in proptest::collection::vec("[a-z-]{1,10}: [ -~]{0,20}\r\n", 0..5), rest in proptest::collection::vec(any::<u8>(), 0..50)) {
            let head = format!("HTTP/1.1 {code} x\r\n{}\r\n", fields.concat());
            let mut bytes = head.clone().into_bytes();
            bytes.extend(rest);
            prop_assert_eq!(parse(&bytes, true), parse(head.as_bytes(), true));
            if (200..300).contains(&code) {
                prop_assert_eq!(parse(&bytes, true), Ok(Answer::Open(head.len())));
            }
        }
    }
}

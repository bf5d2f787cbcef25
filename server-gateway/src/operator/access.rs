//! Who may use the admin page on its port: a browser that followed a one-time address, and a program with the token. Both
//! come from the admin socket, and end with the gateway.
use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderName, header};
use parking_lot::Mutex;

/// Time for which a one-time address works.
const CODE_TIME: Duration = Duration::from_secs(5 * 60);
/// Time for which a browser stays admitted.
const COOKIE_TIME: Duration = Duration::from_secs(12 * 3600);
/// Most one-time addresses, and most browsers; the oldest is forgotten for another one.
const MOST: usize = 16;
/// Name of the cookie.
const COOKIE: &str = "longhaul_admin";
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A secret of 256 bits; only its hash is kept.
type Hash = [u8; 32];

/// The secrets of one run of the gateway.
#[derive(Debug)]
pub(crate) struct AdminAccess {
    address: SocketAddr,
    token: String,
    /// Key of the tokens in forms.
    form_key: Hash,
    issued: Mutex<Issued>,
}

#[derive(Debug, Default)]
struct Issued {
    codes: Vec<(Hash, Instant)>,
    cookies: Vec<(Hash, Instant)>,
}

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// A browser; its forms must have this token.
    Browser {
        /// Token of the forms.
        form_token: String,
    },
    /// A program with the token.
    Program,
}

impl AdminAccess {
    /// Makes the secrets of the port with this address.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub(crate) fn new(address: SocketAddr) -> Result<Self, getrandom::Error> {
        Ok(Self {
            address,
            token: secret()?,
            form_key: random()?,
            issued: Mutex::default(),
        })
    }

    /// The token for programs.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// A new one-time address.
    ///
    /// # Errors
    /// The system provides no randomness.
    pub(crate) fn one_time_url(&self, now: Instant) -> Result<String, getrandom::Error> {
        let code = secret()?;
        remember(&mut self.issued.lock().codes, &code, now + CODE_TIME);
        Ok(format!("http://{}/login?code={code}", self.address))
    }

    /// Admits the browser with this code; returns the value of `Set-Cookie`. The code is used up.
    pub(crate) fn log_in(&self, code: &str, now: Instant) -> Option<String> {
        let mut issued = self.issued.lock();
        let hash = hash(code);
        let place = issued
            .codes
            .iter()
            .position(|(known, until)| *known == hash && now < *until)?;
        issued.codes.remove(place);
        let cookie = secret().ok()?;
        remember(&mut issued.cookies, &cookie, now + COOKIE_TIME);
        let seconds = COOKIE_TIME.as_secs();
        Some(format!(
            "{COOKIE}={cookie}; HttpOnly; SameSite=Strict; Path=/; Max-Age={seconds}"
        ))
    }

    /// Who sent a request with these fields; `None` if nobody who may.
    pub(crate) fn visitor(&self, fields: &HeaderMap, now: Instant) -> Option<Visitor> {
        let text = |name: HeaderName| fields.get(name).and_then(|value| value.to_str().ok());
        if let Some(authorization) = text(header::AUTHORIZATION) {
            let token = authorization.strip_prefix("Bearer ")?;
            return (hash(token) == hash(&self.token)).then_some(Visitor::Program);
        }
        let cookies = text(header::COOKIE)?.split(';').map(str::trim);
        let cookie = cookies
            .filter_map(|pair| pair.split_once('='))
            .find_map(|(name, value)| (name == COOKIE).then_some(value))?;
        let of_cookie = hash(cookie);
        let issued = self.issued.lock();
        let is_known = issued
            .cookies
            .iter()
            .any(|(known, until)| *known == of_cookie && now < *until);
        is_known.then(|| Visitor::Browser {
            form_token: self.form_token(cookie),
        })
    }

    fn form_token(&self, cookie: &str) -> String {
        let derived = blake3::keyed_hash(&self.form_key, cookie.as_bytes());
        URL_SAFE_NO_PAD.encode(derived.as_bytes())
    }

    /// True if the request is not that of a page of another origin, of another name of this machine (DNS rebinding), or one
    /// that came through a proxy.
    pub(crate) fn is_own(&self, fields: &HeaderMap) -> bool {
        let text = |name: HeaderName| fields.get(name).map(|value| value.to_str().unwrap_or("?"));
        let host = self.address.to_string();
        let local = format!("localhost:{}", self.address.port());
        let Some(named) = text(header::HOST).filter(|named| [&host, &local].iter().any(|own| own == named))
        else {
            return false;
        };
        let origin = text(header::ORIGIN);
        let is_own_origin = origin.is_none_or(|origin| origin.strip_prefix("http://") == Some(named));
        let site = text(SEC_FETCH_SITE);
        is_own_origin
            && site.is_none_or(|site| ["same-origin", "none"].contains(&site))
            && !fields.contains_key(header::VIA)
    }
}

fn remember(known: &mut Vec<(Hash, Instant)>, secret: &str, until: Instant) {
    if known.len() >= MOST {
        known.remove(0);
    }
    known.push((hash(secret), until));
}

/// Secrets are compared by their hashes, so that the time of a comparison says nothing about a secret.
fn hash(secret: &str) -> Hash {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

fn secret() -> Result<String, getrandom::Error> {
    Ok(URL_SAFE_NO_PAD.encode(random()?))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn access() -> AdminAccess {
        AdminAccess::new("127.0.0.1:9434".parse().unwrap()).unwrap()
    }

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
    fn a_code_admits_one_browser_once_and_not_for_ever() {
        let (access, start) = (access(), Instant::now());
        let url = access.one_time_url(start).unwrap();
        let code = url.split_once("code=").unwrap().1;
        assert_eq!(access.log_in("x", start), None);
        let cookie = access.log_in(code, start).unwrap();
        assert_eq!(access.log_in(code, start), None, "used up");
        let pair = cookie.split(';').next().unwrap();
        let browser = fields(&[("cookie", &format!("a=b; {pair}"))]);
        assert!(matches!(
            access.visitor(&browser, start),
            Some(Visitor::Browser { .. })
        ));
        assert_eq!(access.visitor(&browser, start + COOKIE_TIME), None);
        let late = access.one_time_url(start).unwrap();
        let code = late.split_once("code=").unwrap().1;
        assert_eq!(access.log_in(code, start + CODE_TIME), None);
    }

    #[test]
    fn only_the_token_admits_a_program() {
        let (access, now) = (access(), Instant::now());
        let with = |value: &str| access.visitor(&fields(&[("authorization", value)]), now);
        assert_eq!(
            with(&format!("Bearer {}", access.token())),
            Some(Visitor::Program)
        );
        for wrong in ["Bearer x", "Bearer ", access.token()] {
            assert_eq!(with(wrong), None, "{wrong}");
        }
        assert_eq!(access.visitor(&HeaderMap::new(), now), None);
    }

    #[test]
    fn requests_of_other_origins_names_and_through_proxies_are_not_own() {
        let access = access();
        let own = |pairs: &[(&'static str, &str)]| access.is_own(&fields(pairs));
        assert!(own(&[("host", "127.0.0.1:9434")]));
        assert!(own(&[
            ("host", "localhost:9434"),
            ("origin", "http://localhost:9434")
        ]));
        assert!(own(&[("host", "127.0.0.1:9434"), ("sec-fetch-site", "none")]));
        for wrong in [
            &[][..],
            &[("host", "127.0.0.1")],
            &[("host", "evil.test:9434")],
            &[("host", "127.0.0.1:9434"), ("origin", "http://evil.test")],
            &[("host", "127.0.0.1:9434"), ("origin", "null")],
            &[("host", "127.0.0.1:9434"), ("origin", "http://localhost:9434")],
            &[("host", "127.0.0.1:9434"), ("sec-fetch-site", "cross-site")],
            &[("host", "127.0.0.1:9434"), ("sec-fetch-site", "same-site")],
            &[("host", "127.0.0.1:9434"), ("via", "1.1 x")],
        ] {
            assert!(!own(wrong), "{wrong:?}");
        }
    }
}

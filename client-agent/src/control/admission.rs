//! Access rules of the control port.
use std::net::SocketAddr;

use http::{HeaderMap, Method, Request, StatusCode, header};

use super::{CHANGES, token::ControlToken};
use crate::access::UserId;

/// Reason why a request to the control port is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("this port answers only requests that name its own address")]
    Host,
    #[error("this port accepts changes only from its own pages")]
    Origin,
    #[error("this path accepts no changes: use GET, or POST /pictures or /forget")]
    Method,
    #[error(
        "this port shows its pages to the user who runs the agent; others need the token, which `longhaul-agent status` \
         prints for that user"
    )]
    OtherUser,
    #[error("changes need the token: open the address that `longhaul-agent status` prints")]
    Token,
}

impl Refusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::OtherUser | Self::Token => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

/// The peer of a connection to the control port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Caller {
    /// The peer's user, if the system reports one.
    pub(super) user: Option<UserId>,
    /// True if the agent serves the peer.
    pub(super) is_served: bool,
}

/// Rights of an admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    /// May read only the proxy script.
    ReadScript,
    /// May read everything.
    ReadAll,
    /// May read and change everything.
    Change,
}

/// Address and token of the control port.
#[derive(Clone, Copy, Debug)]
pub(super) struct AccessCheck<'a> {
    pub(super) own: SocketAddr,
    pub(super) token: &'a ControlToken,
}

impl AccessCheck<'_> {
    /// Checks a request by its origin and its credentials.
    pub(super) fn admit<B>(self, caller: Caller, request: &Request<B>) -> Result<Rights, Refusal> {
        let host = single_value(request.headers(), &header::HOST).ok_or(Refusal::Host)?;
        // A request in absolute form is a proxy request, and this port is not a proxy.
        if request.uri().authority().is_some() || !self.is_own_name(host) {
            return Err(Refusal::Host);
        }
        let rights = self.rights(caller, request);
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            let is_script = request.uri().path() == "/proxy.pac";
            return match rights {
                Some(Rights::ReadScript) if !is_script => Err(Refusal::OtherUser),
                Some(rights) => Ok(rights),
                None => Err(Refusal::OtherUser),
            };
        }
        let origin = single_value(request.headers(), &header::ORIGIN)
            .and_then(|origin| origin.strip_prefix("http://"));
        if !origin.is_some_and(|origin| self.is_own_name(origin)) {
            Err(Refusal::Origin)
        } else if *request.method() != Method::POST || !CHANGES.contains(&request.uri().path()) {
            Err(Refusal::Method)
        } else if rights != Some(Rights::Change) {
            Err(Refusal::Token)
        } else {
            Ok(Rights::Change)
        }
    }

    fn rights<B>(self, caller: Caller, request: &Request<B>) -> Option<Rights> {
        if self.presents_token(caller, request) {
            Some(Rights::Change)
        } else if caller.user == Some(UserId::own()) {
            Some(Rights::ReadAll)
        } else {
            caller.is_served.then_some(Rights::ReadScript)
        }
    }

    /// True if a request contains the token, or the cookie that this user received for it.
    fn presents_token<B>(self, caller: Caller, request: &Request<B>) -> bool {
        let bearer = single_value(request.headers(), &header::AUTHORIZATION)
            .and_then(|field| field.strip_prefix("Bearer "))
            .is_some_and(|text| self.token.is(text));
        let cookie = self.token.cookie(caller.user);
        let name = cookie_name(self.own);
        let fields = request.headers().get_all(header::COOKIE).iter();
        let mut cookies = fields
            .filter_map(|field| field.to_str().ok())
            .flat_map(|field| field.split(';'));
        bearer
            || in_query(request).is_some_and(|text| self.token.is(text))
            || cookies.any(|pair| {
                let shown = pair
                    .trim()
                    .strip_prefix(&name)
                    .and_then(|rest| rest.strip_prefix('='));
                shown.is_some_and(|text| blake3::Hash::from_hex(text).is_ok_and(|hash| hash == cookie))
            })
    }

    fn is_own_name(self, name: &str) -> bool {
        name == self.own.to_string() || name.eq_ignore_ascii_case(&format!("localhost:{}", self.own.port()))
    }

    /// Returns the `Set-Cookie` value that represents the token.
    pub(super) fn set_cookie(self, user: Option<UserId>) -> String {
        format!(
            "{}={}; Path=/; HttpOnly; SameSite=Strict",
            cookie_name(self.own),
            self.token.cookie(user).to_hex()
        )
    }
}

/// Name of the cookie: ports of one host share cookies, so two agents need two names.
fn cookie_name(own: SocketAddr) -> String {
    format!("longhaul-control-{}", own.port())
}

/// The token in a request's address.
pub(super) fn in_query<B>(request: &Request<B>) -> Option<&str> {
    let mut pairs = request.uri().query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix("token="))
}

fn single_value<'a>(headers: &'a HeaderMap, name: &header::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() {
        None
    } else {
        value.to_str().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:3129");
    const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:3129");
    const PICTURE: &str = "/pictures?level=low";

    fn owner() -> Caller {
        Caller {
            user: Some(UserId::own()),
            is_served: true,
        }
    }

    fn other(is_served: bool) -> Caller {
        Caller {
            user: Some(UserId::new(4_000_001)),
            is_served,
        }
    }

    fn judge_with(
        token: &ControlToken,
        caller: Caller,
        (method, uri): (&str, &str),
        fields: &[(&str, &str)],
    ) -> Result<Rights, Refusal> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let own = "127.0.0.1:3129".parse().unwrap();
        AccessCheck { own, token }.admit(caller, &request.body(()).unwrap())
    }

    /// Checks the owner's request with the token.
    fn check_peer(method: &str, uri: &str, fields: &[(&str, &str)]) -> Result<Rights, Refusal> {
        let token = ControlToken::make().unwrap();
        let bearer = format!("Bearer {}", token.to_hex());
        let fields = [fields, &[("authorization", &*bearer)]].concat();
        judge_with(&token, owner(), (method, uri), &fields)
    }

    #[test]
    fn requests_for_other_host_names_are_refused() {
        assert_eq!(check_peer("GET", "/", &[HOST]), Ok(Rights::Change));
        assert_eq!(
            check_peer("HEAD", "/", &[("host", "LocalHost:3129")]),
            Ok(Rights::Change)
        );
        for host in [
            "evil.test:3129",
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "127.0.0.1:3129.evil.test",
            "",
        ] {
            assert_eq!(
                check_peer("GET", "/", &[("host", host)]),
                Err(Refusal::Host),
                "{host}"
            );
        }
        assert_eq!(check_peer("GET", "/", &[]), Err(Refusal::Host));
        let twice = [HOST, ("host", "evil.test")];
        assert_eq!(check_peer("GET", "/", &twice), Err(Refusal::Host));
        assert_eq!(
            check_peer("GET", "http://evil.test/", &[HOST]),
            Err(Refusal::Host)
        );
    }

    #[test]
    fn pages_of_other_origins_cannot_post() {
        assert_eq!(check_peer("POST", "/", &[HOST]), Err(Refusal::Origin));
        for origin in ["http://evil.test", "null", "http://127.0.0.1:3128"] {
            for (method, uri) in [("POST", "/"), ("POST", PICTURE), ("DELETE", "/")] {
                let checked = check_peer(method, uri, &[HOST, ("origin", origin)]);
                assert_eq!(checked, Err(Refusal::Origin), "{method} {uri} {origin}");
            }
        }
        assert_eq!(check_peer("POST", PICTURE, &[HOST]), Err(Refusal::Origin));
        assert_eq!(check_peer("POST", "/", &[HOST, ORIGIN]), Err(Refusal::Method));
        assert_eq!(
            check_peer("DELETE", PICTURE, &[HOST, ORIGIN]),
            Err(Refusal::Method)
        );
        assert_eq!(check_peer("POST", PICTURE, &[HOST, ORIGIN]), Ok(Rights::Change));
    }

    #[test]
    fn rights_follow_user_and_token() {
        let token = ControlToken::make().unwrap();
        let status = ("GET", "/status.json");
        let see = |caller, request| judge_with(&token, caller, request, &[HOST]);
        assert_eq!(see(owner(), status), Ok(Rights::ReadAll));
        assert_eq!(see(other(true), status), Err(Refusal::OtherUser));
        assert_eq!(see(other(false), status), Err(Refusal::OtherUser));
        assert_eq!(see(other(true), ("GET", "/proxy.pac")), Ok(Rights::ReadScript));
        assert_eq!(see(other(false), ("GET", "/proxy.pac")), Err(Refusal::OtherUser));
        let untold = Caller {
            user: None,
            is_served: true,
        };
        assert_eq!(see(untold, status), Err(Refusal::OtherUser), "who cannot be told");

        let post = |caller, fields: &[(&str, &str)]| {
            let fields = [&[HOST, ORIGIN], fields].concat();
            judge_with(&token, caller, ("POST", PICTURE), &fields)
        };
        assert_eq!(post(owner(), &[]), Err(Refusal::Token), "without the token");
        let bearer = format!("Bearer {}", token.to_hex());
        let shown = [("authorization", &*bearer)];
        assert_eq!(post(owner(), &shown), Ok(Rights::Change));
        assert_eq!(post(other(false), &shown), Ok(Rights::Change), "who has it may");
        let query = format!("/?token={}", token.to_hex());
        assert_eq!(see(other(false), ("GET", &query)), Ok(Rights::Change));
        assert_eq!(see(other(false), ("GET", "/?token=00")), Err(Refusal::OtherUser));
    }

    #[test]
    fn a_token_cookie_is_valid_only_for_its_user() {
        let token = ControlToken::make().unwrap();
        let access_check = AccessCheck {
            own: "127.0.0.1:3129".parse().unwrap(),
            token: &token,
        };
        let set = access_check.set_cookie(owner().user);
        assert!(
            set.contains("HttpOnly") && set.contains("SameSite=Strict"),
            "{set}"
        );
        let pair = set.split(';').next().unwrap();
        assert!(!pair.contains(&token.to_hex()), "it is not the token");
        let cookies = format!("other=1; {pair}");
        let shown = [HOST, ORIGIN, ("cookie", &*cookies)];
        let post = |caller| judge_with(&token, caller, ("POST", PICTURE), &shown);
        assert_eq!(post(owner()), Ok(Rights::Change));
        // Another user's server on this machine got the cookie from the browser.
        assert_eq!(post(other(true)), Err(Refusal::Token));
    }
}

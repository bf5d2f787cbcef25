//! Access rules of the control port.
use std::net::SocketAddr;

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};

use super::{CHANGES, PRIVATE, token::ControlToken};
use crate::{
    access::{AccessRules, Denial, UserId},
    connection::{ConnectionPermit, Owner},
};

/// Reason why a request to the control port is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("this port answers only requests that name its own address")]
    Host,
    #[error("this port accepts changes only from its own pages")]
    Origin,
    #[error("this path accepts no changes: use GET")]
    Method,
    #[error(
        "this port shows its pages to the user who runs the agent; others need the token, which `longhaul-agent status` \
         prints for that user"
    )]
    OtherUser,
    #[error("this needs the token: open the address that `longhaul-agent status` prints")]
    Token,
    #[error("this port answers only its own pages")]
    Site,
}

impl Refusal {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::Host | Self::Origin | Self::OtherUser | Self::Site | Self::Token => StatusCode::FORBIDDEN,
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

impl Caller {
    /// Checks the peer of a connection and counts the connection for its user; `None` if the user has too many.
    pub(super) async fn admitted(
        access: &AccessRules,
        local: SocketAddr,
        peer: SocketAddr,
        permit: &ConnectionPermit,
    ) -> Option<Self> {
        let caller = Self::of(&access.current().check_peer(local, peer).await);
        let owner = caller.user.map_or(Owner::Refused, Owner::User);
        permit.set_owner(owner).then_some(caller)
    }

    /// The peer of a connection that was checked.
    pub(super) fn of(checked: &Result<Option<UserId>, Denial>) -> Self {
        Self {
            user: match checked {
                Ok(user) => *user,
                Err(Denial::User(user)) => Some(*user),
                Err(_) => None,
            },
            is_served: checked.is_ok(),
        }
    }
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
        if self.is_foreign(request) {
            return Err(Refusal::Site);
        }
        let rights = self.rights(caller, request);
        if matches!(*request.method(), Method::GET | Method::HEAD) {
            let is_script = request.uri().path() == "/proxy.pac";
            let is_private = PRIVATE.contains(&request.uri().path());
            return match rights {
                Some(Rights::ReadAll) if is_private => Err(Refusal::Token),
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

    /// True if a page of another origin sends the request, as far as the browser tells: other ports of this machine
    /// are other origins, too. A link of another page may open this port's pages in a tab.
    fn is_foreign<B>(self, request: &Request<B>) -> bool {
        let headers = request.headers();
        let is_reading = matches!(*request.method(), Method::GET | Method::HEAD);
        let is = |name: &str, values: &[&[u8]]| {
            let value = headers.get(name).map(HeaderValue::as_bytes);
            value.is_some_and(|value| values.contains(&value))
        };
        let opens =
            is_reading && is("sec-fetch-mode", &[b"navigate"]) && is("sec-fetch-dest", &[b"document"]);
        let of_site =
            headers.contains_key("sec-fetch-site") && !is("sec-fetch-site", &[b"same-origin", b"none"]);
        let of_origin = headers.contains_key(header::ORIGIN)
            && !single_value(headers, &header::ORIGIN)
                .and_then(|origin| origin.strip_prefix("http://"))
                .is_some_and(|origin| self.is_own_name(origin));
        // Requests that change something have a refusal of their own for other origins.
        !opens && (of_site || is_reading && of_origin)
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
mod tests;

//! Access control: users of this machine, address ranges, and holders of a password.
use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use arc_swap::ArcSwap;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use longhaul_origin::Cidr;
use longhaul_tcp_info::{
    UserId,
    peer::{self, Peer},
};

use super::passwords::Passwords;
use crate::{
    pages::{Page, page_response},
    proxy_body::ProxyBody,
};

/// The proxy's authentication challenge (RFC 7617).
const CHALLENGE: HeaderValue = HeaderValue::from_static("Basic realm=\"Longhaul agent\", charset=\"UTF-8\"");

/// The users, address ranges and passwords that are served.
#[derive(Clone, Debug)]
pub struct Access {
    users: BTreeSet<UserId>,
    ranges: Vec<Cidr>,
    passwords: Passwords,
}

impl Default for Access {
    /// Serves the user who runs the agent, on this machine, without a password.
    fn default() -> Self {
        Self::new([], [], Passwords::default())
    }
}

/// The access rules, which may change while the agent runs. Clones share the same rules.
#[derive(Clone, Debug, Default)]
pub struct AccessRules(Arc<ArcSwap<Access>>);

impl AccessRules {
    /// The rules at the start.
    pub fn new(access: Access) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(access)))
    }

    /// The rules in force.
    pub fn current(&self) -> Arc<Access> {
        self.0.load_full()
    }

    /// Replaces the rules for new connections, and for new requests of open ones.
    pub fn set(&self, access: Access) {
        self.0.store(Arc::new(access));
    }
}

/// Reason why a client is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denial {
    /// The user is not served.
    User(UserId),
    /// The peer is on this machine but its user cannot be determined.
    UnknownUser,
    /// The address is outside the ranges.
    Range(IpAddr),
    /// The password is missing or wrong.
    Password,
    /// The credential differs from the connection's first one.
    OtherPassword,
    /// The client has reached its limit of connections, and all are in use.
    TooManyConnections,
}

impl Access {
    /// Serves the agent's own user, `users`, and peers on other machines in `ranges`; requires one of
    /// `passwords`, if there are any.
    pub fn new(
        users: impl IntoIterator<Item = UserId>,
        ranges: impl IntoIterator<Item = Cidr>,
        passwords: Passwords,
    ) -> Self {
        Self {
            users: users.into_iter().chain([UserId::own()]).collect(),
            ranges: ranges.into_iter().collect(),
            passwords,
        }
    }

    /// The users who are served.
    pub fn users(&self) -> impl Iterator<Item = UserId> {
        self.users.iter().copied()
    }

    /// The address ranges of other machines that are served.
    pub fn ranges(&self) -> &[Cidr] {
        &self.ranges
    }

    /// True if a password is required.
    pub fn has_passwords(&self) -> bool {
        !self.passwords.is_empty()
    }

    /// Checks the peer of a connection that was accepted at `local`; returns its user, if the system reports
    /// one.
    pub(crate) async fn check_peer(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> Result<Option<UserId>, Denial> {
        self.check_found_peer(peer::find(local, peer).await, peer.ip().to_canonical())
    }

    fn check_found_peer(&self, found: Peer, ip: IpAddr) -> Result<Option<UserId>, Denial> {
        // For programs of this machine the user decides, not the local address that they use.
        match found {
            Peer::User(user) if self.users.contains(&user) => Ok(Some(user)),
            Peer::User(user) => Err(Denial::User(user)),
            Peer::Closed => Err(Denial::UnknownUser),
            Peer::Unreported => Ok(None),
            // Without a password no other machine is served, whatever the ranges: the settings reject this
            // case already, and this is the second check.
            Peer::OtherMachine
                if self.has_passwords() && self.ranges.iter().any(|range| range.contains(ip)) =>
            {
                Ok(None)
            }
            Peer::OtherMachine => Err(Denial::Range(ip)),
        }
    }

    /// Checks the user of a connection again, which was served when it was accepted: the settings may have
    /// changed since then.
    pub(crate) fn check_user(&self, user: Option<UserId>) -> Result<(), Denial> {
        match user {
            Some(user) if !self.users.contains(&user) => Err(Denial::User(user)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the credential of a request; returns its name, if passwords are required.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Option<Arc<str>>, Denial> {
        if !self.has_passwords() {
            return Ok(None);
        }
        let mut fields = headers.get_all(header::PROXY_AUTHORIZATION).iter();
        let credential = fields.next().filter(|_| fields.next().is_none());
        let credential = credential.and_then(|field| basic(field.as_bytes()));
        credential
            .and_then(|pair| self.passwords.holder(&pair))
            .map(Some)
            .ok_or(Denial::Password)
    }

    /// Returns the holder of a name and password; `None` if they are wrong.
    pub(crate) fn holder(&self, name: &[u8], password: &[u8]) -> Option<Arc<str>> {
        // A name of the password file has no colon.
        let has_colon = name.contains(&b':');
        let pair = [name, b":", password].concat();
        self.passwords.holder(&pair).filter(|_| !has_colon)
    }
}

/// Returns the `name:password` of a Basic credential (RFC 7617 section 2).
fn basic(field: &[u8]) -> Option<Vec<u8>> {
    let (scheme, rest) = field.split_at_checked(6)?;
    scheme
        .eq_ignore_ascii_case(b"basic ")
        .then(|| STANDARD.decode(rest.trim_ascii()).ok())
        .flatten()
}

impl Denial {
    /// Returns the response to a denied client. The connection ends after it, except for a missing or wrong
    /// password, which the client may send on the same connection.
    pub(crate) fn to_response(self) -> Response<ProxyBody> {
        let page = self.page();
        let mut response = page_response(&page);
        let headers = response.headers_mut();
        if matches!(self, Self::Password | Self::OtherPassword) {
            headers.insert(header::PROXY_AUTHENTICATE, CHALLENGE);
        }
        if self != Self::Password {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    fn page(self) -> Page {
        let (status, what, advice) = match self {
            Self::User(user) => (
                StatusCode::FORBIDDEN,
                "The agent on this computer belongs to another user and serves only the users that its settings name, \
                 because it loads and stores data for them.",
                format!(
                    "Run your own agent, or ask the owner of this agent to add you to `listen.users` (you are user {user}) \
                     and to restart the agent."
                ),
            ),
            Self::UnknownUser => (
                StatusCode::FORBIDDEN,
                "The agent serves only known users of this computer, and it could not determine which user's program \
                 sent this request.",
                "Try again. If it happens every time, tell the owner of the agent; the setting `listen.users` lists the \
                 users that it serves."
                    .to_owned(),
            ),
            Self::Range(ip) => (
                StatusCode::FORBIDDEN,
                "The agent does not serve this computer.",
                format!("Ask the owner of the agent to add {ip} to `listen.allow` and to restart the agent."),
            ),
            Self::Password | Self::OtherPassword => (
                StatusCode::PROXY_AUTHENTICATION_REQUIRED,
                "The agent requires a name and a password.",
                "Enter a name and its password from the agent's `listen.password-file`.".to_owned(),
            ),
            Self::TooManyConnections => (
                StatusCode::SERVICE_UNAVAILABLE,
                "The agent is at its limit of connections, and all of them are in use.",
                "Wait a moment and reload.".to_owned(),
            ),
        };
        Page {
            status,
            title: match self {
                Self::TooManyConnections => "Too many connections".to_owned(),
                Self::User(_) | Self::UnknownUser | Self::Range(_) | Self::Password | Self::OtherPassword => {
                    "This agent does not serve you".to_owned()
                }
            },
            what: what.to_owned(),
            whose: "Nobody's: the settings of the agent do not allow it.",
            advice,
            detail: match self {
                Self::User(_) | Self::UnknownUser => "listen.users",
                Self::Range(_) => "listen.allow",
                Self::Password | Self::OtherPassword => "listen.password-file",
                Self::TooManyConnections => "connections",
            }
            .to_owned(),
            reason: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(passwords: &str) -> Access {
        Access::new(
            [UserId::new(4_000_001)],
            ["192.0.2.0/24".parse().unwrap()],
            Passwords::parse(passwords).unwrap_or_default(),
        )
    }

    fn shows(field: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(header::PROXY_AUTHORIZATION, HeaderValue::from_static(field))])
    }

    #[test]
    fn a_client_must_pass_user_range_and_password_checks() {
        let (own, other, stranger) = (UserId::own(), UserId::new(4_000_001), UserId::new(4_000_002));
        let (here, there) = ("127.0.0.1".parse().unwrap(), "192.0.2.7".parse().unwrap());
        let closed = access("");
        assert_eq!(closed.check_found_peer(Peer::User(own), here), Ok(Some(own)));
        assert_eq!(closed.check_found_peer(Peer::User(other), here), Ok(Some(other)));
        assert_eq!(
            closed.check_found_peer(Peer::User(stranger), here),
            Err(Denial::User(stranger))
        );
        assert_eq!(
            closed.check_found_peer(Peer::Closed, here),
            Err(Denial::UnknownUser)
        );
        assert_eq!(
            closed.check_found_peer(Peer::OtherMachine, there),
            Err(Denial::Range(there)),
            "no password, no other machine"
        );
        let open = access("me:a long password");
        assert_eq!(open.check_found_peer(Peer::OtherMachine, there), Ok(None));
        let beyond = "192.0.3.7".parse().unwrap();
        assert_eq!(
            open.check_found_peer(Peer::OtherMachine, beyond),
            Err(Denial::Range(beyond))
        );
        assert!(
            open.check_found_peer(Peer::User(stranger), there).is_err(),
            "in range, but here"
        );
    }

    #[test]
    fn passwords_are_requested_and_compared() {
        assert_eq!(access("").authenticate(&HeaderMap::new()), Ok(None));
        let access = access("# people\nme:a long password\n\nyou:b long:password\n");
        // "me:a long password", "you:b long:password", "me:b long:password".
        let (me, you, wrong) = (
            "Basic bWU6YSBsb25nIHBhc3N3b3Jk",
            "bASIC  eW91OmIgbG9uZzpwYXNzd29yZA==",
            "Basic bWU6YiBsb25nOnBhc3N3b3Jk",
        );
        let name = |field| {
            access
                .authenticate(&shows(field))
                .map(|name| name.unwrap().to_string())
        };
        assert_eq!(name(me), Ok("me".to_owned()));
        assert_eq!(name(you), Ok("you".to_owned()));
        for refused in [
            wrong,
            "Basic",
            "Basic ",
            "Bearer bWU6YSBsb25nIHBhc3N3b3Jk",
            "Basic bWU=",
            "Basic %%%%",
        ] {
            assert_eq!(name(refused), Err(Denial::Password), "{refused}");
        }
        assert_eq!(access.authenticate(&HeaderMap::new()), Err(Denial::Password));
        let mut twice = shows(me);
        twice.append(header::PROXY_AUTHORIZATION, HeaderValue::from_static(me));
        assert_eq!(access.authenticate(&twice), Err(Denial::Password), "two of them");
        let holder = |name: &str, password: &str| access.holder(name.as_bytes(), password.as_bytes());
        assert_eq!(holder("you", "b long:password").as_deref(), Some("you"));
        assert_eq!(holder("you:b long", "password"), None);
        assert_eq!(holder("you", "a long password"), None);
        assert!(!format!("{access:?}").contains("long"), "{access:?}");
    }
}

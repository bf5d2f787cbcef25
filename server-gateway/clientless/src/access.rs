//! Who may use the proxy. It is never open: each client is in a network that the operator named, or states a name and a
//! password inside TLS.
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::{HeaderMap, header::PROXY_AUTHORIZATION};
use longhaul_gateway_core::{
    admission::{
        clients::{ClientIdentity, Clients, ClientsError, ClientsWatch, PasswordKey},
        state::StateDir,
    },
    config::{ClientlessConfig, Passwords},
    connections::{Connections, Standing},
    quota::Quotas,
};
use longhaul_origin::Cidr;
use longhaul_session::ImageLevel;
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};
use tracing::warn;

use super::{password_failures::PasswordFailures, recent_logins::RecentLogins};

#[cfg(test)]
mod tests;

/// Interval between looks at the list of clients: a client that is removed is refused within a second.
const LOOK: Duration = Duration::from_millis(500);

/// Reasons for not starting the proxy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccessError {
    /// Nobody could use the proxy.
    #[error(
        "[clientless] listen: nobody may use the proxy, and it is never open to everybody; set clientless.allow to the \
         networks of your clients, such as [\"10.0.0.0/8\"], or listen to \"off\""
    )]
    NobodyAllowed,
    /// Nobody could use the port with TLS.
    #[error(
        "[clientless] tls: nobody may use the proxy, and it is never open to everybody; `longhaul-gateway client add NAME` \
         makes a name and a password, or set clientless.allow to the networks of your clients, or clientless.tls to \"off\""
    )]
    NobodyKnown,
    /// Nobody could use the ports of redirected connections.
    #[error(
        "[clientless] transparent: nobody may use the proxy, and it is never open to everybody; set clientless.allow to \
         the networks of your clients, such as [\"10.0.0.0/8\"], or clientless.transparent to []"
    )]
    NobodyRedirected,
    /// Redirected clients cannot state a password.
    #[error(
        "[clientless] transparent: programs that do not know of a proxy state no password; set clientless.passwords to \
         \"optional\", or clientless.transparent to []"
    )]
    Passwordless,
    /// Passwords are required, and nobody has one.
    #[error(
        "[clientless] passwords: passwords are required, and no client has one; `longhaul-gateway client add NAME` makes \
         one, or set clientless.passwords to \"optional\""
    )]
    NoPasswords,
    /// The list of clients cannot be read.
    #[error(transparent)]
    Clients(#[from] ClientsError),
}

/// The clients that may use the proxy.
#[derive(Debug)]
pub(super) struct Access {
    allow: Vec<Cidr>,
    passwords: Passwords,
    key: PasswordKey,
    clients: watch::Sender<Arc<Clients>>,
    failures: PasswordFailures,
    logins: RecentLogins,
    connections: Arc<Connections>,
    state: StateDir,
}

/// Where a request comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) address: IpAddr,
    pub(super) security: Security,
}

/// Protection of the way from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Security {
    /// None: whoever can read the network reads passwords.
    Plain,
    Tls,
}

/// A client that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Admitted {
    /// A client with a name and a password, and perhaps an image level of its own.
    Named(ClientIdentity, Option<ImageLevel>),
    /// A client of an allowed network.
    Unnamed,
}

/// A client that is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The client is in no allowed network: there is no proxy for it.
    Outside,
    /// The name or password is missing or wrong.
    Password,
    /// The address, or the networks around it, have tried too many passwords.
    Silent,
    /// The client has connected to a port for redirected connections.
    Straight,
    /// The client has asked for too many names.
    LookUps,
}

impl Denied {
    /// Name of the reason in the metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Outside => "outside",
            Self::Password => "password",
            Self::Silent => "silenced",
            Self::Straight => "straight",
            Self::LookUps => "look-ups",
        }
    }
}

impl Access {
    /// Creates the rules.
    ///
    /// # Errors
    /// The proxy would serve nobody.
    pub(super) fn new(
        config: &ClientlessConfig,
        state: &StateDir,
        key: PasswordKey,
    ) -> Result<Self, AccessError> {
        let clients = Clients::load(state)?;
        // Passwords alone are not sufficient without TLS, because they would cross every network unencrypted.
        if config.listen.is_some() && config.allow.is_empty() {
            return Err(AccessError::NobodyAllowed);
        }
        if !config.transparent.is_empty() && config.allow.is_empty() {
            return Err(AccessError::NobodyRedirected);
        }
        if !config.transparent.is_empty() && config.passwords == Passwords::Required {
            return Err(AccessError::Passwordless);
        }
        if config.allow.is_empty() && clients.is_empty() {
            return Err(AccessError::NobodyKnown);
        }
        if config.passwords == Passwords::Required && clients.is_empty() {
            return Err(AccessError::NoPasswords);
        }
        Ok(Self {
            allow: config.allow.clone(),
            passwords: config.passwords,
            key,
            clients: watch::Sender::new(Arc::new(clients)),
            failures: PasswordFailures::default(),
            logins: RecentLogins::default(),
            connections: Connections::open(),
            state: state.clone(),
        })
    }

    /// Returns true if connections from the address are closed without an answer.
    pub(super) fn is_silent(&self, peer: IpAddr) -> bool {
        self.failures.is_silent(peer, Instant::now())
    }

    /// Decides about a request for the proxy's own objects, which programs ask for without a password.
    pub(super) fn admit_asker(&self, Peer { address, security }: Peer) -> Result<(), Denied> {
        if security == Security::Plain && !self.is_inside(address) {
            return Err(Denied::Outside);
        }
        if self.is_silent(address) {
            return Err(Denied::Silent);
        }
        Ok(())
    }

    /// Decides about a connection that the system redirected: its client states no password.
    pub(super) fn admit_intercepted(&self, address: IpAddr) -> Result<(), Denied> {
        if !self.is_inside(address) {
            return Err(Denied::Outside);
        }
        if self.is_silent(address) {
            return Err(Denied::Silent);
        }
        Ok(())
    }

    /// Returns true for an address of `clientless.allow`.
    pub(super) fn is_inside(&self, address: IpAddr) -> bool {
        self.allow.iter().any(|range| range.contains(address))
    }

    /// The connections to the proxy.
    pub(super) const fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// Where a connection from the address comes from.
    pub(super) fn standing(&self, address: IpAddr) -> Standing {
        if self.is_inside(address) || self.logins.is_known(address, Instant::now()) {
            Standing::Client
        } else {
            Standing::Stranger
        }
    }

    /// Decides about a request.
    pub(super) fn admit(&self, peer: Peer, headers: &HeaderMap) -> Result<Admitted, Denied> {
        self.admit_asker(peer)?;
        let Peer { address: peer, .. } = peer;
        let is_inside = self.is_inside(peer);
        if !headers.contains_key(PROXY_AUTHORIZATION) {
            return match self.passwords {
                Passwords::Optional if is_inside => Ok(Admitted::Unnamed),
                Passwords::Optional | Passwords::Required => Err(Denied::Password),
            };
        }
        // A network in which a client with a name was lately served has tries of its own only.
        let now = Instant::now();
        if self.failures.is_exhausted(peer, now) && !self.logins.is_known(peer, now) {
            return Err(Denied::Silent);
        }
        let clients = Arc::clone(&self.clients.borrow());
        let presented = credentials(headers);
        match presented.and_then(|(name, password)| clients.admit(&self.key, &name, &password)) {
            Some((client, level)) => {
                if self.logins.note(peer, client, now) {
                    self.connections.promote(peer);
                }
                Ok(Admitted::Named(client, level))
            }
            None => {
                self.failures.note(peer, now);
                Err(Denied::Password)
            }
        }
    }

    /// Returns once a client may no longer be served.
    pub(super) async fn removed(&self, admitted: &Admitted) {
        let Admitted::Named(client, _) = *admitted else {
            return std::future::pending().await;
        };
        let mut clients = self.clients.subscribe();
        // The sender lives as long as `self`.
        let _removed = clients.wait_for(|list| !list.contains(client)).await;
    }

    /// The list of clients, and its changes.
    pub(super) fn clients(&self) -> watch::Receiver<Arc<Clients>> {
        self.clients.subscribe()
    }

    /// Applies changes of the list of clients, quotas included, as long as the future exists.
    pub(super) async fn look(&self, quotas: &Quotas) {
        let mut watch = ClientsWatch::new(self.state.clone());
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            match watch.look() {
                Some(Ok(list)) => {
                    quotas.set_clients(&list);
                    self.logins.retain(&list);
                    self.clients.send_replace(Arc::new(list));
                }
                Some(Err(error)) => warn!(%error, "the list of clients stays as it was"),
                None => {}
            }
        }
    }
}

/// Name and password of a request (RFC 7617).
fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let mut values = headers.get_all(PROXY_AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(token.trim()).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

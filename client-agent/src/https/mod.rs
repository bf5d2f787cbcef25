//! Acceleration of HTTPS, if the user enables it: the agent terminates the browser's TLS, so that the gateway
//! can plan, push and encode the objects as for plain HTTP (docs/https.md).
//!
//! `hosts` decides for which hosts. A connection to such a host begins like a tunnel; `first_bytes`
//! classifies the client's first bytes; `serve` terminates TLS with a certificate of `leaves`, signed by the
//! device's `authority`, and passes the requests to [`request`](crate::request). Anything but HTTP over TLS
//! goes unchanged through a tunnel, and so does the next connection to a host whose clients do not accept the
//! agent's certificate. The gateway verifies the origin's certificate; if verification fails, the browser
//! gets an error page.
mod attempts;
mod authority;
mod first_bytes;
mod hosts;
mod http2;
mod kept;
mod leaves;
mod quiet;
mod serve;
mod unaccelerated;
mod upgrade;

use std::sync::Arc;

use longhaul_http::acceleration::Accelerated;
use longhaul_session::AcceleratedHosts;
use rustls::ServerConfig;
use tokio::sync::watch;
use tracing::debug;

pub use authority::{Authority, AuthorityError};
pub use hosts::{Accelerate, BypassedHost, HttpsSettings, Why};
pub(crate) use serve::serve;

use self::{attempts::Attempts, hosts::Hosts, kept::Kept, leaves::Leaves};
use crate::{state_dir::StateDir, store::now};

/// State of accelerated HTTPS. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Https(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hosts: Hosts,
    kept: Kept,
    attempts: Arc<Attempts>,
    /// `None` if no host is accelerated: the device then needs no certificate authority.
    leaves: Option<Leaves>,
    /// Secret of this run for the buttons of error pages.
    secret: [u8; 32],
}

impl Https {
    /// Opens the state; creates the device's certificate authority if there is none and a host is to be
    /// accelerated.
    ///
    /// # Errors
    /// The certificate authority cannot be opened or created.
    pub fn open(settings: HttpsSettings, state: &StateDir) -> Result<Self, AuthorityError> {
        let hosts = Hosts::new(settings);
        let kept = Kept::new(state.clone());
        let leaves = if hosts.is_off() {
            None
        } else {
            let now = now();
            kept.read()
                .iter()
                .for_each(|spared| hosts.spare_again(spared, now));
            Some(Leaves::new(Authority::open_or_make(state, now)?)?)
        };
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| AuthorityError::Randomness)?;
        Ok(Self(Arc::new(Inner {
            hosts,
            kept,
            attempts: Attempts::new(),
            leaves,
            secret,
        })))
    }

    /// True if a host is to be accelerated.
    pub(crate) fn accelerates(&self, host: &str) -> bool {
        self.0.leaves.is_some() && self.0.hosts.accelerates(host, now())
    }

    /// Returns the TLS configuration for a host; `None` if there is no certificate.
    fn config(&self, host: &str) -> Option<Arc<ServerConfig>> {
        let made = self.0.leaves.as_ref()?.of(host, now());
        made.inspect_err(|error| debug!(%error, "no certificate for a host"))
            .ok()
    }

    /// Returns the value of `AcceleratedHosts` for the gateway.
    pub(crate) fn told(&self) -> AcceleratedHosts {
        match self.0.hosts.told(now()) {
            Accelerated::Nothing => AcceleratedHosts::Nothing,
            Accelerated::Only(names) => AcceleratedHosts::Only(names),
            Accelerated::AllBut(names) => AcceleratedHosts::AllBut(names),
        }
    }

    /// Returns a receiver for changes of that value.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.hosts.changes()
    }

    /// Returns the secret that only pages of this host in this run contain.
    fn secret_of(&self, host: &str) -> String {
        blake3::keyed_hash(&self.0.secret, host.as_bytes()).to_hex()[..32].to_owned()
    }

    /// Bypasses a host for some time and ends its accelerated connections, so that the next connection is a
    /// tunnel.
    pub(crate) fn spare(&self, host: &str, why: Why) {
        self.0.hosts.spare(host, why, now());
        let inner = Arc::clone(&self.0);
        // File operations block.
        tokio::task::spawn_blocking(move || inner.kept.write(|| inner.hosts.all_spared(now())));
    }

    /// The user's settings.
    pub fn settings(&self) -> &HttpsSettings {
        self.0.hosts.settings()
    }

    /// The hosts that are bypassed at present.
    pub fn spared(&self) -> Vec<BypassedHost> {
        self.0.hosts.all_spared(now())
    }

    /// Fingerprint of the device's certificate authority, if it is in use.
    pub fn fingerprint(&self) -> Option<String> {
        self.0
            .leaves
            .as_ref()
            .map(|leaves| leaves.authority().fingerprint())
    }
}

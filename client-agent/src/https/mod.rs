//! HTTPS that is accelerated by the user's choice: the agent speaks TLS with the browser in the host's place, so that the
//! gateway can plan, push and code what is inside as it does for plain HTTP (docs/https.md).
//!
//! `hosts` decides for which hosts. A connection of one of them begins like a tunnel; `first_bytes` reads what its client
//! says, `serve` answers with a certificate of `leaves`, signed by the `authority` of this device, and leads the requests
//! to [`request`](crate::request). Whatever is not HTTP over TLS goes through a tunnel, untouched, and so does the next
//! connection to a host whose clients do not accept our certificate. The origin's certificate is judged by the gateway;
//! if that finds it wrong, no page comes but one that says so.
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
use longhaul_protocol::session::AcceleratedHosts;
use rustls::ServerConfig;
use tokio::sync::watch;
use tracing::debug;

pub use authority::{Authority, AuthorityError};
pub use hosts::{Accelerate, HttpsSettings, SparedHost, Why};
pub(crate) use serve::serve;

use self::{attempts::Attempts, hosts::Hosts, kept::Kept, leaves::Leaves};
use crate::{state_dir::StateDir, store::now};

/// What is accelerated, and what browsers are shown for it. Clones are the same.
#[derive(Clone, Debug)]
pub struct Https(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hosts: Hosts,
    kept: Kept,
    attempts: Arc<Attempts>,
    /// `None` while nothing is accelerated: then this device needs no authority.
    leaves: Option<Leaves>,
    /// What the offers of this run are known by.
    secret: [u8; 32],
}

impl Https {
    /// Makes this device's authority if there is none and anything is to be accelerated.
    ///
    /// # Errors
    /// The authority cannot be had.
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

    /// Whether a host is to be accelerated.
    pub(crate) fn accelerates(&self, host: &str) -> bool {
        self.0.leaves.is_some() && self.0.hosts.accelerates(host, now())
    }

    /// How TLS is spoken in a host's place; `None` if it cannot be.
    fn config(&self, host: &str) -> Option<Arc<ServerConfig>> {
        let made = self.0.leaves.as_ref()?.of(host, now());
        made.inspect_err(|error| debug!(%error, "no certificate for a host"))
            .ok()
    }

    /// What the gateway is told of it.
    pub(crate) fn told(&self) -> AcceleratedHosts {
        match self.0.hosts.told(now()) {
            Accelerated::Nothing => AcceleratedHosts::Nothing,
            Accelerated::Only(names) => AcceleratedHosts::Only(names),
            Accelerated::AllBut(names) => AcceleratedHosts::AllBut(names),
        }
    }

    /// Notes whenever that changes.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.0.hosts.changes()
    }

    /// What only pages of a host in this run know.
    fn secret_of(&self, host: &str) -> String {
        blake3::keyed_hash(&self.0.secret, host.as_bytes()).to_hex()[..32].to_owned()
    }

    /// Leaves a host alone for a while, and ends its accelerated connections, so that the next one is a tunnel.
    pub(crate) fn spare(&self, host: &str, why: Why) {
        self.0.hosts.spare(host, why, now());
        let inner = Arc::clone(&self.0);
        // Files block.
        tokio::task::spawn_blocking(move || inner.kept.write(|| inner.hosts.all_spared(now())));
    }

    /// The settings in words.
    pub fn settings(&self) -> &HttpsSettings {
        self.0.hosts.settings()
    }

    /// The hosts that are left alone for now.
    pub fn spared(&self) -> Vec<SparedHost> {
        self.0.hosts.all_spared(now())
    }

    /// The fingerprint of this device's authority, if there is one in use.
    pub fn fingerprint(&self) -> Option<String> {
        self.0
            .leaves
            .as_ref()
            .map(|leaves| leaves.authority().fingerprint())
    }
}

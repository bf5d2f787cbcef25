//! State of accelerated HTTPS, if the user enables it: the agent terminates the browser's TLS, so that the
//! gateway can plan, push and encode the objects as for plain HTTP (docs/https.md).
//!
//! `hosts` decides for which hosts; `bypass_file` keeps the hosts that are bypassed. The certificates that
//! browsers get (`host_certificates`) are signed by the device's `authority`. `rejection_detection` finds the
//! clients that do not accept them. The connections are served by `https_server`.
mod authority;
mod bypass_file;
mod host_certificates;
mod hosts;
mod rejection_detection;

use std::sync::Arc;

use longhaul_http::acceleration::Accelerated;
use longhaul_session::AcceleratedHosts;
use rustls::ServerConfig;
use tokio::sync::watch;
use tracing::debug;

pub use authority::{Authority, AuthorityError};
pub use hosts::{Accelerate, BypassReason, BypassedHost, HttpsSettings};
pub(crate) use rejection_detection::Handshake;

use self::{
    bypass_file::BypassFile, host_certificates::HostCertificates, hosts::Hosts,
    rejection_detection::Handshakes,
};
use crate::{state_dir::StateDir, wall_clock::now};

/// State of accelerated HTTPS. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Https(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hosts: Hosts,
    bypass_file: BypassFile,
    handshakes: Arc<Handshakes>,
    /// `None` if no host is accelerated: the device then needs no certificate authority.
    certificates: Option<HostCertificates>,
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
        let bypass_file = BypassFile::new(state.clone());
        let certificates = if hosts.is_off() {
            None
        } else {
            let now = now();
            bypass_file
                .read()
                .iter()
                .for_each(|bypassed| hosts.restore_bypass(bypassed, now));
            Some(HostCertificates::new(Authority::open_or_make(state, now)?)?)
        };
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| AuthorityError::Randomness)?;
        Ok(Self(Arc::new(Inner {
            hosts,
            bypass_file,
            handshakes: Handshakes::new(),
            certificates,
            secret,
        })))
    }

    /// True if a host is to be accelerated.
    pub(crate) fn accelerates(&self, host: &str) -> bool {
        self.0.certificates.is_some() && self.0.hosts.accelerates(host, now())
    }

    /// Returns the TLS configuration for a host; `None` if there is no certificate.
    pub(crate) fn tls_config(&self, host: &str) -> Option<Arc<ServerConfig>> {
        let made = self.0.certificates.as_ref()?.of(host, now());
        made.inspect_err(|error| debug!(%error, "no certificate for a host"))
            .ok()
    }

    /// Returns the value of `AcceleratedHosts` for the gateway.
    pub(crate) fn accelerated_hosts(&self) -> AcceleratedHosts {
        match self.0.hosts.accelerated_hosts(now()) {
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
    pub(crate) fn secret_of(&self, host: &str) -> String {
        blake3::keyed_hash(&self.0.secret, host.as_bytes()).to_hex()[..32].to_owned()
    }

    /// Bypasses a host for some time and ends its accelerated connections, so that the next connection is a
    /// tunnel.
    pub(crate) fn bypass(&self, host: &str, why: BypassReason) {
        self.0.hosts.bypass(host, why, now());
        let inner = Arc::clone(&self.0);
        // File operations block.
        tokio::task::spawn_blocking(move || inner.bypass_file.write(|| inner.hosts.all_bypassed(now())));
    }

    /// Waits until a host becomes bypassed.
    pub(crate) async fn until_bypassed(&self, host: &str) {
        self.0.hosts.until_bypassed(host, now).await;
    }

    /// Registers a TLS handshake with a client of a host; returns `None` if there are too many hosts.
    pub(crate) fn begin_handshake(&self, host: &str) -> Option<Handshake> {
        self.0.handshakes.begin(host)
    }

    /// The user's settings.
    pub fn settings(&self) -> &HttpsSettings {
        self.0.hosts.settings()
    }

    /// The hosts that are bypassed at present.
    pub fn bypassed_hosts(&self) -> Vec<BypassedHost> {
        self.0.hosts.all_bypassed(now())
    }

    /// Fingerprint of the device's certificate authority, if it is in use.
    pub fn fingerprint(&self) -> Option<String> {
        self.0
            .certificates
            .as_ref()
            .map(|certificates| certificates.authority().fingerprint())
    }
}

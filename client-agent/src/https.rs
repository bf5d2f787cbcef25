//! State of accelerated HTTPS, if the user enables it: the agent terminates the browser's TLS, so that the
//! gateway can plan, push and encode the objects as for plain HTTP (docs/https.md).
//!
//! `hosts` decides for which hosts; `bypasses` holds the hosts and programs that are bypassed, with their
//! `bypass_reason`, and `bypass_file` keeps them. `program` tells the programs of clients apart. The certificates that browsers get
//! (`host_certificates`) are signed by the device's `authority`. `rejection_detection` finds the programs that do
//! not accept them. The connections are served by `https_server`.
mod authority;
mod bypass_file;
mod bypass_reason;
mod bypasses;
mod decision;
mod host_certificates;
mod hosts;
mod program;
mod rejection_detection;

use std::sync::Arc;

use parking_lot::RwLock;

use longhaul_http::acceleration::Accelerated;
use longhaul_session::AcceleratedHosts;
use rustls::{ServerConfig, pki_types::ServerName};
use tokio::sync::watch;
use tracing::{debug, info};

pub use authority::{Authority, AuthorityError};
pub use bypass_reason::BypassReason;
pub use bypasses::BypassedHost;
pub use decision::HttpsDecision;
pub use hosts::{Accelerate, HttpsSettings};
pub use program::ProgramId;
pub(crate) use program::{HelloShape, Program};
pub(crate) use rejection_detection::Handshake;

use self::{
    bypass_file::BypassFile, bypasses::Bypasses, host_certificates::HostCertificates, hosts::Hosts,
    rejection_detection::Handshakes,
};
use crate::{
    host_name::HostName,
    rules::SiteRules,
    state_dir::{StateDir, StateError},
    wall_clock::now,
};

/// State of accelerated HTTPS. Clones share the same state.
#[derive(Clone, Debug)]
pub struct Https(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    hosts: Hosts,
    bypass_file: BypassFile,
    handshakes: Arc<Handshakes>,
    /// `None` until a host is to be accelerated: before, the device needs no certificate authority. `None` also
    /// after its removal.
    certificates: RwLock<Option<Arc<HostCertificates>>>,
    /// Secret of this run for the buttons of error pages.
    secret: [u8; 32],
    state: StateDir,
}

impl Https {
    /// Opens the state; creates the device's certificate authority if there is none and a host is to be
    /// accelerated.
    ///
    /// # Errors
    /// The certificate authority cannot be opened or created.
    pub fn open(settings: HttpsSettings, rules: SiteRules, state: &StateDir) -> Result<Self, AuthorityError> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(|_| AuthorityError::Randomness)?;
        let https = Self(Arc::new(Inner {
            hosts: Hosts::new(settings, rules),
            bypass_file: BypassFile::new(state.clone()),
            handshakes: Handshakes::new(),
            state: state.clone(),
            certificates: RwLock::default(),
            secret,
        }));
        if !https.0.hosts.is_off() {
            https.prepare()?;
        }
        Ok(https)
    }

    /// Replaces the user's settings. Accelerated connections of hosts that are excluded now end after the
    /// requests in progress. Creates the device's certificate authority if it is needed for the first time.
    ///
    /// # Errors
    /// The certificate authority cannot be opened or created; then nothing changes.
    pub(crate) fn reconfigure(&self, settings: HttpsSettings) -> Result<(), AuthorityError> {
        // An authority that was removed during this run is not created anew by settings that stay the same.
        if settings.accelerate != Accelerate::Off && self.0.hosts.is_off() {
            self.prepare()?;
        }
        if *self.settings() != settings {
            self.0.hosts.set(settings);
        }
        Ok(())
    }

    /// Opens the certificate authority and the list of bypassed hosts, if that has not happened yet.
    fn prepare(&self) -> Result<(), AuthorityError> {
        let Inner {
            hosts,
            bypass_file,
            state,
            certificates,
            ..
        } = &*self.0;
        let mut certificates = certificates.write();
        if certificates.is_some() {
            return Ok(());
        }
        let now = now();
        let (authority, is_new) = Authority::open_or_make(state, now)?;
        if is_new {
            info!("the agent has created a certificate authority, which browsers must trust");
        }
        *certificates = Some(Arc::new(HostCertificates::new(authority)?));
        bypass_file
            .read()
            .iter()
            .for_each(|bypassed| hosts.restore_bypass(bypassed, now));
        Ok(())
    }

    fn certificates(&self) -> Option<Arc<HostCertificates>> {
        let certificates = self.0.certificates.read();
        certificates.clone()
    }

    /// True if a host is to be accelerated for programs for which it is not bypassed. Certificates of some names that browsers
    /// accept, such as `-a.test`, can be neither made nor verified here.
    pub(crate) fn accelerates(&self, host: &str) -> bool {
        self.decide(host).accelerates() && ServerName::try_from(host).is_ok()
    }

    /// Decides whether a host is accelerated for programs for which it is not bypassed.
    pub fn decide(&self, host: &str) -> HttpsDecision {
        match self.0.hosts.decide(host, now()) {
            decision if decision.accelerates() && self.certificates().is_none() => HttpsDecision::NoAuthority,
            decision => decision,
        }
    }

    /// Applies changes of the rules to open connections and tells the gateway, until the agent ends.
    pub(crate) async fn follow(self, rules: SiteRules) {
        let mut changes = rules.changes();
        while changes.changed().await.is_ok() {
            self.0.hosts.announce();
        }
    }

    /// True if a host is bypassed for a program.
    pub(crate) fn is_bypassed_for(&self, host: &str, program: ProgramId) -> bool {
        self.0.hosts.is_bypassed_for(host, program, now())
    }

    /// Returns the TLS configuration for a host; `None` if there is no certificate.
    pub(crate) fn tls_config(&self, host: &str) -> Option<Arc<ServerConfig>> {
        let made = self.certificates()?.of(host, now());
        made.inspect_err(|error| debug!(%error, "no certificate for a host"))
            .ok()
    }

    /// Returns the value of `AcceleratedHosts` for the gateway.
    pub(crate) fn accelerated_hosts(&self) -> AcceleratedHosts {
        if self.certificates().is_none() {
            return AcceleratedHosts::Nothing;
        }
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

    /// Bypasses a host for all programs for some time and ends its accelerated connections, so that the next
    /// connection is a tunnel.
    pub(crate) fn bypass(&self, host: &str, why: BypassReason) {
        self.0.hosts.bypass(host, why, now());
        self.store_bypasses();
    }

    /// Bypasses a host for a program for some time.
    pub(crate) fn bypass_for(&self, at: (&str, ProgramId), name: Option<String>, why: BypassReason) {
        if self.0.hosts.bypass_for(at, name, why, now()) {
            self.store_bypasses();
        }
    }

    fn store_bypasses(&self) {
        let inner = Arc::clone(&self.0);
        // File operations block.
        tokio::task::spawn_blocking(move || inner.bypass_file.write(|| inner.hosts.kept_bypasses(now())));
    }

    /// Forgets the bypasses of a host and its subdomains, or all; returns a text for the user.
    pub(crate) async fn forget_bypasses(&self, host: Option<&HostName>) -> String {
        let number = self.0.hosts.forget(host, now());
        let inner = Arc::clone(&self.0);
        let stored = tokio::task::spawn_blocking(move || {
            inner.bypass_file.write(|| inner.hosts.kept_bypasses(now()));
        });
        let _stored = stored.await;
        forgotten(number)
    }

    /// Waits until a host is no longer accelerated: it becomes bypassed for all programs, the settings change, or
    /// the authority is removed.
    pub(crate) async fn until_bypassed(&self, host: &str) {
        let is_removed = || self.certificates().is_none();
        self.0.hosts.until_bypassed(host, now, is_removed).await;
    }

    /// Registers a TLS handshake of a program with a host; returns `None` if there are too many.
    pub(crate) fn begin_handshake(&self, host: &str, program: ProgramId) -> Option<Handshake> {
        self.0.handshakes.begin((host.to_owned(), program))
    }

    /// Records that a program accepts the certificate of a host.
    pub(crate) fn accepted(&self, host: &str, program: ProgramId) {
        if self.0.hosts.accept(host, program, now()) {
            self.store_bypasses();
        }
    }

    /// Removes the device's certificate authority: from now on the agent signs nothing, and the connections of
    /// all hosts are tunnels. Returns a text for the user.
    pub(crate) async fn remove_authority(&self) -> Result<&'static str, AuthorityError> {
        let was_in_use = {
            let mut certificates = self.0.certificates.write();
            certificates.take().is_some()
        };
        self.0.hosts.announce();
        if was_in_use {
            info!("the certificate authority is removed: https goes through tunnels");
        }
        let state = self.0.state.clone();
        let removed = tokio::task::spawn_blocking(move || Authority::remove(&state)).await;
        let was_there = removed.unwrap_or(Ok(false))?;
        Ok(match (was_in_use, was_there) {
            (true, _) => {
                "removed from this device; the running agent signs no more certificates, and https goes through tunnels. \
                 Remove the authority from the trust stores of browsers, too. Unless you set `https.accelerate` to off, \
                 the agent creates another authority at its next start"
            }
            (false, true) => {
                "removed from this device; remove it from the trust stores of browsers, too. The running agent does not \
                 use it"
            }
            (false, false) => "there was no certificate authority",
        })
    }

    /// True if the agent signs certificates.
    pub(crate) fn has_authority(&self) -> bool {
        self.certificates().is_some()
    }

    /// The certificate of the authority in use, in PEM; `None` if there is none.
    pub fn authority_pem(&self) -> Option<String> {
        self.certificates()
            .map(|certificates| certificates.authority().pem().to_owned())
    }

    /// The user's settings.
    pub fn settings(&self) -> Arc<HttpsSettings> {
        self.0.hosts.settings()
    }

    /// True if hosts are to be accelerated but the certificate authority was removed during this run.
    pub fn is_authority_removed(&self) -> bool {
        !self.0.hosts.is_off() && self.certificates().is_none()
    }

    /// The hosts that are bypassed at present.
    pub fn bypassed_hosts(&self) -> Vec<BypassedHost> {
        self.0.hosts.all_bypassed(now())
    }

    /// Fingerprint of the device's certificate authority, if it is in use.
    pub fn fingerprint(&self) -> Option<String> {
        let in_use = self.certificates().filter(|_| !self.0.hosts.is_off());
        in_use.map(|certificates| certificates.authority().fingerprint())
    }
}

/// Returns the bypassed hosts that the file of a state directory lists, while no agent runs.
pub fn stored_bypasses(state: &StateDir) -> Vec<BypassedHost> {
    read_stored(state).active(now())
}

/// Forgets the bypasses of a host and its subdomains, or all, in the file of a state directory, while no agent
/// runs; returns a text for the user.
///
/// # Errors
/// The file cannot be written.
pub fn forget_stored_bypasses(state: &StateDir, host: Option<&HostName>) -> Result<String, StateError> {
    let mut bypasses = read_stored(state);
    let number = bypasses.forget(host.map(HostName::as_str), now());
    if state.path().exists() {
        BypassFile::new(state.clone()).try_write(|| bypasses.kept(now()))?;
    }
    Ok(forgotten(number))
}

fn read_stored(state: &StateDir) -> Bypasses {
    let mut bypasses = Bypasses::default();
    for bypassed in BypassFile::new(state.clone()).read() {
        bypasses.restore(&bypassed, now());
    }
    bypasses
}

fn forgotten(number: usize) -> String {
    match number {
        0 => "no host was bypassed".to_owned(),
        1 => "one bypass is forgotten: the next connection is accelerated".to_owned(),
        _ => format!("{number} bypasses are forgotten: the next connections are accelerated"),
    }
}

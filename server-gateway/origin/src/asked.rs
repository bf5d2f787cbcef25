//! Detection of TLS certificate requests from origins (RFC 8446 section 4.3.2, RFC 5246 section 7.4.4). The
//! client never presents a certificate: client certificates belong to the browser's user.
use std::{cell::Cell, future::Future, sync::Arc};

use rustls::{
    NamedGroup, SignatureScheme,
    client::{
        ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert, Tls12ClientSessionValue,
        Tls13ClientSessionValue,
    },
    pki_types::ServerName,
    sign::CertifiedKey,
};
use tokio::task_local;

task_local! {
    /// Result of the handshake that the current task polls. All connections share one certificate resolver,
    /// so that sessions can be resumed; the task-local value attributes a request to its handshake.
    static ASKED: Cell<Certificate>;
}

/// Client certificate request of an origin during a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    Asked,
    NotAsked,
}

/// Runs a handshake; returns its output and whether the origin requested a client certificate.
pub(crate) async fn noted<F: Future>(handshake: F) -> (F::Output, Certificate) {
    let both = async {
        let ended = handshake.await;
        (ended, ASKED.with(Cell::get))
    };
    ASKED.scope(Cell::new(Certificate::NotAsked), both).await
}

/// Certificate resolver without certificates, which records each certificate request.
#[derive(Debug)]
pub(crate) struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Outside of `noted` nothing records the request.
        let _noted = ASKED.try_with(|asked| asked.set(Certificate::Asked));
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// TLS session cache that stores no sessions of origins that requested a client certificate: a resumed
/// session does not repeat the certificate request.
#[derive(Debug)]
pub(crate) struct Sessions(ClientSessionMemoryCache);

impl Sessions {
    /// The default of rustls.
    const MAX: usize = 256;

    pub(crate) fn new() -> Self {
        Self(ClientSessionMemoryCache::new(Self::MAX))
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        if ASKED.try_with(Cell::get) != Ok(Certificate::Asked) {
            self.0.set_tls12_session(server_name, value);
        }
    }

    fn tls12_session(&self, server_name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(server_name)
    }

    fn remove_tls12_session(&self, server_name: &ServerName<'static>) {
        self.0.remove_tls12_session(server_name);
    }

    fn insert_tls13_ticket(&self, server_name: ServerName<'static>, value: Tls13ClientSessionValue) {
        if ASKED.try_with(Cell::get) != Ok(Certificate::Asked) {
            self.0.insert_tls13_ticket(server_name, value);
        }
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(server_name)
    }
}

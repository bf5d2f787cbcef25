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
    static OBSERVED: Cell<CertificateRequest>;
}

/// Client certificate request of an origin during a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CertificateRequest {
    Received,
    None,
}

/// Runs a handshake; returns its output and whether the origin requested a client certificate.
pub(crate) async fn observe<F: Future>(handshake: F) -> (F::Output, CertificateRequest) {
    let both = async {
        let ended = handshake.await;
        (ended, OBSERVED.with(Cell::get))
    };
    OBSERVED.scope(Cell::new(CertificateRequest::None), both).await
}

/// Certificate resolver without certificates, which records each certificate request.
#[derive(Debug)]
pub(crate) struct NoClientCertificate;

impl ResolvesClientCert for NoClientCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Outside of `observe` nothing records the request.
        let _outside = OBSERVED.try_with(|observed| observed.set(CertificateRequest::Received));
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// TLS session cache that stores no sessions of origins that requested a client certificate: a resumed
/// session does not repeat the certificate request.
#[derive(Debug)]
pub(crate) struct TlsSessionCache(ClientSessionMemoryCache);

impl TlsSessionCache {
    /// The default of rustls.
    const MAX: usize = 256;

    pub(crate) fn new() -> Self {
        Self(ClientSessionMemoryCache::new(Self::MAX))
    }
}

impl ClientSessionStore for TlsSessionCache {
    fn set_kx_hint(&self, server_name: ServerName<'static>, group: NamedGroup) {
        self.0.set_kx_hint(server_name, group);
    }

    fn kx_hint(&self, server_name: &ServerName<'_>) -> Option<NamedGroup> {
        self.0.kx_hint(server_name)
    }

    fn set_tls12_session(&self, server_name: ServerName<'static>, value: Tls12ClientSessionValue) {
        if OBSERVED.try_with(Cell::get) != Ok(CertificateRequest::Received) {
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
        if OBSERVED.try_with(Cell::get) != Ok(CertificateRequest::Received) {
            self.0.insert_tls13_ticket(server_name, value);
        }
    }

    fn take_tls13_ticket(&self, server_name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(server_name)
    }
}

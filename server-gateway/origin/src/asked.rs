//! Whether an origin asks for a certificate of the client (RFC 8446 section 4.3.2, RFC 5246 section 7.4.4). There is none
//! here: those that exist belong to the browser's user.
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
    /// The library asks one resolver for all connections, so that their sessions can be resumed; whose handshake it is at
    /// is told apart by the task that is being polled.
    static ASKED: Cell<Certificate>;
}

/// Whether a certificate of the client was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    Asked,
    NotAsked,
}

/// Runs a handshake, and tells whether it asked.
pub(crate) async fn noted<F: Future>(handshake: F) -> (F::Output, Certificate) {
    let both = async {
        let ended = handshake.await;
        (ended, ASKED.with(Cell::get))
    };
    ASKED.scope(Cell::new(Certificate::NotAsked), both).await
}

/// Has no certificate, and notes being asked.
#[derive(Debug)]
pub(crate) struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _issuers: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // Outside of `noted` there is nobody to be told.
        let _noted = ASKED.try_with(|asked| asked.set(Certificate::Asked));
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

/// Sessions of origins for later connections, but for those of origins that asked: resumed, they would not ask again.
#[derive(Debug)]
pub(crate) struct Sessions(ClientSessionMemoryCache);

impl Sessions {
    /// As many as the library keeps by itself.
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

//! Client of a transport.
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use longhaul_types::LinkProfile;

use crate::{
    error::TransferError,
    exchange::{Order, Request},
    longhaul::LonghaulClient,
    progress::Progress,
    quic::QuicClient,
    server::{Access, Credentials},
    system::QuicSetting,
    tcp::TcpClient,
};

/// Timeout of a handshake: ten round trips of the slowest link with full queues.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(60);

/// A client; clones refer to the same client.
#[derive(Clone)]
pub struct Client {
    half: Arc<Half>,
    tags: Arc<AtomicU64>,
}

enum Half {
    Tcp(TcpClient),
    Quic(QuicClient),
    Longhaul(Box<LonghaulClient>),
}

impl Client {
    /// Creates a client without a connection. Systems that can send a request in their first packet get the
    /// required data: Longhaul a token, QUIC a session ticket, for which it connects once and closes again.
    ///
    /// `number` identifies the clients of one server, from 0. `profile` is the known profile of the link, for
    /// systems that use it.
    ///
    /// # Errors
    /// The server does not answer, or has fewer clients.
    pub async fn prepare(
        access: &Access,
        number: usize,
        profile: Option<LinkProfile>,
    ) -> Result<Self, TransferError> {
        let half = match &access.credentials {
            Credentials::None => Half::Tcp(TcpClient::new(access.address)),
            Credentials::Certificate(certificate) => {
                let setting = access.system.quic().unwrap_or(QuicSetting::Defaults);
                let rtt = profile.map(|profile| profile.rtt);
                let prepare = QuicClient::prepare(access.address, certificate, setting, rtt);
                Half::Quic(limited(prepare, "the first QUIC connection").await?)
            }
            Credentials::Enrolment(enrolment) => Half::Longhaul(Box::new(LonghaulClient::prepare(
                access.address,
                enrolment,
                number,
                profile,
                access.carriers,
            )?)),
        };
        Ok(Self {
            half: Arc::new(half),
            tags: Arc::new(AtomicU64::new(1)),
        })
    }

    /// Opens a connection and waits for its handshake.
    ///
    /// # Errors
    /// The server does not answer within a minute.
    pub async fn open(&self) -> Result<(), TransferError> {
        let open = async {
            match &*self.half {
                Half::Tcp(client) => client.open().await,
                Half::Quic(client) => client.open().await,
                Half::Longhaul(client) => client.open().await,
            }
        };
        limited(open, "the handshake").await
    }

    /// Sends a request and receives its response, and opens a connection if none is idle. It ends when the
    /// response is complete or when `progress` is stopped. Several fetches can run concurrently.
    ///
    /// # Errors
    /// The connection broke, or the bytes are wrong.
    pub async fn fetch(&self, order: Order, progress: &Progress) -> Result<(), TransferError> {
        let request = Request {
            tag: self.tags.fetch_add(1, Ordering::Relaxed),
            order: Order {
                length: order.length.with_tag(),
                ..order
            },
        };
        progress.ask();
        let outcome = match &*self.half {
            Half::Tcp(client) => client.fetch(request, progress).await,
            Half::Quic(client) => client.fetch(request, progress).await,
            Half::Longhaul(client) => client.fetch(request, progress).await,
        };
        progress.end();
        outcome
    }

    /// Closes all connections.
    pub async fn close(&self) {
        match &*self.half {
            Half::Tcp(client) => client.close(),
            Half::Quic(client) => client.close().await,
            Half::Longhaul(client) => client.close().await,
        }
    }

    /// Returns the times at which the session detected that no packets arrive, for systems that report it.
    pub fn stalls(&self) -> Vec<Instant> {
        match &*self.half {
            Half::Longhaul(client) => client.stalls.lock().clone(),
            Half::Tcp(_) | Half::Quic(_) => Vec::new(),
        }
    }
}

async fn limited<T>(
    work: impl Future<Output = Result<T, TransferError>>,
    what: &'static str,
) -> Result<T, TransferError> {
    tokio::time::timeout(HANDSHAKE_LIMIT, work)
        .await
        .map_err(|_| TransferError::TimedOut(what))?
}

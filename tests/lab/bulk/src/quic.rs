//! QUIC by quinn: one bidirectional stream per request.
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use quinn::{
    ClientConfig, Connection, Endpoint, RecvStream, SendStream, ServerConfig, TransportConfig, VarInt,
    congestion::BbrConfig,
};
use rustls::RootCertStore;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::task::JoinSet;

use crate::{
    error::{ServeError, TransferError},
    exchange::{Body, Checker, Length, REQUEST, Request},
    progress::Progress,
    system::{QuicCongestion, QuicSetting},
};

/// Name in the temporary certificate.
const NAME: &str = "gateway.invalid";
/// Maximum bytes read from a stream at once.
const READ: usize = 64 * 1024;
/// Maximum number of connections whose counters are kept: an experiment opens two or three.
const MAX_CONNECTIONS: usize = 64;

/// Connections that a server accepted.
pub(crate) type Connections = Arc<Mutex<Vec<Connection>>>;

/// Windows for long links: eight times the data in flight on the longest of the profiles.
const WINDOW: u32 = 16 * 1024 * 1024;
/// Idle timeout of a connection for long links, in milliseconds.
const PATIENCE_MS: u32 = 180_000;
const KEEP_ALIVE: Duration = Duration::from_secs(25);

/// Returns the transport configuration of both ends.
fn transport(setting: QuicSetting, rtt: Option<Duration>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    if let QuicSetting::LongLinks(congestion) = setting {
        config
            .stream_receive_window(VarInt::from_u32(WINDOW))
            .receive_window(VarInt::from_u32(WINDOW))
            .send_window(u64::from(WINDOW))
            .max_idle_timeout(Some(VarInt::from_u32(PATIENCE_MS).into()))
            .keep_alive_interval(Some(KEEP_ALIVE));
        if let Some(rtt) = rtt {
            config.initial_rtt(rtt);
        }
        if congestion == QuicCongestion::Bbr {
            config.congestion_controller_factory(Arc::new(BbrConfig::default()));
        }
    }
    Arc::new(config)
}

/// Listens with a certificate created for this run.
pub(crate) fn listen(
    address: SocketAddr,
    setting: QuicSetting,
    rtt: Option<Duration>,
) -> Result<(Endpoint, CertificateDer<'static>), ServeError> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let mut config = ServerConfig::with_single_cert(vec![certificate.clone()], key)?;
    config.transport_config(transport(setting, rtt));
    let endpoint =
        Endpoint::server(config, address).map_err(|source| ServeError::Socket { address, source })?;
    Ok((endpoint, certificate))
}

/// Accepts connections; never returns. Dropping it ends all connections.
pub(crate) async fn serve(endpoint: Endpoint, accepted: Connections) {
    let mut tasks = JoinSet::new();
    while let Some(incoming) = endpoint.accept().await {
        let Ok(connecting) = incoming.accept() else {
            continue;
        };
        // A server may always answer before the handshake is complete: it reads the request in the 0-RTT
        // data.
        let Ok((connection, _)) = connecting.into_0rtt() else {
            continue;
        };
        let mut kept = accepted.lock();
        if kept.len() < MAX_CONNECTIONS {
            kept.push(connection.clone());
        }
        drop(kept);
        tasks.spawn(answer_all(connection));
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer_all(connection: Connection) {
    let mut tasks = JoinSet::new();
    while let Ok((send, receive)) = connection.accept_bi().await {
        tasks.spawn(async move {
            if let Err(error) = answer(send, receive).await {
                tracing::debug!(%error, "stream ended");
            }
        });
        while tasks.try_join_next().is_some() {}
    }
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Result<(), TransferError> {
    let quic = |error: &dyn std::fmt::Display| TransferError::Quic(error.to_string());
    let mut request = [0; REQUEST];
    receive
        .read_exact(&mut request)
        .await
        .map_err(|error| quic(&error))?;
    let Some(request) = Request::decode(&request) else {
        return Err(TransferError::Quic("not a request".to_owned()));
    };
    // Quinn sends streams with a higher number first; its default is 0.
    send.set_priority(3 - i32::from(request.order.class))
        .map_err(|error| quic(&error))?;
    for piece in Body::of(request) {
        send.write_chunk(piece).await.map_err(|error| quic(&error))?;
    }
    send.finish().map_err(|error| quic(&error))
}

/// The client's connection.
#[derive(Debug)]
pub(crate) struct QuicClient {
    endpoint: Endpoint,
    server: SocketAddr,
    connection: tokio::sync::Mutex<Option<Connection>>,
}

impl QuicClient {
    /// Creates a client with a session ticket of the server, as from an earlier visit, and without a
    /// connection.
    pub(crate) async fn prepare(
        server: SocketAddr,
        certificate: &CertificateDer<'static>,
        setting: QuicSetting,
        rtt: Option<Duration>,
    ) -> Result<Self, TransferError> {
        let local: SocketAddr = match server {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let mut endpoint = Endpoint::client(local).map_err(TransferError::socket("opening a UDP socket"))?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let mut config = ClientConfig::with_root_certificates(Arc::new(roots))
            .map_err(|error| TransferError::Quic(error.to_string()))?;
        config.transport_config(transport(setting, rtt));
        endpoint.set_default_client_config(config);
        let client = Self {
            endpoint,
            server,
            connection: tokio::sync::Mutex::new(None),
        };
        client.open().await?;
        // The ticket comes after the handshake and before this response.
        let request = Request {
            tag: u64::MAX,
            order: crate::exchange::Order::bytes(100),
        };
        client.fetch(request, &Progress::new()).await?;
        client.close().await;
        Ok(client)
    }

    fn dial(&self) -> Result<quinn::Connecting, TransferError> {
        self.endpoint
            .connect(self.server, NAME)
            .map_err(|error| TransferError::Quic(error.to_string()))
    }

    /// Opens the connection and waits for its handshake.
    pub(crate) async fn open(&self) -> Result<(), TransferError> {
        let connection = self.dial()?.await?;
        *self.connection.lock().await = Some(connection);
        Ok(())
    }

    /// Returns the connection; a new one sends the following data as 0-RTT data.
    async fn connected(&self) -> Result<Connection, TransferError> {
        let mut connection = self.connection.lock().await;
        if let Some(connection) = &*connection {
            return Ok(connection.clone());
        }
        let new = match self.dial()?.into_0rtt() {
            Ok((connection, _accepted)) => connection,
            Err(connecting) => connecting.await?,
        };
        *connection = Some(new.clone());
        Ok(new)
    }

    pub(crate) async fn fetch(&self, request: Request, progress: &Progress) -> Result<(), TransferError> {
        let connection = self.connected().await?;
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_chunk(request.encode())
            .await
            .map_err(|error| TransferError::Quic(error.to_string()))?;
        send.finish()
            .map_err(|error| TransferError::Quic(error.to_string()))?;
        let mut checker = Checker::new(request.tag);
        loop {
            let chunk = tokio::select! {
                chunk = receive.read_chunk(READ, true) => chunk.map_err(of_read)?,
                () = progress.stopped() => {
                    // A stream that has already ended needs no stop.
                    let _ended = receive.stop(VarInt::from_u32(0));
                    return Ok(());
                }
            };
            let Some(chunk) = chunk else { break };
            checker.take(&chunk.bytes)?;
            progress.arrive(Instant::now(), checker.received());
        }
        match request.order.length {
            Length::Bytes(asked) if asked != checker.received() => Err(TransferError::Short {
                received: checker.received(),
                asked,
            }),
            Length::Bytes(_) | Length::Endless => Ok(()),
        }
    }

    /// Closes the connection and waits until the peer is notified.
    pub(crate) async fn close(&self) {
        if let Some(connection) = self.connection.lock().await.take() {
            connection.close(VarInt::from_u32(0), b"");
            self.endpoint.wait_idle().await;
        }
    }
}

fn of_read(error: quinn::ReadError) -> TransferError {
    if let quinn::ReadError::ConnectionLost(lost) = error {
        TransferError::QuicConnection(lost)
    } else {
        TransferError::Quic(error.to_string())
    }
}

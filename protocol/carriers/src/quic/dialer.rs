//! Agent side of the carrier: opens links to the gateway.
use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use longhaul_driver::{Carrier, LinkEnd};
use longhaul_protocol::path::PathClass;
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, Runtime as _, TokioRuntime,
    crypto::rustls::QuicClientConfig,
};
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    bare::BareQuic,
    pump,
    settings::{self, AGENT_IDS, END_TIME},
};
use crate::{
    CarrierError, Certificates, LinkAttempt, bare_link::BareLink, dialer::any_certificate, pump::PumpError,
    race::Addresses,
};

/// Time for the handshake: several repetitions of its first packet.
const CONNECT_TIME: Duration = Duration::from_secs(8);

/// The carrier `quic` to one gateway.
#[derive(Clone)]
pub struct QuicCarrier {
    addresses: Addresses,
    /// Host name of the gateway, or its address.
    host: String,
    config: ClientConfig,
    certificates: Certificates,
    attempts: watch::Sender<LinkAttempt>,
}

impl fmt::Debug for QuicCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicCarrier")
            .field("address", &self.addresses.first())
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl QuicCarrier {
    /// Creates the carrier to the gateway at a UDP `address`. `host` is its name, for the TLS handshake.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults, which does not happen.
    pub fn new(address: SocketAddr, host: &str) -> Result<Self, rustls::Error> {
        let mut tls = any_certificate()?;
        tls.alpn_protocols = vec![settings::ALPN.to_vec()];
        let crypto =
            QuicClientConfig::try_from(tls).map_err(|error| rustls::Error::General(error.to_string()))?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(settings::transport());
        let is_name = ServerName::try_from(host).is_ok();
        Ok(Self {
            addresses: address.into(),
            host: if is_name {
                host.to_owned()
            } else {
                address.ip().to_string()
            },
            config,
            certificates: Certificates::default(),
            attempts: watch::Sender::default(),
        })
    }

    /// The same carrier, which also tries these addresses, at most seven: each one `delay` after the one before it, or at
    /// once when an attempt fails (RFC 8305).
    #[must_use]
    pub fn or_at(self, others: &[SocketAddr], delay: Duration) -> Self {
        let addresses = self.addresses.then(others, delay);
        Self { addresses, ..self }
    }

    /// The same carrier, whose certificates are compared.
    #[must_use]
    pub fn comparing(self, certificates: Certificates) -> Self {
        Self { certificates, ..self }
    }

    /// What becomes of the attempts.
    pub fn attempts(&self) -> watch::Receiver<LinkAttempt> {
        self.attempts.subscribe()
    }

    /// Opens a link without a driver; `first` is its first packet.
    ///
    /// # Errors
    /// Nobody answers, or another server.
    pub async fn open(&self, first: &[u8]) -> Result<BareLink, CarrierError> {
        let (_, (endpoint, connection)) = self.connect().await?;
        let link = BareQuic::new(endpoint, connection);
        link.send(first).await?;
        Ok(BareLink::of_quic(link))
    }

    /// Opens a connection to the first address that answers.
    async fn connect(&self) -> Result<(SocketAddr, (Endpoint, Connection)), CarrierError> {
        self.addresses.race(|address| self.connect_to(address)).await
    }

    /// Opens a connection on a socket of its own.
    async fn connect_to(&self, address: SocketAddr) -> Result<(Endpoint, Connection), CarrierError> {
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = settings::bind(local)?;
        let endpoint = settings::endpoint(
            EndpointConfig::default(),
            AGENT_IDS,
            None,
            TokioRuntime.wrap_udp_socket(socket)?,
        )?;
        let connecting = endpoint
            .connect_with(self.config.clone(), address, &self.host)
            .map_err(io::Error::other)?;
        let connection = timeout(CONNECT_TIME, connecting)
            .await
            .map_err(|_| CarrierError::TooSlow)?
            .map_err(|error| {
                if error == ConnectionError::TimedOut {
                    CarrierError::TooSlow
                } else {
                    CarrierError::Pump(error.into())
                }
            })?;
        let shown = connection.peer_identity();
        let shown = shown.and_then(|shown| shown.downcast::<Vec<CertificateDer<'static>>>().ok());
        if !self
            .certificates
            .admit(shown.as_ref().and_then(|chain| chain.first()))
        {
            return Err(CarrierError::Intercepted);
        }
        if connection.max_datagram_size().is_none() {
            return Err(PumpError::NoDatagrams.into());
        }
        Ok((endpoint, connection))
    }

    async fn carry(self, mut end: LinkEnd) -> Result<(), Arc<CarrierError>> {
        let first = end.output.next_now();
        self.attempts.send_replace(LinkAttempt::Pending);
        let connected = self.connect().await.map_err(Arc::new);
        self.attempts.send_replace(match &connected {
            Ok(_) => LinkAttempt::Open,
            Err(error) => LinkAttempt::Failed(Arc::clone(error)),
        });
        let (address, (endpoint, connection)) = connected?;
        end.input.connected(address);
        let carried = pump::run(&connection, end, first).await;
        drop(connection);
        let _late = timeout(END_TIME, endpoint.wait_idle()).await;
        carried.map_err(|error| Arc::new(error.into()))
    }
}

impl Carrier for QuicCarrier {
    fn class(&self) -> PathClass {
        PathClass::Datagram
    }

    fn run(&self, end: LinkEnd) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let carrier = self.clone();
        Box::pin(async move {
            let address = carrier.addresses.first();
            match carrier.carry(end).await {
                Ok(()) => debug!(%address, "the link has ended"),
                Err(error) => debug!(%address, %error, "the link has ended"),
            }
        })
    }
}

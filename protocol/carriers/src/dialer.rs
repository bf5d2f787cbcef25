//! Agent side of the carrier: opens links to the gateway.
use std::{fmt, io, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use longhaul_driver::{Carrier, LinkEnd};
use longhaul_protocol::path::PathClass;
use longhaul_proxy::{HttpProxy, ProxyError};
use longhaul_types::PublicKey;
use rustls::{
    ClientConfig, DigitallySignedStruct, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::TLS13,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::client::generate_key, protocol::Role},
};
use tracing::debug;

use crate::{
    Certificates,
    bare_link::BareLink,
    pump::{self, PumpError},
    race::Addresses,
    tcp::TcpOptions,
    upgrade::{self, MAX_HEAD, ResponseError},
};

/// Time for the TCP and TLS handshakes and the upgrade. Afterwards another attempt is better than waiting:
/// the pauses between repetitions of a lost SYN double.
const CONNECT_TIME: Duration = Duration::from_secs(12);

/// The carrier `tls` to one gateway.
#[derive(Clone)]
pub struct TlsCarrier {
    addresses: Addresses,
    /// Host name of the gateway, or its address.
    host: String,
    name: ServerName<'static>,
    gateway: PublicKey,
    tls: TlsConnector,
    /// The way to the gateway, where it is not direct.
    proxy: Option<HttpProxy>,
    certificates: Certificates,
    attempts: watch::Sender<LinkAttempt>,
}

/// What became of the newest attempt to open a link.
#[derive(Clone, Debug, Default)]
pub enum LinkAttempt {
    /// It is being made, or there was none.
    #[default]
    Pending,
    /// The link is open.
    Open,
    /// There is no link.
    Failed(Arc<CarrierError>),
}

impl fmt::Debug for TlsCarrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsCarrier")
            .field("address", &self.addresses.first())
            .field("host", &self.host)
            .finish_non_exhaustive()
    }
}

impl TlsCarrier {
    /// Creates the carrier to the gateway with this key at a TCP `address`. `host` is its name, for the Host
    /// field and the TLS handshake.
    ///
    /// # Errors
    /// The TLS library refuses its own defaults, which does not happen.
    pub fn new(address: SocketAddr, host: &str, gateway: PublicKey) -> Result<Self, rustls::Error> {
        let mut config = any_certificate()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = ServerName::try_from(host.to_owned()).unwrap_or_else(|_| address.ip().into());
        Ok(Self {
            addresses: address.into(),
            host: host.to_owned(),
            name,
            gateway,
            tls: TlsConnector::from(Arc::new(config)),
            proxy: None,
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

    /// The same carrier through an HTTP proxy, which looks up the gateway's name.
    #[must_use]
    pub fn through(self, proxy: Option<HttpProxy>) -> Self {
        Self { proxy, ..self }
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
        let connected = self.connect_in_time(Some(first)).await?;
        Ok(BareLink::open(connected.stream, connected.rest).await)
    }

    async fn carry(self, mut end: LinkEnd) -> Result<(), Arc<CarrierError>> {
        let first = end.output.next_now();
        self.attempts.send_replace(LinkAttempt::Pending);
        let connected = self.connect_in_time(first.as_deref()).await.map_err(Arc::new);
        self.attempts.send_replace(match &connected {
            Ok(_) => LinkAttempt::Open,
            Err(error) => LinkAttempt::Failed(Arc::clone(error)),
        });
        let Connected {
            address,
            stream,
            rest,
            options,
        } = connected?;
        if let Some(first) = first {
            end.output.written(first.len());
        }
        end.input.connected(address);
        let socket =
            WebSocketStream::from_partially_read(stream, rest, Role::Client, Some(pump::limits())).await;
        pump::run(socket, end, options)
            .await
            .map_err(|error| Arc::new(error.into()))
    }

    async fn connect_in_time(&self, first: Option<&[u8]>) -> Result<Connected, CarrierError> {
        let limit = match &self.proxy {
            Some(_) => CONNECT_TIME + longhaul_proxy::LONGEST,
            None => CONNECT_TIME,
        };
        let connected = timeout(limit, self.connect(first)).await;
        connected.map_err(|_| CarrierError::TooSlow)?
    }

    /// Opens the WebSocket.
    async fn connect(&self, first: Option<&[u8]>) -> Result<Connected, CarrierError> {
        let first_address = self.addresses.first();
        let (address, tcp) = match &self.proxy {
            Some(proxy) => {
                let tunnel = proxy.tunnel(&self.host, first_address.port()).await?;
                (first_address, tunnel)
            }
            None => self.addresses.race(TcpStream::connect).await?,
        };
        let options = TcpOptions::new(&tcp);
        let mut stream = self.tls.connect(self.name.clone(), tcp).await?;
        let shown = stream.get_ref().1.peer_certificates();
        if !self.certificates.admit(shown.and_then(<[_]>::first)) {
            return Err(CarrierError::Intercepted);
        }
        let key = generate_key();
        let request = upgrade::request(&self.gateway, &self.host, &key, first);
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut head = Vec::with_capacity(1024);
        loop {
            let room = MAX_HEAD.saturating_sub(head.len());
            let read = (&mut stream).take(room as u64).read_buf(&mut head).await?;
            if read == 0 && room > 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            if let Some(length) = upgrade::parse_response(&key, &head)? {
                let rest = head.split_off(length);
                return Ok(Connected {
                    address,
                    stream,
                    rest,
                    options,
                });
            }
        }
    }
}

impl Carrier for TlsCarrier {
    fn class(&self) -> PathClass {
        PathClass::Ordered
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

/// TLS 1.3 that accepts each certificate: for what does not depend on who answers.
///
/// # Errors
/// The library's own parameters do not fit together.
pub fn any_certificate() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    Ok(ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// An open WebSocket.
struct Connected {
    address: SocketAddr,
    stream: TlsStream<TcpStream>,
    /// Bytes after the response.
    rest: Vec<u8>,
    options: TcpOptions,
}

/// Errors of the carrier.
#[derive(Debug, thiserror::Error)]
pub enum CarrierError {
    /// The network or the gateway refuses TCP or TLS.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The HTTP proxy on the way opens no connection.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    /// Somebody on the way ends TLS, and the settings do not permit that.
    #[error("TLS is intercepted: the certificate is not the gateway's")]
    Intercepted,
    /// Another server answers.
    #[error(transparent)]
    Response(#[from] ResponseError),
    /// Nothing answers.
    #[error("no answer in time")]
    TooSlow,
    /// The open link failed.
    #[error(transparent)]
    Pump(#[from] PumpError),
}

/// Accepts each certificate: the handshake of the packets authenticates the gateway, and a network that
/// intercepts TLS is no reason to give up.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

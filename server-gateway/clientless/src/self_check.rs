//! At its start, the gateway asks itself through its public address, as a stranger would: whatever stands before it (a port
//! forwarding, a load balancer, the network of a container) may let strangers look like clients of `clientless.allow`.
//!
//! The question names a host that exists only for this check, so that the gateway recognises it and no other host is concerned.
use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
    },
    time::Duration,
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket, lookup_host},
    sync::Notify,
    time::timeout,
};
use tokio_rustls::TlsConnector;
use tracing::{info, warn};

use super::{access::Access, dns::question_for};

/// Time for the question and its answer.
const LIMIT: Duration = Duration::from_secs(3);
/// Bytes of an answer that are read: its status.
const MAX_ANSWER: usize = 12;
/// Whether the gateway has seen the question, and what it decided.
const UNSEEN: u8 = 0;
const REFUSED: u8 = 1;
const SERVED: u8 = 2;

/// A stranger would be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "[clientless] {setting}: the gateway has asked itself at {address}, without a password, and was served: whatever stands \
     before the gateway makes strangers look like clients of clientless.allow, so that the proxy would be open to everybody. \
     Name in clientless.allow only networks that are behind no translation of addresses, or do not forward the port"
)]
pub struct OpenProxy {
    setting: &'static str,
    address: SocketAddr,
}

/// The host of the question.
#[derive(Debug)]
pub(super) struct SelfCheck {
    host: String,
    is_running: AtomicBool,
    seen: AtomicU8,
    noted: Notify,
}

/// A port that is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct CheckedPort {
    pub(super) setting: &'static str,
    pub(super) port: u16,
    pub(super) protocol: CheckedProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckedProtocol {
    Http,
    Tls,
    Dns,
}

impl SelfCheck {
    /// A check with a random name.
    pub(super) fn new() -> Self {
        let mut random = [0; 16];
        // Without randomness the gateway does not start.
        let _filled = getrandom::fill(&mut random);
        Self {
            host: format!("{:032x}.invalid", u128::from_be_bytes(random)),
            is_running: AtomicBool::new(false),
            seen: AtomicU8::new(UNSEEN),
            noted: Notify::new(),
        }
    }

    /// Notes what was decided about a request for a host.
    pub(super) fn note(&self, host: &str, is_served: bool) {
        if host.trim_end_matches('.') == self.host {
            self.note_decision(if is_served { SERVED } else { REFUSED });
        }
    }

    /// Notes that a client was refused before its request was read.
    pub(super) fn note_refused(&self) {
        if self.is_running.load(SeqCst) {
            self.note_decision(REFUSED);
        }
    }

    fn note_decision(&self, decided: u8) {
        self.seen.fetch_max(decided, SeqCst);
        self.noted.notify_one();
    }

    /// Asks these ports at the host of the public address, while they are served.
    ///
    /// # Errors
    /// A stranger would be served.
    pub(super) async fn ask(
        &self,
        (access, tls): (&Access, Option<Arc<ClientConfig>>),
        public: &str,
        ports: &[CheckedPort],
    ) -> Result<(), OpenProxy> {
        let host = public.rsplit_once(':').map_or(public, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        for port in ports {
            let addresses = timeout(LIMIT, lookup_host((host, port.port))).await;
            let Ok(Ok(mut addresses)) = addresses else {
                warn!(
                    address = public,
                    "the public address is not known here, so that the proxy cannot be tried from outside"
                );
                return Ok(());
            };
            let Some(address) = addresses.next() else { continue };
            self.is_running.store(true, SeqCst);
            let reached = self.ask_port((access, tls.clone()), address, *port).await;
            self.is_running.store(false, SeqCst);
            if !reached? {
                // The other ports would only take their time.
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns false if there is no way back to this gateway.
    async fn ask_port(
        &self,
        (access, tls): (&Access, Option<Arc<ClientConfig>>),
        address: SocketAddr,
        port: CheckedPort,
    ) -> Result<bool, OpenProxy> {
        let setting = port.setting;
        let asking = async {
            match port.protocol {
                CheckedProtocol::Http => self.ask_proxy(access, address).await,
                CheckedProtocol::Tls => self.ask_secure_proxy(access, tls, address).await,
                CheckedProtocol::Dns => self.ask_name_server(access, address).await,
            }
        };
        let answered = timeout(LIMIT, asking)
            .await
            .unwrap_or_else(|late| Err(late.into()));
        let seen = self.seen.swap(UNSEEN, SeqCst);
        match (answered, seen) {
            (_, SERVED) => Err(OpenProxy { setting, address }),
            (Ok(Asked::AsClient(own)), _) => {
                warn!(
                    %address, %own,
                    "the gateway cannot try its proxy as a stranger: its own address is in clientless.allow"
                );
                Ok(false)
            }
            (Ok(Asked::Answered(status)), REFUSED) if ![407, 404, 0].contains(&status) => {
                Err(OpenProxy { setting, address })
            }
            (_, REFUSED) => {
                info!(%address, "strangers are not served");
                Ok(true)
            }
            (Ok(Asked::Answered(_)) | Err(_), _) => {
                warn!(
                    %address, setting,
                    "the gateway does not reach itself by its public address, so that this port could not be tried from outside"
                );
                Ok(false)
            }
        }
    }

    async fn ask_proxy(&self, access: &Access, address: SocketAddr) -> io::Result<Asked> {
        let stream = TcpStream::connect(address).await?;
        if let Some(own) = as_client(access, stream.local_addr()?) {
            return Ok(Asked::AsClient(own));
        }
        self.exchange(stream).await
    }

    async fn ask_secure_proxy(
        &self,
        access: &Access,
        tls: Option<Arc<ClientConfig>>,
        address: SocketAddr,
    ) -> io::Result<Asked> {
        let stream = TcpStream::connect(address).await?;
        // The port serves those who know a password, from everywhere.
        if let Some(own) = as_client(access, stream.local_addr()?) {
            return Ok(Asked::AsClient(own));
        }
        let connector = TlsConnector::from(tls.ok_or(io::ErrorKind::Unsupported)?);
        let name = ServerName::from(address.ip());
        self.exchange(connector.connect(name, stream).await?).await
    }

    /// Sends a request as to a proxy; returns the status, or 0 if the connection ends without one.
    async fn exchange(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Asked> {
        let request = format!(
            "GET http://{0}/ HTTP/1.1\r\nHost: {0}\r\nConnection: close\r\n\r\n",
            self.host
        );
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        // A connection that is reset has no answer, either.
        let _reset = stream.take(MAX_ANSWER as u64).read_to_end(&mut answer).await;
        let status = answer.get(9..12).and_then(|code| std::str::from_utf8(code).ok());
        Ok(Asked::Answered(
            status.and_then(|code| code.parse().ok()).unwrap_or(0),
        ))
    }

    async fn ask_name_server(&self, access: &Access, address: SocketAddr) -> io::Result<Asked> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => ([0; 4], 0).into(),
            SocketAddr::V6(_) => ([0; 16], 0).into(),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        if let Some(own) = as_client(access, socket.local_addr()?) {
            return Ok(Asked::AsClient(own));
        }
        let question = question_for(&self.host).ok_or(io::ErrorKind::InvalidInput)?;
        socket.send(&question).await?;
        let mut answer = [0; 512];
        // Nobody answers a stranger.
        tokio::select! {
            answered = socket.recv(&mut answer) => drop(answered?),
            () = self.noted.notified() => {}
        }
        Ok(Asked::Answered(0))
    }
}

/// How a port answered.
#[derive(Clone, Copy, Debug)]
enum Asked {
    /// Status of the answer; 0 if there is none.
    Answered(u16),
    /// Nothing was asked: this address is one of the clients'.
    AsClient(IpAddr),
}

fn as_client(access: &Access, own: SocketAddr) -> Option<IpAddr> {
    let own = own.ip().to_canonical();
    access.is_inside(own).then_some(own)
}

//! Two nghttpx proxies that speak HTTP/2 with each other over the hop, and Squid behind the second: what a browser gains by
//! one open connection alone.
use std::{
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    path::{Path, PathBuf},
    process::Stdio,
};

use longhaul_world::{GATEWAY_ON_HOP, Namespace};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Command,
};

use super::{
    clientless::SecureFiles,
    programs::{self, ProgramError},
    service::{Service, ServiceError},
    squid::{self, Caching, SquidError},
};

/// Address of the first proxy, in the client's namespace.
pub(super) const PROXY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));
/// Address of the second proxy, on the gateway's side of the hop.
const SECOND: SocketAddr = SocketAddr::V4(SocketAddrV4::new(GATEWAY_ON_HOP, 3129));
/// Address of Squid, in the gateway's namespace.
pub(super) const SQUID: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 3128));
/// A request to a closed port, which Squid answers with an error at once: it opens the connection between the proxies.
const OPENING: &[u8] = b"GET http://127.0.0.1:9/ HTTP/1.1\r\nhost: 127.0.0.1:9\r\nconnection: close\r\n\r\n";

/// Both proxies and Squid.
pub(in crate::worker) struct Http2Pair {
    first: Service,
    second: Service,
    _squid: Service,
}

/// Errors of starting the proxies.
#[derive(Debug, thiserror::Error)]
pub(in crate::worker) enum Http2PairError {
    /// nghttpx is not installed.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// Squid is not installed, or does not run.
    #[error(transparent)]
    Squid(#[from] SquidError),
    /// A proxy does not run.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// They do not reach each other.
    #[error("the HTTP/2 proxies do not reach each other: {0}")]
    Apart(io::Error),
}

impl Http2Pair {
    /// Starts the proxies and opens the connection between them, as agent and gateway have a session before a load.
    /// `secure` is the certificate of the second.
    ///
    /// # Errors
    /// A program is not installed, does not start, or does not reach the other.
    pub(super) async fn start(
        gateway: &Namespace,
        client: &Namespace,
        secure: SecureFiles,
        temporary: &Path,
    ) -> Result<Self, Http2PairError> {
        let program = programs::installed_from("nghttpx", "nghttp2-proxy")?;
        let (of_second, folder) = (program.clone(), temporary.to_owned());
        let (squid, second) = gateway
            .run(move || async move {
                let squid = squid::start(SQUID, Caching::Off, &folder).await?;
                let mut arguments = vec![
                    "--no-ocsp".into(),
                    format!("--frontend={},{}", SECOND.ip(), SECOND.port()).into(),
                    format!("--backend={},{}", SQUID.ip(), SQUID.port()).into(),
                ];
                arguments.extend([secure.key.into_os_string(), secure.certificate.into_os_string()]);
                let second = start(&of_second, &arguments, SECOND, folder.join("nghttpx-2")).await?;
                Ok::<_, Http2PairError>((squid, second))
            })
            .await?;
        let log = temporary.join("nghttpx-1");
        let first = client
            .run(move || async move {
                let arguments = [
                    // It knows no authority for the other's certificate.
                    "--insecure".into(),
                    format!("--frontend={},{};no-tls", PROXY.ip(), PROXY.port()).into(),
                    format!("--backend={},{};;tls;proto=h2", SECOND.ip(), SECOND.port()).into(),
                ];
                let first = start(&program, &arguments, PROXY, log).await?;
                open().await.map_err(Http2PairError::Apart)?;
                Ok::<_, Http2PairError>(first)
            })
            .await?;
        Ok(Self {
            first,
            second,
            _squid: squid,
        })
    }

    /// The proxies beside the browser and at the gateway's place.
    pub(super) const fn proxies(&self) -> (&Service, &Service) {
        (&self.first, &self.second)
    }
}

/// Starts a forward proxy with one thread, which is enough for one browser.
async fn start(
    program: &Path,
    arguments: &[std::ffi::OsString],
    address: SocketAddr,
    log: PathBuf,
) -> Result<Service, ServiceError> {
    let mut command = Command::new(program);
    command
        .args([
            "--http2-proxy",
            "--single-process",
            "--conf=/dev/null",
            "--accesslog-file=/dev/null",
        ])
        .args(arguments)
        .stdout(Stdio::null());
    let mut service = Service::spawn("nghttpx", command, log)?;
    service.wait_for_port(address).await?;
    Ok(service)
}

/// Sends a request through both proxies. Any answer of Squid will do.
async fn open() -> io::Result<()> {
    let mut stream = TcpStream::connect(PROXY).await?;
    stream.write_all(OPENING).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    let is_of_squid = String::from_utf8_lossy(&answer).contains("squid");
    if is_of_squid {
        Ok(())
    } else {
        Err(io::Error::other("no response of Squid arrived"))
    }
}

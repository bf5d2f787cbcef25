//! A network that ends TLS and opens it anew, as interception boxes do.
use std::{path::Path, sync::Arc};

use longhaul_tests::authority::TestAuthority;
use rustls::{ClientConfig, RootCertStore, ServerConfig, crypto::ring};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{io::copy_bidirectional, net::TcpStream, task::JoinSet};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::pair::{COMMAND_LIMIT, control, status_until};

/// A relay that ends TLS by a certificate of its own.
struct Interceptor {
    address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Interceptor {
    /// Relays to the server at `to`, which has this certificate.
    async fn start(to: SocketAddr, certificate: &str) -> Result<Self> {
        let own: Arc<ServerConfig> = TestAuthority::new()?.server(&["localhost"])?;
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes())?)?;
        let beyond = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let (acceptor, connector) = (TlsAcceptor::from(own), TlsConnector::from(Arc::new(beyond)));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let (acceptor, connector) = (acceptor.clone(), connector.clone());
                connections.spawn(async move {
                    // The ends of connections are the ends of sessions: the test looks at those.
                    drop(intercept(near, to, acceptor, connector).await);
                });
            }
        });
        Ok(Self {
            address,
            _tasks: tasks,
        })
    }
}

async fn intercept(
    near: TcpStream,
    to: SocketAddr,
    acceptor: TlsAcceptor,
    connector: TlsConnector,
) -> Result<()> {
    let mut near = acceptor.accept(near).await?;
    let far = TcpStream::connect(to).await?;
    let mut far = connector.connect(ServerName::try_from("localhost")?, far).await?;
    copy_bidirectional(&mut near, &mut far).await?;
    Ok(())
}

/// A gateway with TLS and the interceptor before it, and an agent that uses TLS only.
async fn intercepted_pair(origin: &Origin, files: &Path) -> Result<(Pair, Interceptor)> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let (certificate, key) = (files.join("cert.pem"), files.join("key.pem"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let tls = free_tcp_port().await?;
    let interceptor = Interceptor::start(tls, &made.cert.pem()).await?;
    let mut setup = Setup::resolving(&[("files.test", origin.address())]);
    setup.gateway_config.push_str(&format!(
        "[carriers]\ntls = \"{tls}\"\ncert = \"{}\"\nkey = \"{}\"\n",
        certificate.display(),
        key.display()
    ));
    let port = interceptor.address.port().to_string();
    let arguments = ["--carrier", "tls", "--carrier-tls-port", &port];
    setup.agent_arguments.extend(arguments.map(str::to_owned));
    Ok((Pair::start(setup).await?, interceptor))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interception_of_tls_is_shown_and_can_be_refused() -> Result<()> {
    let origin = origin().await?;
    let files = folder()?;
    let (pair, interceptor) = intercepted_pair(&origin, files.path()).await?;
    let status = pair
        .status_until(|status| status["state"] == "open" && status["session"]["intercepted"] == true)
        .await?;
    assert_eq!(status["session"]["carrier"], "tls", "{status:#}");
    pair.agent().log().contains("is intercepted", LIMIT).await?;
    let file = pair.get("http://files.test/file").await?;
    ensure!(is_the_file(&file), "{} {:?}", file.status, file.ending);
    let state = pair.folder().join("agent").display().to_string();
    let doctor = run(
        "longhaul",
        &["doctor", "--json", "--state-dir", &state],
        COMMAND_LIMIT,
    )
    .await?;
    let report: serde_json::Value = serde_json::from_str(&doctor.stdout)?;
    let kinds: Vec<_> = report["findings"]
        .as_array()
        .context("findings")?
        .iter()
        .collect();
    assert!(
        kinds.iter().any(|finding| finding["kind"] == "intercepted"),
        "{report:#}"
    );

    // Another device requires the gateway's certificate, which it learns in its first session.
    let port = interceptor.address.port().to_string();
    let strict = [
        "--carrier",
        "tls",
        "--carrier-tls-port",
        &port,
        "--carrier-pin",
        "require",
    ];
    let strict = pair.second_agent_with("strict", &strict).await?;
    let place = pair.folder().join("strict");
    let refused = |status: &serde_json::Value| status["trouble"]["kind"] == "intercepted";
    let status = status_until(control(&place)?, refused).await?;
    assert_ne!(status["state"], "open", "{status:#}");
    assert_eq!(status["sessions"], 1, "{status:#}");
    strict.end("INT", LIMIT).await?;
    // It remembers the key: the next run opens no session at all.
    let known = std::fs::read_to_string(place.join("agent/gateway-announced"))?;
    assert_eq!(known.split_ascii_whitespace().count(), 4, "{known}");
    let strict = [
        "--carrier",
        "tls",
        "--carrier-tls-port",
        &port,
        "--carrier-pin",
        "require",
    ];
    let strict = pair.second_agent_with("strict", &strict).await?;
    let status = status_until(control(&place)?, refused).await?;
    assert_eq!(status["sessions"], 0, "{status:#}");
    strict.end("INT", LIMIT).await?;
    Ok(())
}

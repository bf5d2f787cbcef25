//! The proxy inside TLS: certificate, protocols, who is served, and its script.
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use longhaul_clientless::{AccessError, ClientlessError};
use longhaul_gateway::{Server, ServerError};
use longhaul_gateway_core::config::{Environment, SettingArgs, resolve, settings};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{interval, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    ELSEWHERE, LOCAL,
    access::{credentials, with_clients},
    browsers::{is_missing, run, words},
    get, status,
};
use crate::{gateway::Gateway, store::numbered};

/// Limit of a wait for an event; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);
/// Name of the proxy in its certificate.
pub(crate) const NAME: &str = "localhost";

/// A proxy inside TLS.
pub(crate) struct Secure {
    pub(crate) gateway: Gateway,
    pub(crate) address: SocketAddr,
    /// The configuration of clients that trust its certificate.
    pub(crate) trust: RootCertStore,
}

/// Writes a new certificate, its key and its authority; returns the authority.
pub(crate) fn certify(folder: &Path) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Otherwise it would have the name of what it issues.
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "authority of the proxy");
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let made = params.signed_by(&key, &authority).unwrap();
    // The key first: a gateway that looks in between keeps what it has.
    std::fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("cert.pem"), made.pem()).unwrap();
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    authority.der().clone()
}

/// Flags of a proxy inside TLS whose files are in a folder.
fn flags(flags: SettingArgs, folder: &Path) -> SettingArgs {
    let path = |name| folder.join(name).display().to_string();
    flags
        .with(&settings::CLIENTLESS_TLS, "127.0.0.1:0")
        .with(&settings::CLIENTLESS_CERTIFICATE, &path("cert.pem"))
        .with(&settings::CLIENTLESS_KEY, &path("key.pem"))
        .with(&settings::CLIENTLESS_LEVEL, "original")
}

/// A gateway whose proxy inside TLS serves the clients of a network.
pub(crate) async fn start_in(home: TempDir, allow: &str, change: impl FnOnce(&mut SettingArgs)) -> Secure {
    let authority = certify(home.path());
    let folder = home.path().to_owned();
    let gateway = Gateway::start_in(home, |args| {
        *args = flags(std::mem::take(args), &folder).with(&settings::CLIENTLESS_ALLOW, allow);
        change(args);
    })
    .await;
    let mut trust = RootCertStore::empty();
    trust.add(authority).unwrap();
    Secure {
        address: gateway.clientless_tls.unwrap(),
        gateway,
        trust,
    }
}

/// A gateway whose proxy inside TLS serves this machine.
pub(crate) async fn start() -> Secure {
    start_in(tempfile::tempdir().unwrap(), LOCAL, |_| {}).await
}

/// Connects with these protocols.
pub(crate) async fn connect_with(
    address: SocketAddr,
    trust: RootCertStore,
    protocols: &[&[u8]],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trust)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    let connector = TlsConnector::from(Arc::new(config));
    let tcp = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from(NAME).unwrap(), tcp).await
}

impl Secure {
    /// Connects with these protocols.
    pub(crate) async fn connect(&self, protocols: &[&[u8]]) -> TlsStream<TcpStream> {
        connect_with(self.address, self.trust.clone(), protocols)
            .await
            .unwrap()
    }

    /// Sends bytes on a new HTTP/1.1 connection, and returns all bytes until its end.
    pub(crate) async fn exchange(&self, request: &str) -> String {
        let mut connection = self.connect(&[b"http/1.1"]).await;
        let _reset = connection.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _reset = connection.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    }
}

#[tokio::test]
async fn the_protocol_is_negotiated_and_http1_is_served() {
    let secure = start().await;
    let (url, log) = numbered(&[]).await;
    for (offered, chosen) in [
        (&[&b"h2"[..], b"http/1.1"][..], Some(&b"h2"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let connection = secure.connect(offered).await;
        assert_eq!(connection.get_ref().1.alpn_protocol(), chosen);
    }
    for _ in 0..2 {
        let answer = secure.exchange(&get(&url, "")).await;
        assert_eq!(status(answer.as_bytes()), 200, "{answer}");
    }
    assert_eq!(log.count(), 2);
    assert!(secure.gateway.clientless.is_none());
}

#[tokio::test]
async fn the_script_names_the_secure_proxy_and_needs_no_password() {
    let (home, _, _) = with_clients(["ann"]);
    let secure = start_in(home, ELSEWHERE, |_| {}).await;
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: gw.test:3129\r\nConnection: close\r\n\r\n");
    let script = secure.exchange(&ask("/proxy.pac")).await;
    assert_eq!(status(script.as_bytes()), 200);
    assert!(script.contains("\"HTTPS gw.test:3129; DIRECT\""), "{script}");
    assert!(!script.contains("PROXY"));
    assert_eq!(status(secure.exchange(&ask("/")).await.as_bytes()), 404);
}

#[tokio::test]
async fn a_password_opens_the_port_from_everywhere_and_nothing_else_does() {
    let (home, _, [password]) = with_clients(["ann"]);
    let secure = start_in(home, ELSEWHERE, |_| {}).await;
    let (url, log) = numbered(&[]).await;
    let answer = secure.exchange(&get(&url, "")).await;
    assert_eq!(status(answer.as_bytes()), 407, "{answer}");
    assert_eq!(log.count(), 0);
    let right = credentials("ann", &password);
    let answer = secure.exchange(&get(&url, &right)).await;
    assert_eq!(status(answer.as_bytes()), 200, "{answer}");
    assert!(!log.last().contains_key("proxy-authorization"));
    for _ in 0..5 {
        let answer = secure.exchange(&get(&url, &credentials("ann", "x"))).await;
        assert_eq!(status(answer.as_bytes()), 407);
    }
    // Now the address gets not even a handshake.
    assert!(
        connect_with(secure.address, secure.trust.clone(), &[])
            .await
            .is_err()
    );
    assert_eq!(log.count(), 1);
}

#[tokio::test]
async fn mistakes_of_the_configuration_are_explained() {
    let home = tempfile::tempdir().unwrap();
    let bind = async |change: &dyn Fn(SettingArgs) -> SettingArgs| {
        let args = SettingArgs::default()
            .with(&settings::LISTEN, "127.0.0.1:0")
            .with(&settings::STATE_DIR, home.path().join("state").to_str().unwrap());
        let (config, _) = resolve(&change(args), &Environment::new()).unwrap();
        match Server::bind(&config).await {
            Err(ServerError::Clientless(error)) => error,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("a proxy without a certificate"),
        }
    };
    let error = bind(&|args| args.with(&settings::CLIENTLESS_TLS, "127.0.0.1:0")).await;
    assert!(matches!(error, ClientlessError::Access(AccessError::NobodyKnown)));
    assert!(error.to_string().contains("client add"), "{error}");
    let error = bind(&|args| {
        args.with(&settings::CLIENTLESS_TLS, "127.0.0.1:0")
            .with(&settings::CLIENTLESS_ALLOW, LOCAL)
    })
    .await;
    assert!(
        error.to_string().contains("set clientless.certificate"),
        "{error}"
    );
    let error = bind(&|args| flags(args, home.path()).with(&settings::CLIENTLESS_ALLOW, LOCAL)).await;
    assert!(error.to_string().contains("cert.pem does not exist"), "{error}");
    certify(home.path());
    std::fs::write(home.path().join("key.pem"), "no key").unwrap();
    let error = bind(&|args| flags(args, home.path()).with(&settings::CLIENTLESS_ALLOW, LOCAL)).await;
    let text = error.to_string();
    assert!(
        text.contains("clientless] key") && text.contains("key.pem"),
        "{text}"
    );
}

#[tokio::test]
async fn a_renewed_certificate_is_used_without_a_restart() {
    let secure = start().await;
    let kept = secure.connect(&[]).await;
    let folder = secure.gateway.folder();
    // A file that is written only in part changes nothing.
    std::fs::write(folder.join("cert.pem"), "-----BEGIN CERT").unwrap();
    let renewed = certify(&folder);
    let mut trust = RootCertStore::empty();
    trust.add(renewed).unwrap();
    let mut looks = interval(Duration::from_millis(100));
    let used = async {
        while connect_with(secure.address, trust.clone(), &[]).await.is_err() {
            looks.tick().await;
        }
    };
    timeout(LIMIT, used).await.unwrap();
    drop(kept);
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_uses_the_secure_proxy() {
    if is_missing("curl") {
        return;
    }
    let secure = start().await;
    let (url, log) = numbered(&[]).await;
    let authority = secure.gateway.folder().join("ca.pem").display().to_string();
    let proxy = format!("https://{NAME}:{}", secure.address.port());
    let common = [
        "--silent",
        "--show-error",
        "--fail",
        "--noproxy",
        "",
        "--proxy-cacert",
        &authority,
        "--proxy",
        &proxy,
    ];
    let done = run("curl", words(&[&common[..], &[&url, &url]].concat()))
        .await
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(done.stdout, b"answer 1answer 2");
    assert_eq!(log.count(), 2);
    let untrusting = [
        "--silent",
        "--show-error",
        "--noproxy",
        "",
        "--proxy",
        &proxy,
        &url,
    ];
    assert!(!run("curl", words(&untrusting)).await.unwrap().status.success());
}

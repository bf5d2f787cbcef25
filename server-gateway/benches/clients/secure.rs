//! Clients of the proxy inside TLS, with HTTP/2.
use std::{net::SocketAddr, path::Path, sync::Arc};

use h2::client::SendRequest;
use http::Request;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use super::socket_of;

/// Name of the proxy in its certificate.
const NAME: &str = "localhost";

/// A connection that stays open until dropped.
pub(super) struct Connection {
    _requests: SendRequest<bytes::Bytes>,
    frames: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.frames.abort();
    }
}

/// Writes a certificate and its key into a folder.
pub(super) fn certify(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
    std::fs::write(folder.join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("key.pem"), made.signing_key.serialize_pem()).unwrap();
}

/// The connector of clients that trust the certificate of a folder.
pub(super) fn connector(folder: &Path) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(folder.join("cert.pem")).unwrap())
        .unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

/// Requests a page from an address of its own, and reads all of it.
pub(super) async fn load(
    connector: &TlsConnector,
    proxy: SocketAddr,
    (url, length): (&str, usize),
    client: u16,
) -> Connection {
    let tcp = socket_of(client).connect(proxy).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let tls = connector.connect(name, tcp).await.unwrap();
    let (requests, connection) = h2::client::handshake(tls).await.unwrap();
    let frames = tokio::spawn(async move {
        // An error is the end of the gateway.
        let _ended = connection.await;
    });
    let mut requests = requests.ready().await.unwrap();
    let request = Request::get(url).body(()).unwrap();
    let (response, _) = requests.send_request(request, true).unwrap();
    let mut body = response.await.unwrap().into_body();
    let mut seen = 0;
    while let Some(piece) = body.data().await {
        let count = piece.unwrap().len();
        seen += count;
        body.flow_control().release_capacity(count).unwrap();
    }
    assert_eq!(seen, length, "the page is incomplete");
    Connection {
        _requests: requests,
        frames,
    }
}

//! Download of the certificate of an issuer from the address that a certificate names (RFC 5280 section 4.2.2.1). The
//! address comes from an origin: the address guard applies, and everything has a bound.
use bytes::Bytes;
use http::{
    HeaderValue, Request, StatusCode, Uri,
    header::{HOST, LOCATION, PROXY_AUTHORIZATION},
};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tracing::debug;

use crate::{
    dial::Dialer,
    owner::ConnectionOwner,
    target::{Scheme, Target},
};

/// Maximum size of a certificate: the largest in use have about 10 KiB.
const MAX_CERTIFICATE: usize = 64 * 1024;
/// Maximum number of redirections.
const MAX_REDIRECTIONS: usize = 2;

/// What the server of an address answers.
enum Found {
    Certificate(CertificateDer<'static>),
    Redirection(Uri),
}

/// Fetches a certificate, in DER or PEM; returns `None` if the address leads to none.
pub(crate) async fn fetch(
    dialer: &Dialer,
    url: &str,
    owner: ConnectionOwner,
) -> Option<CertificateDer<'static>> {
    let mut uri: Uri = url.parse().ok()?;
    for _ in 0..=MAX_REDIRECTIONS {
        match get(dialer, &uri, owner).await? {
            Found::Certificate(certificate) => return Some(certificate),
            Found::Redirection(to) => uri = to,
        }
    }
    None
}

async fn get(dialer: &Dialer, uri: &Uri, owner: ConnectionOwner) -> Option<Found> {
    // Only http: the certificate is verified later, and another TLS connection could need the same certificate.
    let target = Target::of(uri)
        .ok()
        .filter(|target| target.scheme == Scheme::Http)?;
    let opened = dialer.dial_http(&target.host, target.port, owner).await;
    let (tcp, forwarding) = opened
        .inspect_err(|error| debug!(%error, "the server of an issuer's certificate cannot be reached"))
        .ok()?;
    let mut request = Request::new(Empty::<Bytes>::new());
    let host = HeaderValue::from_str(uri.authority()?.as_str()).ok()?;
    request.headers_mut().insert(HOST, host);
    *request.uri_mut() = match forwarding {
        Some(forwarding) => {
            if let Some(authorization) = forwarding.authorization {
                request.headers_mut().insert(PROXY_AUTHORIZATION, authorization);
            }
            uri.clone()
        }
        None => uri.path_and_query()?.as_str().parse().ok()?,
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.ok()?;
    let exchange = async move {
        let response = sender.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        if head.status.is_redirection() {
            let to = head.headers.get(LOCATION)?.to_str().ok()?;
            return to.parse().ok().map(Found::Redirection);
        }
        let body = Limited::new(body, MAX_CERTIFICATE)
            .collect()
            .await
            .ok()?
            .to_bytes();
        let is_found = head.status == StatusCode::OK;
        is_found.then(|| Found::Certificate(certificate(&body)))
    };
    let (found, _ended) = tokio::join!(exchange, connection);
    found
}

/// The first certificate of a file.
fn certificate(file: &[u8]) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(file).unwrap_or_else(|_| CertificateDer::from(file.to_vec()))
}

//! Certificate authority and `https` origins.
use std::sync::Arc;

use ::ring::digest::{SHA256, digest};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use longhaul_origin::KeyHash;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PublicKeyData, date_time_ymd,
};
use rustls::{
    ServerConfig, SupportedProtocolVersion,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use super::Origin;

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// Requirement level of a server's request for a client certificate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Demand {
    Required,
    Wanted,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Validity {
    Expired,
    Future,
    Now,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    fn leaf(
        &self,
        name: &str,
        validity: Validity,
        key: &KeyPair,
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = match validity {
            Validity::Expired => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
            Validity::Future => (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1)),
            Validity::Now => (date_time_ymd(2001, 1, 1), date_time_ymd(2091, 1, 1)),
        };
        let certificate = params.signed_by(key, &self.0).unwrap();
        (
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
    }

    /// Returns the configuration of a server for `name`, with a certificate of this authority and the
    /// protocols of `alpn`.
    pub(crate) fn server(&self, name: &str, validity: Validity, alpn: &[&str]) -> ServerConfig {
        self.server_with(name, validity, alpn, &KeyPair::generate().unwrap())
    }

    /// Same as `server`, with the caller's key.
    pub(crate) fn server_with(
        &self,
        name: &str,
        validity: Validity,
        alpn: &[&str],
        key: &KeyPair,
    ) -> ServerConfig {
        let (chain, key) = self.leaf(name, validity, key);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// Returns the configuration of a server that speaks only these versions of TLS.
    pub(crate) fn server_of(
        &self,
        name: &str,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let (chain, key) = self.leaf(name, Validity::Now, &KeyPair::generate().unwrap());
        ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap()
    }

    /// Hash of the authority's key.
    pub(crate) fn key_hash(&self) -> KeyHash {
        key_hash(self.0.key())
    }

    /// Returns the configuration of a server that requests a client certificate.
    pub(crate) fn asking_server(
        &self,
        name: &str,
        demand: Demand,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = match demand {
            Demand::Required => verifier,
            Demand::Wanted => verifier.allow_unauthenticated(),
        };
        let (chain, key) = self.leaf(name, Validity::Now, &KeyPair::generate().unwrap());
        ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(chain, key)
            .unwrap()
    }
}

/// Hash of a key, as used in deny lists.
pub(crate) fn key_hash(key: &impl PublicKeyData) -> KeyHash {
    let hash = digest(&SHA256, &key.subject_public_key_info());
    STANDARD.encode(hash).parse().unwrap()
}

/// Starts an `https` origin that answers with `answer` over HTTP/1.1 or HTTP/2, as negotiated.
pub(crate) async fn origin<F>(config: ServerConfig, answer: F) -> Origin
where
    F: Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
{
    let acceptor = TlsAcceptor::from(Arc::new(config));
    Origin::start(move |_, stream| {
        let (acceptor, answer) = (acceptor.clone(), answer.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let service = service_fn(move |request| {
                let response = answer(&request);
                async move { Ok::<_, std::convert::Infallible>(response) }
            });
            let _ = auto::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await
}

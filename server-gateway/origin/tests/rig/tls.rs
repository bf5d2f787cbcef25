//! A certificate authority and `https` origins.
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo},
    server::conn::auto,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tokio_rustls::TlsAcceptor;

use super::Origin;

pub struct Authority(CertifiedIssuer<'static, KeyPair>);

#[derive(Clone, Copy, PartialEq)]
pub enum Validity {
    Expired,
    Future,
    Now,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }

    fn leaf(&self, name: &str, validity: Validity) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.not_before, params.not_after) = match validity {
            Validity::Expired => (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1)),
            Validity::Future => (date_time_ymd(2090, 1, 1), date_time_ymd(2091, 1, 1)),
            Validity::Now => (date_time_ymd(2001, 1, 1), date_time_ymd(2091, 1, 1)),
        };
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
    }

    /// A server of this authority for `name`, which speaks the protocols of `alpn`.
    pub fn server(&self, name: &str, validity: Validity, alpn: &[&str]) -> ServerConfig {
        let (chain, key) = self.leaf(name, validity);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }

    /// A server that insists on a client certificate.
    pub fn demanding_server(&self, name: &str) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
        let (chain, key) = self.leaf(name, Validity::Now);
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .unwrap()
    }
}

/// An `https` origin that answers with `answer`, HTTP/1.1 or HTTP/2 as negotiated.
pub async fn origin<F>(config: ServerConfig, answer: F) -> Origin
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

//! The port on which agents find out whether a captive portal is in the way (docs/decisions/0039-captive-portals.md).
//!
//! It answers one kind of request, by a hash of the request's random number with the gateway's public key, and every
//! other one with 404. An answer is smaller than twice its request, and TCP has validated the address by then.
use std::{convert::Infallible, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use longhaul_gateway_core::{
    connections::{Connections, Standing},
    port_error::PortError,
};
use longhaul_http::captive_portal;
use longhaul_types::PublicKey;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tracing::{debug, warn};

/// Lifetime of a connection: a round trip of the slowest links, with a queue.
const LIFETIME: Duration = Duration::from_secs(10);
/// Maximum size of a request head: the least that hyper permits.
const MAX_HEAD: usize = 8 * 1024;
/// Pause after an error of accepting, such as too many open files: the error would occur again at once.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// The open port.
#[derive(Debug)]
pub(super) struct PortalListener {
    listener: TcpListener,
    local: SocketAddr,
    gateway: PublicKey,
}

impl PortalListener {
    /// Opens the port, if it is configured.
    pub(super) async fn bind(
        address: Option<SocketAddr>,
        gateway: PublicKey,
    ) -> Result<Option<Self>, PortError> {
        let Some(address) = address else { return Ok(None) };
        let failed = |source| PortError::tcp("portal.listen", address, source);
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let local = listener.local_addr().map_err(failed)?;
        Ok(Some(Self {
            listener,
            local,
            gateway,
        }))
    }

    /// The local address.
    pub(super) const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Answers until the future is dropped. Connections in progress end with their lifetime.
    pub(super) async fn run(self) {
        // Each takes less than 20 KiB.
        let places = Connections::of_portal();
        loop {
            let (stream, peer) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    warn!(%error, "the port for captive portals accepts no connection");
                    sleep(ERROR_PAUSE).await;
                    continue;
                }
            };
            // A connection beyond the limits is closed.
            let Some(place) = places.enter(peer.ip().to_canonical(), Standing::Client) else {
                continue;
            };
            let gateway = self.gateway;
            tokio::spawn(async move {
                let served = timeout(LIFETIME, serve(stream, gateway)).await;
                debug!(?served, "a question about captive portals");
                drop(place);
            });
        }
    }
}

async fn serve(stream: TcpStream, gateway: PublicKey) -> hyper::Result<()> {
    let service = service_fn(move |request: Request<Incoming>| async move {
        Ok::<_, Infallible>(answer(&gateway, &request))
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(LIFETIME)
        .max_buf_size(MAX_HEAD)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn answer<B>(gateway: &PublicKey, request: &Request<B>) -> Response<Full<Bytes>> {
    let proof = (*request.method() == Method::GET)
        .then(|| captive_portal::answer_to(gateway, request.uri().path()))
        .flatten();
    let (status, text) = match proof {
        Some(proof) => (StatusCode::OK, proof),
        None => (StatusCode::NOT_FOUND, "Not Found".to_owned()),
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let fields = [
        (header::CONTENT_TYPE, "text/plain"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fields {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// What the port answers to these bytes.
    async fn asked(port: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(port).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn only_a_question_for_this_gateway_is_answered() {
        let [ours, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let listener = PortalListener::bind(Some(([127, 0, 0, 1], 0).into()), ours)
            .await
            .unwrap()
            .unwrap();
        let port = listener.local_addr();
        let running = tokio::spawn(listener.run());
        let nonce = [5; captive_portal::NONCE_LENGTH];
        let path = captive_portal::question(&ours, &nonce);
        let proof = asked(port, &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
        assert!(proof.starts_with("HTTP/1.1 200 "), "{proof}");
        assert!(proof.ends_with(&captive_portal::answer(&ours, &nonce)), "{proof}");
        let foreign = captive_portal::question(&other, &nonce);
        for request in [
            format!("GET {foreign} HTTP/1.1\r\nHost: a\r\n\r\n"),
            format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"),
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        ] {
            let answer = asked(port, &request).await;
            assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
        }
        running.abort();
    }
}

//! One plain HTTP request with bounds on time and size. No redirect is followed, no cookie is sent or kept.
use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

/// Time for the connection to one address: a portal is in the local network, and a gateway a round trip away.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Maximum size of a response head: the least that hyper permits.
const MAX_HEAD: usize = 8 * 1024;
/// Maximum size of a body that is read. The expected ones are shorter; of a longer one nothing is needed.
const MAX_BODY: usize = 1024;
/// Maximum length of a `Location` that is used.
const MAX_LOCATION: usize = 2048;

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Value of `Location`.
    pub(super) location: Option<String>,
    /// The body; empty if it is too long.
    pub(super) body: Bytes,
}

/// Requests `path` of `host` (`HOST` or `HOST:PORT`) at the first of these addresses that accepts a connection; `None` if
/// nothing answers. The caller limits the time.
pub(super) async fn get(addresses: &[SocketAddr], host: &str, path: &str) -> Option<Answer> {
    let mut stream = None;
    for address in addresses {
        if let Ok(Ok(connected)) = timeout(CONNECT_TIME, TcpStream::connect(address)).await {
            stream = Some(connected);
            break;
        }
    }
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream?))
        .await
        .ok()?;
    let request = Request::get(path)
        .header(header::HOST, host)
        .header(header::ACCEPT, "*/*")
        .header(header::CACHE_CONTROL, "no-store")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .ok()?;
    let exchange = async {
        let response = sender.send_request(request).await.ok()?;
        let (head, body) = response.into_parts();
        let location = head.headers.get(header::LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let body = Limited::new(body, MAX_BODY).collect().await;
        Some(Answer {
            status: head.status,
            location: location
                .filter(|location| location.len() <= MAX_LOCATION)
                .map(str::to_owned),
            body: body.map(|body| body.to_bytes()).unwrap_or_default(),
        })
    };
    // The connection ends with the exchange.
    tokio::pin!(exchange, connection);
    tokio::select! {
        biased;
        answer = &mut exchange => answer,
        _ = &mut connection => exchange.await,
    }
}

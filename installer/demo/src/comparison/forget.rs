//! Deletion of the built-in site's data at agent and gateway, so that each comparison is a first visit.
use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::{net::TcpStream, time::timeout};

use crate::site::Site;

/// The gateway's confirmation crosses the slow link.
const LIMIT: Duration = Duration::from_secs(60);

/// The agent's control port.
#[derive(Clone, Debug)]
pub(crate) struct ControlPort {
    pub(crate) address: SocketAddr,
    /// Token for changes.
    pub(crate) token: String,
}

impl ControlPort {
    /// Deletes what agent and gateway store of the built-in site.
    ///
    /// # Errors
    /// Description of the problem.
    pub(super) async fn forget_site(&self) -> Result<(), String> {
        let answer = timeout(LIMIT, self.post(&format!("/forget?site={}", Site::HOST))).await;
        answer.unwrap_or_else(|_| Err(format!("no answer within {} s", LIMIT.as_secs())))
    }

    async fn post(&self, path: &str) -> Result<(), String> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
        tokio::spawn(connection);
        let request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::ORIGIN, format!("http://{}", self.address))
            .header(header::AUTHORIZATION, format!("Bearer {}", self.token))
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await;
        let status = response.map_err(|error| error.to_string())?.status();
        if status.is_success() {
            Ok(())
        } else {
            Err(format!("the agent answers with status {status}"))
        }
    }
}

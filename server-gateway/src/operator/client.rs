//! The operator's commands as clients of a running gateway.
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{Method, Request, StatusCode, client::conn::http1};
use hyper_util::rt::TokioIo;
use longhaul_gateway_core::admission::{gateway_lock::published_socket, state::StateError};
use serde::de::DeserializeOwned;
use tokio::{net::UnixStream, time::timeout};

use super::{
    changes::Change,
    messages::{DeviceList, ErrorReply},
    orders::Order,
    service::DEVICES,
};

/// Longest wait for an answer. Orders wait for those before them.
const PATIENCE: Duration = Duration::from_secs(30);
/// Largest answer: a list of the largest number of devices, at 500 bytes each, with a reserve.
const MAX_ANSWER: usize = 64 * 1024 * 1024;

/// A running gateway.
#[derive(Debug)]
pub(crate) struct RunningGateway {
    socket: PathBuf,
}

/// Errors of giving an order to a running gateway.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The gateway did not answer in time.
    #[error(
        "the gateway at {path} does not answer; look at its log or restart it, then look at `longhaul-gateway device list`",
        path = .0.display()
    )]
    NoAnswer(PathBuf),
    /// This user may not use the socket.
    #[error(
        "the running gateway at {path} takes orders only from root and from the user who runs it; use `sudo`",
        path = .0.display()
    )]
    NotPermitted(PathBuf),
    /// The gateway refused the order.
    #[error("{0}")]
    Refused(String),
    /// The state directory cannot be read.
    #[error(transparent)]
    State(#[from] StateError),
    /// The connection broke, or the answer is malformed.
    #[error(
        "the order to the gateway at {path} failed: {problem}; `longhaul-gateway device list` shows whether it was carried out",
        path = path.display()
    )]
    Transfer {
        /// Path of the socket.
        path: PathBuf,
        /// Description.
        problem: String,
    },
}

impl RunningGateway {
    /// Finds the gateway that uses this state directory: at the socket that it published, else at `configured`.
    /// Returns `None` if no gateway runs, or if it has no socket.
    ///
    /// # Errors
    /// This user may neither read the directory nor use the socket.
    pub(crate) async fn find(
        state_dir: &Path,
        configured: Option<&Path>,
    ) -> Result<Option<Self>, ClientError> {
        let published = published_socket(state_dir)?;
        let candidates = published.into_iter().chain(configured.map(Path::to_owned));
        for socket in candidates {
            match UnixStream::connect(&socket).await {
                // The gateway sees a connection without request.
                Ok(_) => return Ok(Some(Self { socket })),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(ClientError::NotPermitted(socket));
                }
                // No file, or the file of a gateway that has ended, or a path that is too long for a socket.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Orders a change.
    ///
    /// # Errors
    /// The gateway refuses the order or does not answer.
    pub(crate) async fn order<C: Change>(&self, change: &C) -> Result<C::Reply, ClientError> {
        let order = serde_json::to_vec(change).map_err(|error| self.transfer(&error))?;
        self.request(Method::POST, C::PATH, order).await
    }

    /// Gives an order that only a running gateway carries out.
    ///
    /// # Errors
    /// The gateway refuses the order or does not answer.
    pub(crate) async fn tell<O: Order>(&self, order: &O) -> Result<O::Reply, ClientError> {
        let order = serde_json::to_vec(order).map_err(|error| self.transfer(&error))?;
        self.request(Method::POST, O::PATH, order).await
    }

    /// The device list.
    ///
    /// # Errors
    /// The gateway does not answer.
    pub(crate) async fn devices(&self) -> Result<DeviceList, ClientError> {
        self.request(Method::GET, DEVICES, Vec::new()).await
    }

    async fn request<R: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<R, ClientError> {
        let exchange = timeout(PATIENCE, self.exchange(method, path, body)).await;
        let (status, answer) = exchange.map_err(|_| ClientError::NoAnswer(self.socket.clone()))??;
        if status == StatusCode::OK {
            return serde_json::from_slice(&answer).map_err(|error| self.transfer(&error));
        }
        let refused = serde_json::from_slice(&answer).map_or_else(
            |_| format!("the running gateway does not know this order ({status}): it has another version than this program"),
            |refused: ErrorReply| refused.error,
        );
        Err(ClientError::Refused(refused))
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Bytes), ClientError> {
        let stream = UnixStream::connect(&self.socket).await;
        let stream = stream.map_err(|error| self.transfer(&error))?;
        let handshake = http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| self.transfer(&error))?;
        let connection = tokio::spawn(connection);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "gateway")
            .header("content-type", "application/json")
            .header("connection", "close")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| self.transfer(&error))?;
        let response = sender.send_request(request).await;
        // A gateway closes the connection of another user without an answer.
        let response = response.map_err(|error| {
            self.transfer(&format!(
                "{error} (the gateway has ended, or does not take orders from this user)"
            ))
        })?;
        let status = response.status();
        let answer = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        connection.abort();
        match answer {
            Ok(answer) => Ok((status, answer.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(self.transfer(&"the answer is too large")),
            Err(error) => Err(self.transfer(&error)),
        }
    }

    fn transfer(&self, problem: &dyn std::fmt::Display) -> ClientError {
        ClientError::Transfer {
            path: self.socket.clone(),
            problem: problem.to_string(),
        }
    }
}

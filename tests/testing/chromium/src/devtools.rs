//! A client of the Chrome DevTools protocol: one WebSocket, numbered calls, events in order.
use std::{collections::VecDeque, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

/// Timeout of an ordinary call; long, because many browsers may share a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Maximum number of queued events; a page of 3,000 objects produces about 20,000.
const MAX_EVENTS: usize = 200_000;
/// Maximum length of a message: the body of the largest resource that the browser stores (`tab::MAX_BODY`),
/// in base64.
const MAX_MESSAGE: usize = 128 << 20;

/// Errors of the DevTools connection.
#[derive(Debug, Error)]
pub enum DevToolsError {
    /// The connection has ended: the browser crashed or was killed.
    #[error("Chromium closed its DevTools connection ({0}): it crashed or was killed; try again")]
    Lost(String),
    /// The browser does not answer.
    #[error("Chromium does not answer `{0}`: the machine is overloaded or Chromium hangs")]
    Silent(String),
    /// The browser rejects a call.
    #[error("Chromium rejects `{method}`: {reason}")]
    Refused {
        /// The method called.
        method: String,
        /// Reason given by the browser.
        reason: String,
    },
    /// A message does not conform to the protocol.
    #[error("Chromium sent an invalid DevTools message: {0}")]
    Malformed(String),
}

/// An event of the browser or of an attached target.
#[derive(Debug)]
pub(crate) struct Event {
    /// Session of the attached target.
    pub(crate) session: Option<String>,
    /// Its name, such as `Page.loadEventFired`.
    pub(crate) method: String,
    /// Its parameters.
    pub(crate) params: Value,
}

/// A message of the browser.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// An event.
    Event(Event),
    /// The result or error of the call with this number.
    Answer(u64, Result<Value, String>),
}

/// A connection to the browser.
#[derive(Debug)]
pub(crate) struct DevTools {
    socket: WebSocketStream<TcpStream>,
    next: u64,
    events: VecDeque<Event>,
}

impl DevTools {
    /// Connects to the address that the browser printed (`ws://127.0.0.1:PORT/…`).
    pub(crate) async fn connect(url: &str) -> Result<Self, DevToolsError> {
        let authority = url
            .strip_prefix("ws://")
            .and_then(|rest| rest.split('/').next())
            .ok_or_else(|| DevToolsError::Malformed(format!("address {url}")))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let connected = async {
            let stream = TcpStream::connect(authority).await.map_err(lost)?;
            client_async_with_config(url, stream, Some(config))
                .await
                .map_err(lost)
        };
        let (socket, _) = timeout(PATIENCE, connected)
            .await
            .map_err(|_| DevToolsError::Silent("connect".to_owned()))??;
        Ok(Self {
            socket,
            next: 1,
            events: VecDeque::new(),
        })
    }

    /// Calls a method of the browser itself or of an attached target's session and returns the result.
    pub(crate) async fn call(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, DevToolsError> {
        let deadline = Instant::now() + PATIENCE;
        self.call_until(deadline, session, method, params).await
    }

    /// Calls a method like [`Self::call`], with a deadline.
    pub(crate) async fn call_until(
        &mut self,
        deadline: Instant,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, DevToolsError> {
        let answered = async {
            let id = self.submit(session, method, params).await?;
            loop {
                match self.receive().await? {
                    Incoming::Answer(answered, result) if answered == id => return Ok(result),
                    Incoming::Event(event) if self.events.len() < MAX_EVENTS => self.events.push_back(event),
                    // An answer to a call that is no longer awaited.
                    Incoming::Answer(..) | Incoming::Event(_) => {}
                }
            }
        };
        let result = timeout_at(deadline, answered)
            .await
            .map_err(|_| DevToolsError::Silent(method.to_owned()))??;
        result.map_err(|reason| DevToolsError::Refused {
            method: method.to_owned(),
            reason,
        })
    }

    /// Sends a call; [`Self::next`] returns its answer.
    pub(crate) async fn submit(
        &mut self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<u64, DevToolsError> {
        let id = self.next;
        self.next += 1;
        let mut call = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(call.to_string()))
            .await
            .map_err(lost)?;
        Ok(id)
    }

    /// Returns the next message of the browser.
    pub(crate) async fn next(&mut self) -> Result<Incoming, DevToolsError> {
        match self.events.pop_front() {
            Some(event) => Ok(Incoming::Event(event)),
            None => self.receive().await,
        }
    }

    /// Returns the next event that arrived during a call.
    pub(crate) fn queued(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    async fn receive(&mut self) -> Result<Incoming, DevToolsError> {
        loop {
            let message = self.socket.next().await;
            let message = message.ok_or_else(|| DevToolsError::Lost("end of stream".to_owned()))?;
            match message.map_err(lost)? {
                Message::Text(text) => {
                    let Some(incoming) = parse(text.as_str())? else {
                        continue;
                    };
                    if let Incoming::Event(event) = &incoming
                        && event.method == "Page.javascriptDialogOpening"
                    {
                        // `alert` and similar dialogs stop the page until they are answered.
                        let session = event.session.clone();
                        let accept = json!({ "accept": true });
                        self.submit(session.as_deref(), "Page.handleJavaScriptDialog", accept)
                            .await?;
                    }
                    return Ok(incoming);
                }
                Message::Close(_) => return Err(DevToolsError::Lost("closed".to_owned())),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

fn lost(error: impl std::error::Error) -> DevToolsError {
    DevToolsError::Lost(error.to_string())
}

fn parse(text: &str) -> Result<Option<Incoming>, DevToolsError> {
    let mut message: Value =
        serde_json::from_str(text).map_err(|error| DevToolsError::Malformed(error.to_string()))?;
    if let Some(id) = message["id"].as_u64() {
        let result = if message["error"].is_null() {
            Ok(message["result"].take())
        } else {
            let reason = message["error"]["message"].as_str();
            Err(reason.map_or_else(|| message["error"].to_string(), str::to_owned))
        };
        return Ok(Some(Incoming::Answer(id, result)));
    }
    let Some(method) = message["method"].as_str().map(str::to_owned) else {
        return Ok(None);
    };
    Ok(Some(Incoming::Event(Event {
        session: message["sessionId"].as_str().map(str::to_owned),
        method,
        params: message["params"].take(),
    })))
}

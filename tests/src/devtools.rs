//! A client of the Chrome DevTools protocol: one WebSocket, calls by number, events in order.
use std::{collections::VecDeque, time::Duration};

use anyhow::{Context, Result, bail};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async, tungstenite::Message};

/// A browser that does not answer for this long is lost.
const PATIENCE: Duration = Duration::from_secs(120);
/// Events kept for a reader that does not come; a page of 3,000 objects makes about 20,000.
const MAX_EVENTS: usize = 200_000;

/// A connection to the browser.
#[derive(Debug)]
pub struct DevTools {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    next: u64,
    events: VecDeque<Value>,
}

impl DevTools {
    /// Connects to the address that the browser printed.
    ///
    /// # Errors
    /// The browser does not answer.
    pub async fn connect(url: &str) -> Result<Self> {
        let (socket, _) = timeout(PATIENCE, connect_async(url))
            .await
            .context("browser does not answer")??;
        Ok(Self {
            socket,
            next: 1,
            events: VecDeque::new(),
        })
    }

    /// Calls a method, of the browser itself or of an attached target's session.
    ///
    /// # Errors
    /// The browser refuses the call, or is gone.
    pub async fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        let mut call = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = json!(session);
        }
        self.socket
            .send(Message::text(call.to_string()))
            .await
            .context("browser is gone")?;
        loop {
            let message = self.receive().await?;
            if message["id"].as_u64() == Some(id) {
                if !message["error"].is_null() {
                    bail!("{method}: {}", message["error"]);
                }
                return Ok(message["result"].clone());
            }
            if message["method"].is_string() && self.events.len() < MAX_EVENTS {
                self.events.push_back(message);
            }
        }
    }

    /// The next event, in the order in which the browser sent them.
    ///
    /// # Errors
    /// The browser is gone.
    pub async fn event(&mut self) -> Result<Value> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        loop {
            let message = self.receive().await?;
            if message["method"].is_string() {
                return Ok(message);
            }
        }
    }

    async fn receive(&mut self) -> Result<Value> {
        loop {
            let message = timeout(PATIENCE, self.socket.next())
                .await
                .context("browser does not answer")?;
            match message.context("browser closed the connection")?? {
                Message::Text(text) => return Ok(serde_json::from_str(&text)?),
                Message::Close(_) => bail!("browser closed the connection"),
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
    }
}

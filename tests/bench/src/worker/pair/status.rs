//! Questions to the agent, from the client's namespace.
use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{interval, timeout},
};

use super::{CONTROL, PairError};

/// Time limit for opening a session: over the slowest link it takes two round trips of 3 s.
pub(super) const OPEN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Maximum length of `/status.json`, which has about 2 kB.
const MAX_STATUS: u64 = 1024 * 1024;

/// Waits until the agent has its session. Call it on the thread of the client's namespace.
///
/// # Errors
/// There is no session within the time limit.
pub(in crate::worker) async fn session_open() -> Result<(), PairError> {
    let (mut last, mut looks) = (String::new(), interval(LOOK));
    let opened = timeout(OPEN, async {
        loop {
            looks.tick().await;
            if let Some(status) = status().await {
                if status["session"].is_object() {
                    return;
                }
                last = format!("{} {}", status["state"], status["reason"]);
            }
        }
    });
    match opened.await {
        Ok(()) => Ok(()),
        Err(_) => Err(PairError::NoSession(last)),
    }
}

/// Checks that the agent knows its link from its memory of networks. Call it on the thread of the client's namespace.
///
/// # Errors
/// It does not.
pub(in crate::worker) async fn link_is_remembered() -> Result<(), PairError> {
    let link = status().await.map(|status| status["link"].clone());
    match link.as_ref().and_then(|link| link.as_str()) {
        Some("remembered") => Ok(()),
        other => Err(PairError::NotRemembered(
            other.unwrap_or("not reported").to_owned(),
        )),
    }
}

/// Returns the agent's `/status.json`. Call it on the thread of the client's namespace.
pub(in crate::worker) async fn status() -> Option<serde_json::Value> {
    let mut stream = TcpStream::connect(CONTROL).await.ok()?;
    let request = format!("GET /status.json HTTP/1.0\r\nHost: {CONTROL}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(MAX_STATUS).read_to_string(&mut answer).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    serde_json::from_str(body).ok()
}

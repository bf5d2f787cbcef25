//! Questions to agent and gateway, each from its own namespace.
use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{interval, timeout},
};

use super::{CONTROL, METRICS, PairError};

/// Time limit for opening a session: over the slowest link it takes two round trips of 3 s.
pub(super) const OPEN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Maximum length of an answer: a journal has at most 4000 requests of half a kilobyte each.
const MAX_ANSWER: u64 = 8 * 1024 * 1024;
/// Beginning of the lines with the gateway's refusals, before the reason.
const REFUSED: &str = "longhaul_learned_refused_total{reason=\"";

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
pub(in crate::worker) async fn status() -> Option<Value> {
    let answer = ask(CONTROL, "/status.json", "").await?;
    serde_json::from_str(&answer).ok()
}

/// Returns the requests in the agent's journal, oldest first; `token` is that of its control port. Call it on the thread
/// of the client's namespace.
pub(in crate::worker) async fn journal(token: &str) -> Option<Vec<Value>> {
    let field = format!("Authorization: Bearer {}\r\n", token.trim());
    let answer = ask(CONTROL, "/journal.json", &field).await?;
    serde_json::from_str(&answer).ok()
}

/// Returns the number of requests that visits do not teach, by the gateway's reason. Call it on the thread of the
/// gateway's namespace.
pub(in crate::worker) async fn refused_lessons() -> BTreeMap<String, u64> {
    let answer = ask(METRICS, "/metrics", "").await.unwrap_or_default();
    refusals(&answer)
}

fn refusals(metrics: &str) -> BTreeMap<String, u64> {
    let counted = metrics.lines().filter_map(|line| {
        let (reason, count) = line.strip_prefix(REFUSED)?.split_once("\"} ")?;
        Some((reason.to_owned(), count.trim().parse().ok()?))
    });
    counted.collect()
}

/// Returns the body of the answer to a GET request with the additional `fields`.
async fn ask(address: SocketAddr, path: &str, fields: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n{fields}\r\n");
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.take(MAX_ANSWER).read_to_string(&mut answer).await.ok()?;
    let (_, body) = answer.split_once("\r\n\r\n")?;
    Some(body.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_read_by_reason() {
        let metrics = "# TYPE longhaul_learned_refused counter\n\
                       longhaul_learned_refused_total{reason=\"url\"} 3\n\
                       longhaul_learned_refused_total{reason=\"one-device\"} 0\n\
                       longhaul_sessions 2\n# EOF\n";
        let expected = [("one-device".to_owned(), 0), ("url".to_owned(), 3)];
        assert_eq!(refusals(metrics), BTreeMap::from(expected));
    }
}

//! The command `status`: queries the agent that runs on this machine.
use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use longhaul_types::{BitRate, ByteCount};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    dashboard::{FORGET, Status},
    forget::Site,
    state_dir::StateDir,
};

/// Timeout of the status, which the agent answers from memory.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Timeout of a deletion: deleting from a large file, and a round trip to the gateway.
const FORGET_TIME: Duration = Duration::from_secs(120);
/// Maximum size of a response; a status has less than 4 KiB.
const MAX_STATUS: usize = 64 * 1024;

/// Errors of querying an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// No agent has published its addresses.
    #[error(
        "no agent runs with the state directory {0}: start it with `longhaul-agent run`, or give --control ADDR:PORT"
    )]
    NotRunning(String),
    /// Another program answers, or none does.
    #[error("no agent answers on {address}: {detail}")]
    NoAnswer {
        /// The control address.
        address: SocketAddr,
        /// Description of the error.
        detail: String,
    },
}

/// Returns the control address of the agent that uses `state_dir`.
///
/// # Errors
/// No agent runs.
pub fn control_address(state_dir: &StateDir) -> Result<SocketAddr, StatusError> {
    let published = state_dir.published();
    published
        .map(|agent| agent.control)
        .ok_or_else(|| StatusError::NotRunning(state_dir.path().display().to_string()))
}

/// Requests the status as JSON text, with the control port's token, which users other than the agent's need.
///
/// # Errors
/// No agent answers at `address`.
pub async fn fetch_status(address: SocketAddr, token: Option<&str>) -> Result<String, StatusError> {
    let answer = timeout(ANSWER_TIME, fetch(address, token, Method::GET, "/status.json")).await;
    answer
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
        .map_err(|detail| StatusError::NoAnswer { address, detail })
}

/// Requests the deletion of a site's data, or of all data, at agent and gateway; returns the agent's answer.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn forget(
    address: SocketAddr,
    token: Option<&str>,
    site: Option<&Site>,
) -> Result<String, StatusError> {
    let path = match site {
        Some(site) => format!("{FORGET}?site={}", site.domain()),
        None => FORGET.to_owned(),
    };
    let answer = timeout(FORGET_TIME, fetch(address, token, Method::POST, &path)).await;
    answer
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
        .map_err(|detail| StatusError::NoAnswer { address, detail })
}

async fn fetch(
    address: SocketAddr,
    token: Option<&str>,
    method: Method,
    path: &str,
) -> Result<String, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    let driver = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, address.to_string())
        .header(header::ORIGIN, format!("http://{address}"));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender
        .send_request(request)
        .await
        .map_err(|error| error.to_string())?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_STATUS).collect().await;
    driver.abort();
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    let text = String::from_utf8(body.to_vec()).map_err(|_| "its answer is not text".to_owned())?;
    if !status.is_success() {
        let words: String = text
            .lines()
            .next()
            .unwrap_or_default()
            .chars()
            .take(300)
            .collect();
        return Err(format!("it answers with status {status}: {words}"));
    }
    Ok(text)
}

/// Returns the address of the status page; its buttons work only with the control port's token.
pub fn status_page(control: SocketAddr, token: Option<&str>) -> String {
    match token {
        Some(token) => format!("http://{control}/?token={token}"),
        None => format!("http://{control}/"),
    }
}

/// Formats a summary for a person, who may see the control port's token if there is one.
///
/// # Errors
/// The text is not a status of an agent.
pub fn summary(json: &str, token: Option<&str>) -> Result<String, serde_json::Error> {
    let status: Status = serde_json::from_str(json)?;
    let bytes = |amount: u64| ByteCount::new(amount).to_string();
    let mut out = format!("state     {}", status.state);
    if let Some(reason) = &status.reason {
        let _infallible = write!(out, " ({reason})");
    }
    if let Some(session) = &status.session {
        let rate = session
            .rate_bps
            .map_or_else(|| "unknown".to_owned(), |rate| BitRate::bps(rate).to_string());
        let _infallible = write!(out, "\nlink      RTT {:.0} ms, rate {rate}", session.rtt_ms);
    }
    let direct = if status.direct_in_use {
        ", now direct because the gateway does not answer"
    } else {
        ""
    };
    let _infallible = write!(
        out,
        "\nhop       {} down, {} up\nbrowser   {} of page data, {} requests, {} failed, {} direct{direct}\
         \npages     {}\ncache     {}\
         \nproxy     {}\nstatus    http://{}/\ngateway   {}\nversion   {}, running for {} s\n",
        bytes(status.bytes_down),
        bytes(status.bytes_up),
        bytes(status.body_bytes_decoded),
        status.requests,
        status.failures,
        status.direct_requests,
        pages(&status),
        cache(&status),
        status.proxy,
        status.control,
        status.gateway_key,
        status.version,
        status.uptime_s,
    );
    if token.is_some() {
        // The plain address stays in its own line, because scripts read it.
        let _infallible = writeln!(out, "buttons   {}", status_page(status.control, token));
    }
    Ok(out)
}

fn pages(status: &Status) -> String {
    if !status.push_enabled {
        return "bundles are off: each object is fetched when the browser requests it".to_owned();
    }
    let bytes = |amount: u64| ByteCount::new(amount).to_string();
    format!(
        "{} in bundles, {} pushed, {} of it used, {} unused",
        status.pages,
        bytes(status.pushed_bytes),
        bytes(status.push_taken_bytes),
        bytes(status.push_wasted_bytes)
    )
}

fn cache(status: &Status) -> String {
    if status.cache_quota == 0 {
        return "off".to_owned();
    }
    let (used, quota) = (
        ByteCount::new(status.cache_bytes),
        ByteCount::new(status.cache_quota),
    );
    format!(
        "{used} of {quota}, {} cache hits, {} unchanged at the gateway",
        status.cache_hits, status.held_hits
    )
}

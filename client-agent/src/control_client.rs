//! Requests of the commands to the control port of the agent that runs on this machine.
use std::{fmt::Write as _, net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use longhaul_types::{BitRate, ByteCount};
use tokio::{net::TcpStream, time::timeout};

use crate::{
    dashboard::{
        AUTHORITY, FORGET, HTTPS_FORGET, REMOVE_AUTHORITY, RULES, RULES_ORIGINALS, RULES_PAUSE, RULES_REMOVE,
        RULES_RESUME, RULES_SET, Status, USE_INVITE,
    },
    forget::Site,
    host_name::HostName,
    rules::RuleChange,
    state_dir::StateDir,
    state_lock::StateLock,
};

/// Timeout of the status, which the agent answers from memory.
const ANSWER_TIME: Duration = Duration::from_secs(5);
/// Timeout of a deletion: deleting from a large file, and a round trip to the gateway.
const FORGET_TIME: Duration = Duration::from_secs(120);
/// Timeout of a new invite: the agent waits 15 s for the session.
const INVITE_TIME: Duration = Duration::from_secs(30);
/// Maximum number of characters of a refusal that are shown.
const MAX_REFUSAL: usize = 500;
/// Maximum size of a response; a status has less than 4 KiB, the rules for 256 names of maximum length 300 KiB.
const MAX_STATUS: usize = 512 * 1024;

/// Errors of querying an agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusError {
    /// No agent has published its addresses.
    #[error(
        "no agent runs with the state directory {0}: start it with `longhaul-agent run`, or give --control ADDR:PORT"
    )]
    NotRunning(String),
    /// The agent that published its addresses has ended.
    #[error(
        "no agent runs with the state directory {directory}: process {pid}, which used it last, has ended without \
         stopping properly. Start it with `longhaul-agent run`"
    )]
    Ended {
        /// The state directory.
        directory: String,
        /// The process.
        pid: u32,
    },
    /// An agent runs but has not published its addresses yet.
    #[error("the agent of the state directory {0} is starting: try again, or give --control ADDR:PORT")]
    Starting(String),
    /// Another program answers, or none does.
    #[error(
        "no agent answers on {address} ({detail}): it hangs or has ended, or another program has this port; \
         `longhaul doctor` says which"
    )]
    NoAnswer {
        /// The control address.
        address: SocketAddr,
        /// Description of the error.
        detail: String,
    },
    /// The agent refuses the request.
    #[error("the agent refuses this (status {status}): {words}")]
    Refused {
        /// Status of its answer.
        status: StatusCode,
        /// The reason.
        words: String,
    },
}

/// Returns the control address of the agent that uses `state_dir`.
///
/// # Errors
/// No agent runs.
pub fn control_address(state_dir: &StateDir) -> Result<SocketAddr, StatusError> {
    let directory = state_dir.path().display().to_string();
    match (state_dir.published(), StateLock::is_held(state_dir)) {
        // The file of an agent that was killed stays.
        (Some(agent), Some(false)) => Err(StatusError::Ended {
            directory,
            pid: agent.pid,
        }),
        (Some(agent), Some(true) | None) => Ok(agent.control),
        (None, Some(true)) => Err(StatusError::Starting(directory)),
        (None, Some(false) | None) => Err(StatusError::NotRunning(directory)),
    }
}

/// True if the system says whether an agent runs with the state directory; else only its answer shows it.
pub fn is_certain(state_dir: &StateDir) -> bool {
    StateLock::is_held(state_dir).is_some()
}

/// Requests the status as JSON text, with the control port's token, which users other than the agent's need.
///
/// # Errors
/// No agent answers at `address`.
pub async fn fetch_status(address: SocketAddr, token: Option<&str>) -> Result<String, StatusError> {
    get(address, token, "/status.json").await.and_then(accepted)
}

/// Requests the certificate of the running agent's authority; `None` if the agent uses none.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn authority(address: SocketAddr, token: Option<&str>) -> Result<Option<String>, StatusError> {
    let answer = get(address, token, AUTHORITY).await?;
    if answer.0 == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    accepted(answer).map(Some)
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
    order(address, token, &path, FORGET_TIME).await
}

/// Lets the agent use the invite of its state directory; returns the agent's answer.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn use_invite(address: SocketAddr, token: Option<&str>) -> Result<String, StatusError> {
    order(address, token, USE_INVITE, INVITE_TIME).await
}

/// Lets the agent remove its certificate authority; returns the agent's answer.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn remove_authority(address: SocketAddr, token: Option<&str>) -> Result<String, StatusError> {
    order(address, token, REMOVE_AUTHORITY, ANSWER_TIME).await
}

/// Lets the agent forget the bypasses of a host, or all; returns the agent's answer.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn forget_bypasses(
    address: SocketAddr,
    token: Option<&str>,
    host: Option<&HostName>,
) -> Result<String, StatusError> {
    let path = match host {
        Some(host) => format!("{HTTPS_FORGET}?host={host}"),
        None => HTTPS_FORGET.to_owned(),
    };
    order(address, token, &path, ANSWER_TIME).await
}

/// Requests the user's rules for sites as JSON text.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn rules(address: SocketAddr, token: Option<&str>) -> Result<String, StatusError> {
    get(address, token, RULES).await.and_then(accepted)
}

/// Lets the agent change the user's rules for sites; returns the agent's answer.
///
/// # Errors
/// No agent answers at `address`, or it refuses.
pub async fn change_rules(
    address: SocketAddr,
    token: Option<&str>,
    change: &RuleChange,
) -> Result<String, StatusError> {
    // Names need no encoding in a query.
    let named = |path: &str, name: &Option<HostName>| match name {
        Some(name) => format!("{path}?name={name}"),
        None => path.to_owned(),
    };
    let path = match change {
        RuleChange::Https(name, rule) => {
            let rule = rule.map_or("default", |rule| rule.name());
            format!("{RULES_SET}?name={name}&https={rule}")
        }
        RuleChange::Images(name, level) => {
            let level = level.map_or("default", |level| level.name());
            format!("{RULES_SET}?name={name}&images={level}")
        }
        RuleChange::Originals(name) => format!("{RULES_ORIGINALS}?name={name}"),
        RuleChange::Pause(name) => named(RULES_PAUSE, name),
        RuleChange::Resume(name) => named(RULES_RESUME, name),
        RuleChange::Remove(name) => format!("{RULES_REMOVE}?name={name}"),
        RuleChange::RemoveAll => format!("{RULES_REMOVE}?all=yes"),
    };
    order(address, token, &path, ANSWER_TIME).await
}

type Answer = (StatusCode, String);

async fn get(address: SocketAddr, token: Option<&str>, path: &str) -> Result<Answer, StatusError> {
    within(ANSWER_TIME, address, fetch(address, token, Method::GET, path)).await
}

async fn order(
    address: SocketAddr,
    token: Option<&str>,
    path: &str,
    limit: Duration,
) -> Result<String, StatusError> {
    let answer = within(limit, address, fetch(address, token, Method::POST, path)).await;
    answer.and_then(accepted)
}

async fn within(
    limit: Duration,
    address: SocketAddr,
    answer: impl Future<Output = Result<Answer, String>>,
) -> Result<Answer, StatusError> {
    let answer = timeout(limit, answer).await;
    answer
        .unwrap_or_else(|_| Err("no answer in time".to_owned()))
        .map_err(|detail| StatusError::NoAnswer { address, detail })
}

/// Converts a refusal to an error.
fn accepted((status, text): Answer) -> Result<String, StatusError> {
    if status.is_success() {
        return Ok(text);
    }
    let first = text.lines().next().unwrap_or_default();
    Err(StatusError::Refused {
        status,
        words: first.chars().take(MAX_REFUSAL).collect(),
    })
}

async fn fetch(
    address: SocketAddr,
    token: Option<&str>,
    method: Method,
    path: &str,
) -> Result<Answer, String> {
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
    Ok((status, text))
}

/// Returns the address of the dashboard; its buttons work only with the control port's token.
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
    if let Some(notice) = &status.notice {
        let _infallible = write!(out, "\nnotice    {notice}");
    }
    if let Some(session) = &status.session {
        let rate = session.rate_bps.map_or_else(
            || "not measured".to_owned(),
            |rate| BitRate::bps(rate).to_string(),
        );
        let rtt = session
            .rtt_ms
            .map_or_else(|| "not measured".to_owned(), |rtt| format!("{rtt:.0} ms"));
        let _infallible = write!(out, "\nlink      RTT {rtt}, rate {rate} ({})", status.link);
    }
    for compared in status.hold_out.iter().filter(|compared| compared.comparisons > 0) {
        let _infallible = write!(out, "\ncompared  {}", compared.text());
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

//! Workers: each job runs in a separate process, network and file system.
use std::{io, process::Stdio, time::Duration};

use longhaul_world::sandbox::Sandbox;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::job::{Job, Reply};

/// Maximum length of a worker's reply: a row with the details of 3,000 objects has about 1 MB.
const MAX_REPLY: u64 = 64 * 1024 * 1024;
/// Maximum bytes of the end of a worker's log in an error message.
const MAX_LOG: usize = 4 * 1024;
/// Maximum time of a worker in addition to its load's own limit: for building its world, starting the
/// programs and an earlier load.
const GRACE: Duration = Duration::from_secs(4 * 3600);

/// Errors of a job without a reply.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A required path contains a separator.
    #[error("paths with a colon are not supported here: {0}")]
    Path(#[from] std::env::JoinPathsError),
    /// The worker cannot be started, or communication with it failed.
    #[error("cannot run a worker: {0}")]
    Start(#[from] io::Error),
    /// It ended without a reply.
    #[error("the worker ended without a reply; the end of its log is: {0}")]
    Ended(String),
    /// Its reply is invalid.
    #[error("the worker's reply is invalid: {0}")]
    Answer(#[from] serde_json::Error),
    /// It exceeded its time limit.
    #[error("the worker exceeded its time limit")]
    Stuck,
}

/// Runs a job in a new worker and returns the reply. Dropping the future kills the worker and all of its
/// processes.
///
/// # Errors
/// There is no reply.
pub async fn run(sandbox: &Sandbox, job: &Job) -> Result<Reply, WorkerError> {
    let program = std::env::current_exe()?;
    let mut command = Command::from(sandbox.command(program, ["worker"])?);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    timeout(GRACE, converse(&mut child, job))
        .await
        .map_err(|_| WorkerError::Stuck)?
}

/// Sends the job and waits for the reply. The worker's standard input stays open meanwhile, because its end
/// means to a worker that this process has ended.
async fn converse(child: &mut Child, job: &Job) -> Result<Reply, WorkerError> {
    let (Some(mut input), Some(output), Some(errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("no pipes").into());
    };
    let log = tokio::spawn(tail(errors));
    let mut line = serde_json::to_string(job)?;
    line.push('\n');
    // A worker that fails at its start has closed its input; its log contains the reason.
    let sent = input.write_all(line.as_bytes()).await;
    let mut answer = String::new();
    BufReader::new(output.take(MAX_REPLY))
        .read_line(&mut answer)
        .await?;
    drop(input);
    child.wait().await?;
    if answer.trim().is_empty() {
        let log = log.await.unwrap_or_default();
        let log_end = if log.trim().is_empty() {
            "empty".to_owned()
        } else {
            log.trim().to_owned()
        };
        sent.map_err(|_| WorkerError::Ended(log_end.clone()))?;
        return Err(WorkerError::Ended(log_end));
    }
    Ok(serde_json::from_str(&answer)?)
}

/// Reads a worker's log to its end and returns the last part.
async fn tail(mut errors: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(read @ 1..) = errors.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..read]);
        let excess = kept.len().saturating_sub(MAX_LOG);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

//! A program as a child process: start, wait for readiness, and reliable stop.
use std::{
    collections::VecDeque,
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

/// Number of stored log lines, for error messages.
const KEPT_LINES: usize = 12;
/// Starting takes milliseconds, and longer on a machine that swaps.
const READY: Duration = Duration::from_secs(30);
/// Time to read the log after the end of its program.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running program. Dropping it kills the program: its keys and state are temporary, so nothing is lost.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: Log,
    /// Task that reads the log until the program closes its stderr.
    reader: Option<JoinHandle<()>>,
}

type Log = Arc<Mutex<VecDeque<String>>>;

/// Errors of running a program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The system cannot start the program.
    #[error("cannot start {name}: {source}")]
    Spawn {
        /// Name of the program.
        name: &'static str,
        /// Cause reported by the system.
        source: std::io::Error,
    },
    /// The program ended.
    #[error("{name} ended with {status}{log}")]
    Ended {
        /// Name of the program.
        name: &'static str,
        /// Exit status.
        status: String,
        /// Last lines of the log.
        log: String,
    },
    /// The program does not report readiness.
    #[error("{name} was not ready within {} s{log}", READY.as_secs())]
    Silent {
        /// Name of the program.
        name: &'static str,
        /// Last lines of the log.
        log: String,
    },
}

impl Service {
    /// Starts `command` with `variables` and waits for its line `ready ADDR`.
    pub(super) async fn start(
        name: &'static str,
        mut command: Command,
        variables: &[(&str, &str)],
    ) -> Result<(Self, SocketAddr), ServiceError> {
        isolate(&mut command);
        command.envs(variables.iter().copied()).stdout(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|source| ServiceError::Spawn { name, source })?;
        let log = Log::default();
        let stderr = child.stderr.take();
        let reader = stderr.map(|stderr| tokio::spawn(keep_lines(name, stderr, Arc::clone(&log))));
        let stdout = child.stdout.take();
        let mut service = Self {
            name,
            child,
            log,
            reader,
        };
        let ready = async {
            let mut lines = BufReader::new(stdout?).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line
                    .strip_prefix("ready ")
                    .and_then(|address| address.trim().parse().ok())
                {
                    // Further output must not fill the pipe.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Some(address);
                }
            }
            None
        };
        match timeout(READY, ready).await {
            Ok(Some(address)) => Ok((service, address)),
            Ok(None) => Err(service.ended().await),
            Err(_) => Err(ServiceError::Silent {
                name,
                log: service.log_end(),
            }),
        }
    }

    /// Waits, with a time limit, until the program ends.
    pub(super) async fn ended(&mut self) -> ServiceError {
        // A program that closed its output without ending is useless, too.
        let status = timeout(READY, self.child.wait()).await;
        let status = match status {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its output closed".to_owned(),
        };
        self.error(status).await
    }

    /// Waits without time limit until the program ends.
    pub(super) async fn watch(&mut self) -> ServiceError {
        let status = self.child.wait().await;
        let status = status.map_or_else(|error| error.to_string(), describe);
        self.error(status).await
    }

    async fn error(&mut self, status: String) -> ServiceError {
        if let Some(reader) = self.reader.take() {
            // The last log lines explain the end. A child process of the program may keep stderr open
            // forever.
            let _ = timeout(LAST_WORDS, reader).await;
        }
        ServiceError::Ended {
            name: self.name,
            status,
            log: self.log_end(),
        }
    }

    /// Returns the last lines of the log, each on a new line.
    fn log_end(&self) -> String {
        self.log.lock().iter().map(|line| format!("\n  {line}")).collect()
    }
}

/// Runs a program to its end and returns its output.
pub(super) async fn output(name: &'static str, mut command: Command) -> Result<String, ServiceError> {
    isolate(&mut command);
    let run = timeout(READY, command.output())
        .await
        .map_err(|_| ServiceError::Silent {
            name,
            log: String::new(),
        })?;
    let output = run.map_err(|source| ServiceError::Spawn { name, source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr.lines().rev().take(KEPT_LINES).collect();
    Err(ServiceError::Ended {
        name,
        status: describe(output.status),
        log: lines.iter().rev().map(|line| format!("\n  {line}")).collect(),
    })
}

/// Removes variables and files from a command that would let the user's own installation affect the
/// demonstration.
fn isolate(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| name.starts_with("LONGHAUL_") && name != "LONGHAUL_LOG")
        {
            command.env_remove(name);
        }
    }
    command
        .env("LONGHAUL_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
}

async fn keep_lines(name: &'static str, stderr: impl AsyncRead + Unpin, log: Log) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::debug!(program = name, "{line}");
        let mut log = log.lock();
        if log.len() == KEPT_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn ready_is_waited_for_among_other_lines() {
        let script = "echo hello; echo $WORD >&2; echo ready 127.0.0.1:4; exec sleep 600";
        let (mut service, address) = Service::start("sh", shell(script), &[("WORD", "log")])
            .await
            .unwrap();
        assert_eq!(address.port(), 4);
        let pid = service.child.id().unwrap();
        service.child.start_kill().unwrap();
        let error = service.watch().await.to_string();
        assert!(error.contains("sh ended with signal: 9"), "{error}");
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn an_early_end_is_explained_by_the_log() {
        let script = "echo 'address already in use' >&2; exit 3";
        let Err(error) = Service::start("sh", shell(script), &[]).await else {
            panic!("it is not ready");
        };
        let error = error.to_string();
        assert!(error.contains("exit status: 3"), "{error}");
        let missing = Service::start("none", Command::new("/nonexistent/program"), &[]).await;
        assert!(matches!(missing, Err(ServiceError::Spawn { .. })));
        assert!(matches!(
            output("sh", shell("exit 1")).await,
            Err(ServiceError::Ended { .. })
        ));
        assert_eq!(output("sh", shell("echo line")).await.unwrap(), "line\n");
    }
}

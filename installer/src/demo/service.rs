//! A program of ours as a child process: started, waited for until it is ready, stopped without fail.
use std::{
    collections::VecDeque,
    net::SocketAddr,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    task::JoinHandle,
    time::timeout,
};

/// Log lines kept to explain an end.
const KEPT_LINES: usize = 12;
/// Starting takes milliseconds; a machine that swaps takes longer.
const READY: Duration = Duration::from_secs(30);
/// For a log to be read after its writer's end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running program. It is killed when this is dropped: its keys and state are thrown away, so nothing is lost.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: Log,
    /// Fills the log until the program closes its stderr.
    reader: Option<JoinHandle<()>>,
}

type Log = Arc<Mutex<VecDeque<String>>>;

/// A program that does not do what it is started for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The system refuses to start it.
    #[error("cannot start {name}: {source}")]
    Spawn {
        /// The program.
        name: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended.
    #[error("{name} ended with {status}{log}")]
    Ended {
        /// The program.
        name: &'static str,
        /// How it ended.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// It does not say that it is ready.
    #[error("{name} was not ready within {} s{log}", READY.as_secs())]
    Silent {
        /// The program.
        name: &'static str,
        /// The end of its log.
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
                    // Whatever else it prints must not fill the pipe.
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

    /// Waits until it ends.
    pub(super) async fn ended(&mut self) -> ServiceError {
        // A program that closed its output without ending is of no use either.
        let status = timeout(READY, self.child.wait()).await;
        let status = match status {
            Ok(Ok(status)) => describe(status),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its output closed".to_owned(),
        };
        self.error(status).await
    }

    /// Waits for as long as it takes until it ends.
    pub(super) async fn watch(&mut self) -> ServiceError {
        let status = self.child.wait().await;
        let status = status.map_or_else(|error| error.to_string(), describe);
        self.error(status).await
    }

    async fn error(&mut self, status: String) -> ServiceError {
        if let Some(reader) = self.reader.take() {
            // What it said last explains its end. A child of its own may hold stderr open for ever.
            let _ = timeout(LAST_WORDS, reader).await;
        }
        ServiceError::Ended {
            name: self.name,
            status,
            log: self.log_end(),
        }
    }

    /// The last lines of its log, each on a line of its own.
    fn log_end(&self) -> String {
        lock(&self.log).iter().map(|line| format!("\n  {line}")).collect()
    }
}

/// Runs a program to its end and returns what it printed.
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

/// Takes from a command what would let this user's own installation leak into the demonstration.
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
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
}

async fn keep_lines(name: &'static str, stderr: impl AsyncRead + Unpin, log: Log) {
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tracing::debug!(program = name, "{line}");
        let mut log = lock(&log);
        if log.len() == KEPT_LINES {
            log.pop_front();
        }
        log.push_back(line);
    }
}

fn describe(status: ExitStatus) -> String {
    status.to_string()
}

fn lock(log: &Log) -> MutexGuard<'_, VecDeque<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
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

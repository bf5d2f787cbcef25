//! A program that runs during a load: start, readiness and processor time.
use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::{interval, timeout},
};

/// Time limit for the start, which takes milliseconds, and longer with eight worlds on two cores.
const READY: Duration = Duration::from_secs(60);
/// Interval between checks of a program that does not report its readiness.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Number of log lines in an error message.
const LOG_LINES: usize = 6;

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// Errors of a program.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    /// It could not be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The program.
        name: &'static str,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// It ended, or is not ready within the time limit.
    #[error("{name} {what}{log}")]
    NotReady {
        /// The program.
        name: &'static str,
        /// Description of the event.
        what: String,
        /// The end of its log.
        log: String,
    },
}

impl Service {
    /// Starts a program whose log is written to `log`. Call it on the thread of its namespace.
    ///
    /// # Errors
    /// It cannot be started.
    pub(super) fn spawn(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
    ) -> Result<Self, ServiceError> {
        let start = |source| ServiceError::Start { name, source };
        let errors = fs::File::create(&log).map_err(start)?;
        let child = command
            .stdin(Stdio::null())
            .stderr(errors)
            .kill_on_drop(true)
            .spawn()
            .map_err(start)?;
        Ok(Self { name, child, log })
    }

    /// Starts one of Longhaul's programs and waits for its line `ready ADDR`.
    ///
    /// # Errors
    /// It cannot be started, ends, or is not ready in time.
    pub(super) async fn start_ready(
        name: &'static str,
        mut command: Command,
        log: PathBuf,
    ) -> Result<(Self, SocketAddr), ServiceError> {
        command.stdout(Stdio::piped());
        let mut service = Self::spawn(name, command, log)?;
        let output = service.child.stdout.take();
        let ready = async {
            let mut lines = BufReader::new(output?).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let address = line
                    .strip_prefix("ready ")
                    .and_then(|address| address.trim().parse().ok());
                if let Some(address) = address {
                    // Further output must not fill the pipe.
                    tokio::task::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Some(address);
                }
            }
            None
        };
        match timeout(READY, ready).await {
            Ok(Some(address)) => Ok((service, address)),
            Ok(None) => Err(service.not_ready("ended before it was ready")),
            Err(_) => Err(service.not_ready("is not ready within the time limit")),
        }
    }

    /// Waits until a TCP port accepts connections.
    ///
    /// # Errors
    /// The program ends, or the port is not open in time.
    pub(super) async fn wait_for_port(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        let mut looks = interval(CHECK_INTERVAL);
        let accepted = async {
            loop {
                looks.tick().await;
                if TcpStream::connect(address).await.is_ok() {
                    return true;
                }
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return false;
                }
            }
        };
        match timeout(READY, accepted).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(self.not_ready("ended before it was ready")),
            Err(_) => Err(self.not_ready("does not accept connections")),
        }
    }

    /// Returns the processor time of its threads so far.
    pub(super) fn cpu(&self) -> Duration {
        self.child.id().map_or(Duration::ZERO, cpu_of)
    }

    /// Returns the maximum memory since the last [`Self::forget_memory`], in bytes (proc(5), `VmHWM`).
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// Resets [`Self::peak_memory`] if the system allows it; otherwise it counts from the start.
    pub(super) fn forget_memory(&self) {
        if let Some(pid) = self.child.id() {
            let _refused = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    /// Ends the program as a user's Ctrl-C does, and waits for its end.
    ///
    /// # Errors
    /// It does not end.
    pub(super) async fn end(&mut self) -> Result<(), ServiceError> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        let sent = Command::new("kill")
            .args(["-INT", &pid.to_string()])
            .status()
            .await;
        let ended = timeout(READY, self.child.wait()).await;
        match (sent, ended) {
            (Ok(_), Ok(Ok(_))) => Ok(()),
            _ => Err(self.not_ready("does not end within the time limit")),
        }
    }

    /// Returns an error with this description and the end of the log.
    pub(super) fn not_ready(&self, what: &str) -> ServiceError {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LOG_LINES));
        ServiceError::NotReady {
            name: self.name,
            what: what.to_owned(),
            log: last.map(|line| format!("; {}", line.trim())).collect(),
        }
    }
}

/// Returns the processor time of all threads of a process, in nanoseconds' resolution (proc(5), `schedstat`).
fn cpu_of(pid: u32) -> Duration {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Duration::ZERO;
    };
    let used = threads.flatten().filter_map(|thread| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(used.sum())
}

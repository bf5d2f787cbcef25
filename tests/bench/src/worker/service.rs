//! A program that runs beside a load: started, waited for, its processor time read.
use std::{fs, net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::{interval, timeout},
};

/// Starting takes milliseconds; with eight worlds on two cores it takes longer.
const READY: Duration = Duration::from_secs(60);
/// Between two looks at a program that does not say when it is ready.
const LOOK: Duration = Duration::from_millis(50);
/// The end of a log that is shown.
const LOG_LINES: usize = 6;

/// A running program; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Service {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

/// A program that does not do what it is started for.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServiceError {
    /// The system refuses.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The program.
        name: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// It ended, or is not ready in time.
    #[error("{name} {what}{log}")]
    NotReady {
        /// The program.
        name: &'static str,
        /// What it did instead.
        what: String,
        /// The end of its log.
        log: String,
    },
}

impl Service {
    /// Starts a program whose log goes to `log`. Call it on the thread of the namespace that it is to live in.
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
                    // Whatever else it prints must not fill the pipe.
                    tokio::task::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Some(address);
                }
            }
            None
        };
        match timeout(READY, ready).await {
            Ok(Some(address)) => Ok((service, address)),
            Ok(None) => Err(service.not_ready("ended before it was ready")),
            Err(_) => Err(service.not_ready("is not ready in time")),
        }
    }

    /// Waits until a TCP port accepts connections.
    ///
    /// # Errors
    /// The program ends, or nothing listens in time.
    pub(super) async fn wait_for_port(&mut self, address: SocketAddr) -> Result<(), ServiceError> {
        let mut looks = interval(LOOK);
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

    /// Processor time that its threads have used so far.
    pub(super) fn cpu(&self) -> Duration {
        self.child.id().map_or(Duration::ZERO, cpu_of)
    }

    /// Most memory that it has held since the last [`Self::forget_memory`], bytes (proc(5), `VmHWM`).
    pub(super) fn peak_memory(&self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()?)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    }

    /// From now on [`Self::peak_memory`] counts anew, where the system allows it; else it counts from the start.
    pub(super) fn forget_memory(&self) {
        if let Some(pid) = self.child.id() {
            let _refused = fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    /// Asks it to end as a user's Ctrl-C does, and waits for that.
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
            _ => Err(self.not_ready("does not end")),
        }
    }

    /// The error that says what it did, with the end of its log.
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

/// Processor time of all threads of a process, in nanoseconds' resolution (proc(5), `schedstat`).
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

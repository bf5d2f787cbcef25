//! A separate Chromium: its program, profile and processes.
use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use nix::{
    sys::{
        signal::{Signal, killpg},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::Pid,
};
use serde_json::json;
use tempfile::TempDir;
use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr, Command},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    devtools::{DevTools, DevToolsError},
    flags::{BrowserOptions, Viewport},
    motion::Motion,
    usage::{self, Usage},
};

/// Program names: Debian's first, then others.
const NAMES: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// Maximum time until the browser listens: it takes 1 s on an idle machine, and many may start at once.
const START: Duration = Duration::from_secs(60);
/// Maximum time for the browser to end by itself and write its files.
const END: Duration = Duration::from_secs(20);
/// Number of lines of its log in error messages.
const MAX_LINES: usize = 20;
/// Maximum length of a line; Chromium logs each message on one line.
const MAX_LINE: usize = 400;

/// Errors of starting a browser.
#[derive(Debug, Error)]
pub enum ChromiumError {
    /// There is no Chromium in the `PATH`.
    #[error("Chromium is not installed: run `apt-get install chromium`, or `make tools` in the source tree")]
    NotInstalled,
    /// The folder of its profile cannot be created.
    #[error("cannot make a folder for Chromium's profile: {0}; is the disk full?")]
    Profile(io::Error),
    /// The program cannot be run.
    #[error("cannot run {}: {error}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
    /// It ended, or printed no address, before it listened.
    #[error("Chromium did not start ({reason}); the last lines of its log are:\n{log}")]
    NotStarted {
        /// Description of the event.
        reason: String,
        /// The end of its log.
        log: String,
    },
    /// It listens but cannot be controlled.
    #[error(transparent)]
    DevTools(#[from] DevToolsError),
}

/// The last lines of the browser's log.
#[derive(Clone, Debug, Default)]
struct Log(Arc<Mutex<VecDeque<String>>>);

impl Log {
    fn note(&self, line: &str) {
        let mut lines = self.0.lock();
        if lines.len() == MAX_LINES {
            lines.pop_front();
        }
        lines.push_back(line.chars().take(MAX_LINE).collect());
    }

    fn text(&self) -> String {
        let mut lines = self.0.lock();
        lines.make_contiguous().join("\n")
    }
}

/// A running browser with its own profile. Dropping it ends all its processes and removes the profile.
#[derive(Debug)]
pub struct Browser {
    pub(crate) devtools: DevTools,
    pub(crate) viewport: Viewport,
    pub(crate) motion: Motion,
    processes: Processes,
    profile: TempDir,
    log: JoinHandle<()>,
}

impl Browser {
    /// Starts a browser in the calling thread's namespaces.
    ///
    /// # Errors
    /// See [`ChromiumError`].
    pub async fn start(options: &BrowserOptions) -> Result<Self, ChromiumError> {
        let program = installed().ok_or(ChromiumError::NotInstalled)?;
        let mut place = tempfile::Builder::new();
        place.prefix("longhaul-chromium-");
        let profile = match &options.folder {
            Some(folder) => place.tempdir_in(folder),
            None => place.tempdir(),
        };
        let profile = profile.map_err(ChromiumError::Profile)?;
        let mut child = command(&program, profile.path(), options)
            .spawn()
            .map_err(|error| ChromiumError::NotRun {
                program: program.clone(),
                error,
            })?;
        let stderr = child.stderr.take();
        let processes = Processes { child };
        let mut lines = stderr
            .map(|stderr| BufReader::new(stderr).lines())
            .ok_or_else(|| ChromiumError::NotRun {
                program,
                error: io::Error::other("its log is not piped"),
            })?;
        let log = Log::default();
        let url = timeout(START, listening(&mut lines, &log)).await;
        let url = url.unwrap_or_else(|_| Err(format!("not ready after {} s", START.as_secs())));
        let url = url.map_err(|reason| ChromiumError::NotStarted {
            reason,
            log: log.text(),
        })?;
        let kept = log.clone();
        // Chromium blocks when the pipe is full.
        let reader = tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::trace!("chromium: {line}");
                kept.note(&line);
            }
        });
        Ok(Self {
            devtools: DevTools::connect(&url).await?,
            viewport: options.viewport,
            motion: options.motion,
            processes,
            profile,
            log: reader,
        })
    }

    /// Returns its name and version, such as `Chrome/156.0.8078.79`.
    ///
    /// # Errors
    /// The browser has ended.
    pub async fn version(&mut self) -> Result<String, ChromiumError> {
        let answer = self.devtools.call(None, "Browser.getVersion", json!({})).await?;
        Ok(answer["product"].as_str().unwrap_or("unknown").to_owned())
    }

    /// The folder of its profile.
    pub fn profile(&self) -> &Path {
        self.profile.path()
    }

    /// Returns the process group for the accounting of CPU time; its id is that of the browser's process.
    pub fn process_group(&self) -> Option<u32> {
        self.processes.child.id()
    }

    /// What the browser's processes have used so far.
    pub fn usage(&self) -> Usage {
        self.process_group().map(usage::of_group).unwrap_or_default()
    }

    /// Requests the browser to end, so that it writes its files (`--log-net-log`), and ends it in any case.
    pub async fn close(mut self) {
        let asked = self.devtools.submit(None, "Browser.close", json!({})).await;
        if asked.is_ok() {
            let _ended_or_killed = timeout(END, self.processes.child.wait()).await;
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.log.abort();
        // Before the profile is removed: a running process would write into it again.
        self.processes.kill();
    }
}

/// The browser's process, which leads the process group of all its processes.
#[derive(Debug)]
struct Processes {
    child: Child,
}

impl Processes {
    fn kill(&self) {
        // `None`: it has been reaped, so its id may have been reused. Its children ended with their
        // connection to it.
        let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) else {
            return;
        };
        let leader = Pid::from_raw(id);
        if let Err(error) = killpg(leader, Signal::SIGKILL) {
            tracing::debug!("Chromium's processes cannot be killed: {error}");
            return;
        }
        // Not reaped here, because tokio does so; it ends at once because it is killed.
        let _ended = waitid(Id::Pid(leader), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.kill();
    }
}

fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let candidates = NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    candidates.into_iter().find(|program| program.is_file())
}

fn command(program: &Path, profile: &Path, options: &BrowserOptions) -> Command {
    let mut command = Command::new(program);
    command
        .args(options.arguments())
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("about:blank")
        // Excludes the user's own settings, certificates and font caches.
        .env("HOME", profile)
        .env("XDG_CONFIG_HOME", profile.join("config"))
        .env("XDG_CACHE_HOME", profile.join("cache"))
        .env_remove("DBUS_SESSION_BUS_ADDRESS")
        .env_remove("DISPLAY")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
    if let Some(folder) = &options.folder {
        command.env("TMPDIR", folder);
    }
    command
}

/// Reads the log until it contains the address of the DevTools.
async fn listening(lines: &mut Lines<BufReader<ChildStderr>>, log: &Log) -> Result<String, String> {
    loop {
        match lines.next_line().await {
            Ok(Some(line)) => {
                if let Some(url) = line.strip_prefix("DevTools listening on ") {
                    return Ok(url.trim().to_owned());
                }
                log.note(&line);
            }
            Ok(None) => return Err("it ended".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

//! Longhaul's own programs, started as a user would and stopped for certain.
use std::{
    ffi::OsStr,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, BufReader},
    process::{Child, Command},
    sync::watch,
    time::{interval, timeout},
};

/// How long a program may take to say that it is ready. The machine may be busy building.
const START: Duration = Duration::from_secs(60);
/// Log text kept of one program.
const MAX_LOG: usize = 4 << 20;

/// Where the programs of this build lie: `LONGHAUL_BIN_DIR`, else the folder above the running test's.
///
/// # Errors
/// The running program's own path is unknown.
pub fn program(name: &str) -> Result<PathBuf> {
    let folder = match std::env::var_os("LONGHAUL_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = std::env::current_exe().context("own path")?;
            let deps = own.parent().context("a program lies in a folder")?;
            deps.parent().context("test programs lie in deps/")?.to_path_buf()
        }
    };
    let path = folder.join(name);
    if !path.exists() {
        bail!(
            "{} does not exist: run `cargo build --workspace --bins` first",
            path.display()
        );
    }
    Ok(path)
}

/// A program's command without the settings of the tester's own environment and configuration files.
///
/// # Errors
/// The program is not built.
pub fn command(name: &str) -> Result<Command> {
    let mut command = Command::new(program(name)?);
    for (variable, _) in std::env::vars_os() {
        let text = variable.to_string_lossy();
        if text.starts_with("LONGHAUL_") && text != "LONGHAUL_BIN_DIR" {
            command.env_remove(variable);
        }
    }
    // Without this variable the programs read the configuration files of the machine and of its user.
    command.env("LONGHAUL_CONFIG", "/dev/null");
    command.stdin(Stdio::null()).kill_on_drop(true);
    Ok(command)
}

/// Output of a program on standard error so far.
#[derive(Clone, Debug)]
pub struct Log {
    text: Arc<Mutex<String>>,
    lines: watch::Receiver<usize>,
}

impl Log {
    fn follow(source: impl AsyncRead + Send + Unpin + 'static) -> Self {
        let text = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = watch::channel(0);
        let kept = Arc::clone(&text);
        tokio::spawn(async move {
            let mut source = BufReader::new(source);
            let mut line = Vec::new();
            while source
                .read_until(b'\n', &mut line)
                .await
                .is_ok_and(|read| read > 0)
            {
                let mut text = kept.lock();
                if text.len() < MAX_LOG {
                    text.push_str(&String::from_utf8_lossy(&line));
                }
                drop(text);
                line.clear();
                sender.send_modify(|lines| *lines += 1);
            }
        });
        Self { text, lines }
    }

    /// All of it.
    pub fn text(&self) -> String {
        self.text.lock().clone()
    }

    /// Waits until it contains a text, and returns all of it.
    ///
    /// # Errors
    /// The program ends without it, or it does not come within `limit`.
    pub async fn contains(&self, wanted: &str, limit: Duration) -> Result<String> {
        timeout(limit, self.until(|text| text.contains(wanted)))
            .await
            .with_context(|| format!("no `{wanted}` in the log:\n{}", self.text()))?
            .with_context(|| format!("the log ended without `{wanted}`"))
    }

    /// Waits until it satisfies a condition, and returns all of it.
    ///
    /// # Errors
    /// The program ends before.
    pub async fn until(&self, reached: impl Fn(&str) -> bool) -> Result<String> {
        let mut lines = self.lines.clone();
        loop {
            lines.mark_unchanged();
            let text = self.text();
            if reached(&text) {
                return Ok(text);
            }
            if lines.changed().await.is_err() && !reached(&self.text()) {
                bail!("the log ended:\n{}", self.text());
            }
        }
    }

    /// Waits for its end, which is that of the program.
    async fn end(&self) {
        let mut lines = self.lines.clone();
        while lines.changed().await.is_ok() {}
    }
}

/// A program that has printed `ready ADDR`; killed when dropped. If a test fails, its log is shown.
#[derive(Debug)]
pub struct Running {
    name: String,
    child: Child,
    pid: u32,
    address: SocketAddr,
    log: Log,
}

impl Running {
    /// Starts a program and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started, ends, or does not become ready; its log is in the error.
    pub async fn start<A: AsRef<OsStr>>(name: &str, arguments: &[A]) -> Result<Self> {
        Self::start_with(name, arguments, &[]).await
    }

    /// The same with variables of the environment.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub async fn start_with<A: AsRef<OsStr>>(
        name: &str,
        arguments: &[A],
        variables: &[(&str, &OsStr)],
    ) -> Result<Self> {
        let mut command = command(name)?;
        command.args(arguments).envs(variables.iter().copied());
        Self::start_command(name, command).await
    }

    /// Starts a program as another user, which needs root, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub async fn start_as<A: AsRef<OsStr>>(user: u32, name: &str, arguments: &[A]) -> Result<Self> {
        let mut command = command(name)?;
        command.args(arguments).uid(user).gid(user);
        Self::start_command(name, command).await
    }

    /// Starts a program that sees `hosts` as `/etc/hosts`, which needs root, and waits until it is ready.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub async fn start_with_hosts<A: AsRef<OsStr>>(
        hosts: &Path,
        name: &str,
        arguments: &[A],
    ) -> Result<Self> {
        let mut command = with_hosts(hosts, name)?;
        command.args(arguments);
        command.stdin(Stdio::null()).kill_on_drop(true);
        Self::start_command(name, command).await
    }

    async fn start_command(name: &str, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {name}"))?;
        let log = Log::follow(child.stderr.take().context("stderr is piped")?);
        let stdout = child.stdout.take().context("stdout is piped")?;
        let mut lines = BufReader::new(stdout).lines();
        let line = timeout(START, lines.next_line()).await;
        let line = line.with_context(|| format!("{name} is not ready:\n{}", log.text()))??;
        let Some(line) = line else {
            log.end().await;
            bail!("{name} ended before it was ready:\n{}", log.text());
        };
        let address = line
            .strip_prefix("ready ")
            .with_context(|| format!("{name} printed `{line}`"))?;
        let address = address.parse().with_context(|| format!("address in `{line}`"))?;
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let pid = child.id().with_context(|| format!("{name} ended"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            pid,
            address,
            log,
        })
    }

    /// Where it accepts work.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its standard error so far.
    pub const fn log(&self) -> &Log {
        &self.log
    }

    /// Its process.
    pub const fn pid(&self) -> u32 {
        self.pid
    }

    /// Kills it at once, as `kill -9` does.
    ///
    /// # Errors
    /// The process cannot be killed.
    pub async fn kill(mut self) -> Result<()> {
        self.child.kill().await.context("kill")
    }

    /// Sends it a signal (`HUP`, `TERM`, ...).
    ///
    /// # Errors
    /// The signal cannot be sent.
    pub async fn signal(&self, signal: &str) -> Result<()> {
        let sent = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(self.pid().to_string())
            .status()
            .await?;
        ensure!(sent.success(), "kill -{signal}: {sent}");
        Ok(())
    }

    /// Stops it (SIGSTOP) and waits until each of its threads stands still: on a busy machine, one of them may answer a
    /// request after the signal was sent.
    ///
    /// # Errors
    /// The signal cannot be sent, or a thread goes on for longer than `limit`.
    pub async fn stop(&self, limit: Duration) -> Result<()> {
        self.signal("STOP").await?;
        let mut looks = interval(Duration::from_millis(5));
        let stopped = timeout(limit, async {
            while !stands_still(self.pid()) {
                looks.tick().await;
            }
        });
        stopped.await.context("a thread does not stop")
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// It does not end within `limit`.
    pub async fn ended(mut self, limit: Duration) -> Result<ExitStatus> {
        let ended = timeout(limit, self.child.wait()).await;
        Ok(ended.with_context(|| format!("{} does not end:\n{}", self.name, self.log.text()))??)
    }

    /// Asks it to end with a signal (`TERM`, `INT`) and waits for it.
    ///
    /// # Errors
    /// The signal cannot be sent, or the program does not end within `limit`.
    pub async fn end(mut self, signal: &str, limit: Duration) -> Result<ExitStatus> {
        self.signal(signal).await?;
        let ended = timeout(limit, self.child.wait()).await;
        Ok(ended.with_context(|| format!("{} does not end:\n{}", self.name, self.log.text()))??)
    }
}

impl Drop for Running {
    #[expect(
        clippy::print_stderr,
        reason = "the test harness shows it with the failed test"
    )]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- log of {} ---\n{}", self.name, self.log.text());
        }
    }
}

/// Output of a command that has ended.
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Runs a program to its end.
///
/// # Errors
/// It cannot be started, or takes longer than `limit`.
pub async fn run<A: AsRef<OsStr>>(name: &str, arguments: &[A], limit: Duration) -> Result<Finished> {
    run_with(name, arguments, &[], limit).await
}

/// A program that sees `hosts` as `/etc/hosts`, which needs root.
fn with_hosts(hosts: &Path, name: &str) -> Result<Command> {
    // The program replaces the shell, and so has the process number that is signalled.
    const IN_NAMESPACE: &str = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
    let usual = command(name)?;
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", IN_NAMESPACE])
        .arg(hosts)
        .arg(program(name)?);
    for (variable, value) in usual.as_std().get_envs() {
        match value {
            Some(value) => command.env(variable, value),
            None => command.env_remove(variable),
        };
    }
    Ok(command)
}

/// Runs a program that sees `hosts` as `/etc/hosts`, which needs root, to its end.
///
/// # Errors
/// As [`run`].
pub async fn run_with_hosts<A: AsRef<OsStr>>(
    hosts: &Path,
    name: &str,
    arguments: &[A],
    limit: Duration,
) -> Result<Finished> {
    let mut command = with_hosts(hosts, name)?;
    command.args(arguments);
    finished(name, command, limit).await
}

/// Runs a program with variables of the environment to its end.
///
/// # Errors
/// It cannot be started, or takes longer than `limit`.
pub async fn run_with<A: AsRef<OsStr>>(
    name: &str,
    arguments: &[A],
    variables: &[(&str, &str)],
    limit: Duration,
) -> Result<Finished> {
    let mut command = command(name)?;
    command.args(arguments).envs(variables.iter().copied());
    finished(name, command, limit).await
}

async fn finished(name: &str, mut command: Command, limit: Duration) -> Result<Finished> {
    let output = timeout(limit, command.output())
        .await
        .with_context(|| format!("{name} takes too long"))??;
    Ok(Finished {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// The recorded sites, if they are there: `LONGHAUL_CORPUS`, else `../shared/corpus` beside the workspace.
pub fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("LONGHAUL_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus"),
        PathBuf::from,
    );
    folder.is_dir().then_some(folder)
}

/// Returns true if each thread of the process is stopped: state T, behind the name in parentheses.
fn stands_still(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let states = threads
        .flatten()
        .map(|thread| fs::read_to_string(thread.path().join("stat")));
    states.flatten().all(|text| {
        text.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('T'))
    })
}

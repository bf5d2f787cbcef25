//! Agent and gateway as services: messages to the service manager, reload, log, exit status.
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{BufRead as _, BufReader},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{fs::MetadataExt as _, net::UnixStream},
    },
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::{
    client::{RawClient, get},
    origin::Origin,
    process::{Finished, Running, command, run, run_with},
};
use longhaul_types::BitRate;
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, UdpSocket, UnixDatagram},
    time::timeout,
};

use crate::{
    content::{noise, ok},
    pair::{COMMAND_LIMIT, LIMIT, Link, Pair, Setup, folder, invite},
};

const GATEWAY: &str = "longhaul-gateway";
const AGENT: &str = "longhaul-agent";
const PROGRAMS: [&str; 2] = [GATEWAY, AGENT];

/// A program that a test starts: its folder with the configuration file and the state.
struct Program {
    name: &'static str,
    folder: TempDir,
    line: String,
}

impl Program {
    async fn new(name: &'static str, config: &str) -> Result<Self> {
        let folder = folder()?;
        let line = invite(folder.path(), "test", "127.0.0.1:9").await?;
        let program = Self { name, folder, line };
        program.write(config)?;
        Ok(program)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, config: &str) -> Result<()> {
        Ok(std::fs::write(self.path("config.toml"), config)?)
    }

    /// Arguments of `run` with free ports.
    fn arguments(&self) -> Vec<OsString> {
        let state = self.path("state");
        let mut arguments: Vec<OsString> = vec!["run".into(), "--listen".into(), "127.0.0.1:0".into()];
        arguments.extend(["--config".into(), self.path("config.toml").into_os_string()]);
        arguments.extend(["--state-dir".into(), state.into_os_string()]);
        if self.name == AGENT {
            arguments.extend(["--control", "127.0.0.1:0", "--invite", &self.line].map(OsString::from));
        }
        arguments
    }

    async fn start(&self, variables: &[(&str, &OsStr)]) -> Result<Running> {
        Running::start_with(self.name, &self.arguments(), variables).await
    }

    /// Runs the program with arguments with which it cannot start.
    async fn fails(&self, arguments: &[OsString]) -> Result<Finished> {
        let variables = [("RUST_BACKTRACE", "1")];
        let finished = run_with(self.name, arguments, &variables, COMMAND_LIMIT).await?;
        ensure!(finished.stdout.is_empty(), "{}", finished.stdout);
        for word in ["Caused by", "backtrace"] {
            ensure!(!finished.stderr.contains(word), "{}", finished.stderr);
        }
        Ok(finished)
    }
}

/// The service manager's end of the notification socket.
struct Manager(UnixDatagram, PathBuf);

impl Manager {
    fn listen(folder: &Path) -> Result<Self> {
        let path = folder.join("notify");
        Ok(Self(UnixDatagram::bind(&path)?, path))
    }

    async fn message(&self) -> Result<String> {
        let mut bytes = [0; 4096];
        let length = timeout(LIMIT, self.0.recv(&mut bytes))
            .await
            .context("no message")??;
        Ok(String::from_utf8_lossy(&bytes[..length]).into_owned())
    }

    /// The next message other than the watchdog's.
    async fn state(&self) -> Result<String> {
        loop {
            let message = self.message().await?;
            if message.trim() != "WATCHDOG=1" {
                return Ok(message);
            }
        }
    }
}

#[tokio::test]
async fn the_service_manager_is_told_readiness_life_reload_and_the_end() -> Result<()> {
    for name in PROGRAMS {
        let program = Program::new(name, "").await?;
        let manager = Manager::listen(program.folder.path())?;
        let variables: [(&str, &OsStr); 2] = [
            ("NOTIFY_SOCKET", manager.1.as_os_str()),
            ("WATCHDOG_USEC", "200000".as_ref()),
        ];
        let running = program.start(&variables).await?;
        let ready = manager.message().await?;
        let address = running.address().to_string();
        assert!(ready.starts_with("READY=1\nSTATUS=serving "), "{name}: {ready}");
        assert!(ready.contains(&address), "{name}: {ready}");
        for _ in 0..3 {
            assert_eq!(manager.message().await?.trim(), "WATCHDOG=1", "{name}");
        }
        running.signal("HUP").await?;
        let reloading = manager.state().await?;
        assert!(
            reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="),
            "{name}: {reloading}"
        );
        let time = reloading
            .lines()
            .nth(1)
            .and_then(|line| line.strip_prefix("MONOTONIC_USEC="));
        time.context("a time")?.parse::<u64>()?;
        let ready = manager.state().await?;
        assert!(
            ready.starts_with("READY=1\nSTATUS=the configuration is reloaded"),
            "{name}: {ready}"
        );
        let status = running.end("TERM", LIMIT).await?;
        let stopping = manager.state().await?;
        assert!(stopping.starts_with("STOPPING=1"), "{name}: {stopping}");
        assert!(status.success(), "{name}: {status}");
    }
    Ok(())
}

#[tokio::test]
async fn a_reload_applies_what_it_can_and_names_the_rest() -> Result<()> {
    for name in PROGRAMS {
        let program = Program::new(name, "log = 'warn'\n").await?;
        let running = program.start(&[]).await?;
        program.write("log = 'info'\n[cache]\nsize = '64 MiB'\n")?;
        running.signal("HUP").await?;
        let log = running
            .log()
            .contains("the configuration is reloaded", LIMIT)
            .await?;
        assert!(
            log.contains("INFO the configuration is reloaded, changed: log\n"),
            "{name}: {log}"
        );
        assert!(
            log.contains("WARN `cache.size` changed: takes effect at the next start"),
            "{name}: {log}"
        );
        running.end("TERM", LIMIT).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_file_changes_nothing_and_all_its_mistakes_are_logged() -> Result<()> {
    for name in PROGRAMS {
        let program = Program::new(name, "").await?;
        let running = program.start(&[]).await?;
        program.write("log = 'debgu'\n[cache]\nsize = 5\nsise = '1 GiB'\n")?;
        running.signal("HUP").await?;
        let log = running
            .log()
            .contains("the previous configuration stays in force", LIMIT)
            .await?;
        for part in [
            "config.toml:1: log: `debgu` is no severity",
            "config.toml:3: cache.size: ",
            "config.toml:4: unknown key `cache.sise` (did you mean `cache.size`?)",
        ] {
            assert!(log.contains(part), "{name}: no `{part}` in {log}");
        }
        // The program still serves, and a corrected file is applied.
        program.write("log = 'error,longhaul_service=info'\n")?;
        running.signal("HUP").await?;
        running
            .log()
            .contains("the configuration is reloaded, changed: log", LIMIT)
            .await?;
        assert!(running.end("TERM", LIMIT).await?.success(), "{name}");
    }
    Ok(())
}

/// Standard error of a program, connected to the journal or to something else.
async fn first_lines(program: &Program, is_journal: bool) -> Result<Vec<String>> {
    let (theirs, ours) = UnixStream::pair()?;
    let found = File::from(theirs.as_fd().try_clone_to_owned()?).metadata()?;
    let inode = if is_journal { found.ino() } else { found.ino() + 1 };
    let mut child = command(program.name)?
        .args(program.arguments())
        .env("JOURNAL_STREAM", format!("{}:{inode}", found.dev()))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(OwnedFd::from(theirs)))
        .spawn()?;
    ours.set_read_timeout(Some(LIMIT))?;
    let lines = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(ours).lines().take(1);
        lines.collect::<Result<Vec<_>, _>>()
    });
    let lines = lines.await??;
    child.kill().await?;
    Ok(lines)
}

#[tokio::test]
async fn lines_for_the_journal_have_priorities_and_no_timestamps() -> Result<()> {
    for name in PROGRAMS {
        let program = Program::new(name, "").await?;
        let lines = first_lines(&program, true).await?;
        let first = lines.first().context("a line")?;
        assert!(
            first.starts_with("<6>") || first.starts_with("<4>"),
            "{name}: {first}"
        );
        assert!(!first.contains("INFO") && !first.contains('Z'), "{name}: {first}");
        let elsewhere = first_lines(&program, false).await?;
        let first = elsewhere.first().context("a line")?;
        assert!(first.starts_with("20") && first.contains("Z "), "{name}: {first}");
    }
    Ok(())
}

#[tokio::test]
async fn each_failure_to_start_is_one_line_with_a_documented_status() -> Result<()> {
    for name in PROGRAMS {
        let program = Program::new(name, "").await?;
        let (tcp, udp) = (
            TcpListener::bind("127.0.0.1:0").await?,
            UdpSocket::bind("127.0.0.1:0").await?,
        );
        let taken = if name == GATEWAY {
            udp.local_addr()?
        } else {
            tcp.local_addr()?
        };
        let file = program.path("a-file");
        std::fs::write(&file, "")?;
        let below_a_file = file.join("state").display().to_string();
        let cases: [(&[&str], i32, &str); 5] = [
            (&["--log", "inof"], 78, "flag --log: log: `inof` is no severity"),
            (&["--log-format", "xml"], 78, "--log-format: log-format: "),
            (
                &["--config", "/nonexistent/file.toml"],
                78,
                "/nonexistent/file.toml: cannot be read",
            ),
            (&["--listen", &taken.to_string()], 1, "another program"),
            (&["--state-dir", &below_a_file], 1, &below_a_file),
        ];
        for (more, code, part) in cases {
            // A flag that is given twice is a mistake of the command line.
            let mut arguments = program.arguments();
            for pair in more.chunks(2) {
                match arguments.iter().position(|argument| argument == pair[0]) {
                    Some(at) => arguments[at + 1] = pair[1].into(),
                    None => arguments.extend(pair.iter().map(OsString::from)),
                }
            }
            let finished = program.fails(&arguments).await?;
            let text = &finished.stderr;
            assert_eq!(finished.code, Some(code), "{name} {more:?}: {text}");
            assert!(text.contains(part), "{name} {more:?}: {text}");
            let errors = text.lines().filter(|line| line.starts_with(name)).count();
            assert_eq!(errors, 1, "{name} {more:?}: {text}");
        }
        let unknown = run(name, &["run", "--no-such-flag"], COMMAND_LIMIT).await?;
        assert_eq!(unknown.code, Some(2), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_download_arrives_whole_during_reloads_of_both_programs() -> Result<()> {
    const LENGTH: usize = 30 << 20;
    /// Bytes between two reloads.
    const STEP: usize = 5 << 20;
    let body = noise(LENGTH, 7);
    let served = body.clone();
    let origin = Origin::start(
        None,
        |_| {},
        move |_| {
            let served = served.clone();
            async move { ok("application/octet-stream", served) }
        },
    )
    .await?;
    let settings = folder()?;
    let agent_file = settings.path().join("agent.toml");
    let agent_config = |round: usize| {
        let log = ["info", "longhaul_agent=debug"][round % 2];
        format!(
            "log = '{log}'\n[fallback]\nafter = '{}s'\n[push]\npatience = '{}s'\n",
            60 + round,
            5 + round
        )
    };
    std::fs::write(&agent_file, agent_config(0))?;
    let base = Setup::resolving(&[("site.test", origin.address())]).gateway_config;
    let gateway_config = |round: usize| {
        let log = ["info", "info,longhaul_gateway=debug"][round % 2];
        let limits = format!(
            "[limits]\nsessions = {}\nstreams-per-session = {0}\nstreams-per-device = {0}\n",
            1 + round
        );
        format!("log = '{log}'\n{limits}{base}")
    };
    let setup = Setup {
        gateway_config: gateway_config(0),
        agent_arguments: vec!["--config".to_owned(), agent_file.display().to_string()],
        // Slow enough that the reloads happen during the download.
        link: Link::Paced(BitRate::kbps(80_000)),
        ..Setup::default()
    };
    let pair = Pair::start(setup).await?;
    let mut client = RawClient::connect(pair.proxy()).await?;
    client.send(get("http://site.test/large", &[])).await?;
    assert_eq!(client.head().await?.status, 200);
    let mut received = Vec::with_capacity(LENGTH);
    for round in 1..=LENGTH / STEP {
        std::fs::write(&agent_file, agent_config(round))?;
        std::fs::write(pair.folder().join("gateway.toml"), gateway_config(round))?;
        for (program, key) in [
            (pair.agent(), "push.patience"),
            (pair.gateway(), "limits.sessions"),
        ] {
            program.signal("HUP").await?;
            reloads(program, key, round).await?;
        }
        received.extend(client.read_exact(STEP).await?);
    }
    assert!(received == body, "the download differs");
    Ok(())
}

/// Waits for this number of reloads that changed a setting.
pub(crate) async fn reloads(program: &Running, key: &str, count: usize) -> Result<()> {
    let done = |text: &str| {
        let lines = text
            .lines()
            .filter(|line| line.contains("the configuration is reloaded"));
        lines.filter(|line| line.contains(key)).count() >= count
    };
    timeout(LIMIT, program.log().until(done))
        .await
        .context("no reload")??;
    Ok(())
}

//! The second judge: what programs make of the same responses, by their exit status and the bytes that they get.
pub mod tools;
mod worker;

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use longhaul_tests::authority::TestAuthority;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{process::Command, time::timeout};

use self::worker::Worker;
use crate::{
    arena::Verdict,
    case::{Case, Protocol},
    judge::judge_for,
    origin::{OddOrigin, Scripts},
    pair::Pair,
};

/// The host of all URLs.
const HOST: &str = "programs.test";
/// Longest run of a command; it has a limit of its own.
const LIMIT: Duration = Duration::from_secs(60);

/// A program that loads URLs.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A command for each URL; these are its arguments before file and URL.
    Command(&'static str, &'static [&'static str]),
    /// One process that reads URLs: the file of its source, the source, and the command that runs it.
    Source(&'static str, &'static str, &'static [&'static str]),
}

const PROGRAMS: &[(&str, Kind)] = &[
    (
        "curl",
        Kind::Command("curl", &["-sS", "--max-time", "5", "-D", "head", "-o"]),
    ),
    (
        "curl --compressed",
        Kind::Command(
            "curl",
            &["-sS", "--compressed", "--max-time", "5", "-D", "head", "-o"],
        ),
    ),
    (
        "wget",
        Kind::Command("wget", &["-q", "--timeout=5", "--tries=1", "-O"]),
    ),
    (
        "urllib",
        Kind::Source("client.py", include_str!("programs/client.py"), &["python3"]),
    ),
    (
        "net/http",
        Kind::Source("client.go", include_str!("programs/client.go"), &["go", "run"]),
    ),
    (
        "node:http",
        Kind::Source("client.js", include_str!("programs/client.js"), &["node"]),
    ),
    (
        "HttpURLConnection",
        Kind::Source("Client.java", include_str!("programs/Client.java"), &["java"]),
    ),
];

/// One way of a program to the origin.
#[derive(Debug)]
enum Client {
    Command(&'static str, &'static [&'static str]),
    Worker(Box<Worker>),
}

/// A program on both ways.
#[derive(Debug)]
struct Program {
    name: &'static str,
    direct: Client,
    through: Client,
}

/// An origin, a pair and the programs that are installed.
#[derive(Debug)]
pub struct ProgramArena {
    programs: Vec<Program>,
    missing: Vec<&'static str>,
    scripts: Scripts,
    numbers: u64,
    port: u16,
    pair: Pair,
    _origin: OddOrigin,
    folder: TempDir,
}

/// A command in a namespace in which the host's name is that of this machine.
fn with_hosts(folder: &Path, proxy: Option<&str>, program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
    ]);
    command
        .arg(folder.join("hosts"))
        .arg(program)
        .current_dir(folder)
        .kill_on_drop(true);
    for name in ["http_proxy", "https_proxy", "all_proxy", "no_proxy"] {
        command.env_remove(name).env_remove(name.to_ascii_uppercase());
    }
    if let Some(proxy) = proxy {
        command.env("http_proxy", proxy);
    }
    command
}

fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

impl ProgramArena {
    /// Starts everything.
    ///
    /// # Errors
    /// Longhaul does not start, or an installed program.
    pub async fn start() -> Result<Self> {
        let authority = TestAuthority::new()?;
        let scripts = Scripts::default();
        let origin = OddOrigin::start(&authority, scripts.clone()).await?;
        let pair = Pair::start(origin.plain, origin.secure, authority.pem()).await?;
        let folder = tempfile::Builder::new().prefix("longhaul-programs-").tempdir()?;
        std::fs::write(
            folder.path().join("hosts"),
            format!("127.0.0.1 {HOST} localhost\n"),
        )?;
        let proxy = format!("http://{}", pair.proxy());
        let (mut programs, mut missing) = (Vec::new(), Vec::new());
        for (name, kind) in PROGRAMS {
            let program = match kind {
                Kind::Command(program, _) => program,
                Kind::Source(_, _, words) => words[0],
            };
            if !installed(program) {
                missing.push(*name);
                continue;
            }
            let start = async |proxy: Option<&str>| match kind {
                Kind::Command(program, arguments) => {
                    Ok::<_, anyhow::Error>(Client::Command(program, arguments))
                }
                Kind::Source(file, source, words) => {
                    std::fs::write(folder.path().join(file), source)?;
                    let mut command = with_hosts(folder.path(), proxy, words[0]);
                    if let (Some(proxy), "java") = (proxy, words[0]) {
                        let (host, port) = proxy
                            .trim_start_matches("http://")
                            .split_once(':')
                            .context("a port")?;
                        command.args([
                            format!("-Dhttp.proxyHost={host}"),
                            format!("-Dhttp.proxyPort={port}"),
                        ]);
                    }
                    Ok(Client::Worker(Box::new(Worker::start(
                        command.args(&words[1..]).arg(file),
                    )?)))
                }
            };
            let (direct, through) = (start(None).await?, start(Some(&proxy)).await?);
            programs.push(Program {
                name,
                direct,
                through,
            });
        }
        let port = origin.plain.port();
        Ok(Self {
            programs,
            missing,
            scripts,
            numbers: 0,
            port,
            pair,
            _origin: origin,
            folder,
        })
    }

    /// Programs that are not installed.
    pub fn missing(&self) -> &[&'static str] {
        &self.missing
    }

    /// Loads a case with each program.
    ///
    /// # Errors
    /// A program cannot be run.
    pub async fn load(&mut self, seed: u64) -> Result<Vec<(&'static str, Case, Verdict)>> {
        let case = Case::new(Protocol::Http1, seed);
        let mut verdicts = Vec::new();
        for program in &mut self.programs {
            self.numbers += 1;
            let number = self.numbers;
            self.scripts.replace([(number, case.script())]);
            let url = format!("http://{HOST}:{}/c/{number}/", self.port);
            let proxy = format!("http://{}", self.pair.proxy());
            let direct = run(&mut program.direct, self.folder.path(), None, &url).await?;
            let through = run(&mut program.through, self.folder.path(), Some(&proxy), &url).await?;
            let differences = judge_for(&case, &direct, &through);
            verdicts.push((
                program.name,
                case.clone(),
                Verdict {
                    direct,
                    through,
                    differences,
                },
            ));
        }
        Ok(verdicts)
    }
}

async fn run(client: &mut Client, folder: &Path, proxy: Option<&str>, url: &str) -> Result<Value> {
    let (program, arguments) = match client {
        Client::Worker(worker) => return worker.load(url).await,
        Client::Command(program, arguments) => (program, arguments),
    };
    let mut command = with_hosts(folder, proxy, program);
    let output = folder.join("body");
    let _none_yet = std::fs::remove_file(&output);
    let ended = timeout(LIMIT, command.args(*arguments).arg("body").arg(url).output()).await??;
    let body = std::fs::read(&output).unwrap_or_default();
    let head = std::fs::read_to_string(folder.join("head"))
        .unwrap_or_default()
        .to_ascii_lowercase();
    let own = head.lines().find_map(|line| line.strip_prefix("proxy-status: "));
    Ok(json!({
        "outcome": if ended.status.success() { "whole" } else { "failed" },
        "error": if ended.status.success() { String::new() } else { String::from_utf8_lossy(&ended.stderr).into_owned() },
        "fields": { "proxy-status": own.unwrap_or_default() },
        "length": body.len(),
        "body": body.iter().fold(0_u64, |sum, byte| sum.wrapping_mul(1_099_511_628_211) ^ u64::from(*byte)),
    }))
}

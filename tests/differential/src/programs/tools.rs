//! Fixed scenarios: package managers, git and resumed downloads, over http and https.
//!
//! A scenario is a script whose output is the same on every way: exit status and hashes of what came. The server is a program
//! of its own (`server.py`).
use std::{collections::BTreeSet, fmt, process::Stdio, str::Lines, time::Duration};

use anyhow::{Context as _, Result, ensure};
use longhaul_tests::authority::TestAuthority;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use super::{HOST, installed, with_hosts};
use crate::{arena::Scheme, pair::Pair};

const SERVER: &str = include_str!("tools/server.py");
const START: &str = include_str!("tools/start.sh");
/// Longest run of a scenario, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

/// Variables in which programs look for the file of trusted authorities.
const OF_AUTHORITIES: [&str; 6] = [
    "CA",
    "CURL_CA_BUNDLE",
    "SSL_CERT_FILE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
];

/// A script, and the programs that it needs besides the shell.
#[derive(Debug)]
struct Scenario {
    name: &'static str,
    needs: &'static [&'static str],
    script: &'static str,
    /// A line of a direct run that did what the scenario is for; two failures are equal, too.
    proof: &'static str,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "downloads",
        needs: &["curl"],
        script: include_str!("tools/downloads.sh"),
        proof: "resumed by curl: packed/file.tar.gz 0 ",
    },
    Scenario {
        name: "node",
        needs: &["node"],
        script: include_str!("tools/node.sh"),
        proof: "\"status\":200",
    },
    Scenario {
        name: "apt",
        needs: &["apt-get"],
        script: include_str!("tools/apt.sh"),
        proof: "install 0 ",
    },
    Scenario {
        name: "git",
        needs: &["git"],
        script: include_str!("tools/git.sh"),
        proof: "clone 0 ",
    },
    Scenario {
        name: "npm",
        needs: &["npm"],
        script: include_str!("tools/npm.sh"),
        proof: "install from the lock file 0 ",
    },
    Scenario {
        name: "pip",
        needs: &["pip"],
        script: include_str!("tools/pip.sh"),
        proof: "pip 0 ",
    },
];

/// A way to the server.
#[derive(Clone, Copy, Debug)]
struct Way {
    scheme: Scheme,
    is_direct: bool,
}

impl Way {
    const fn name(self) -> &'static str {
        match (self.scheme, self.is_direct) {
            (Scheme::Http, true) => "way-http",
            (Scheme::Http, false) => "way-http-through",
            (Scheme::Https, true) => "way-https",
            (Scheme::Https, false) => "way-https-through",
        }
    }
}

/// What a scenario printed.
#[derive(Debug)]
pub struct Outcome {
    /// The scenario's name.
    pub scenario: &'static str,
    /// How the server was reached.
    pub scheme: Scheme,
    /// Without Longhaul.
    pub direct: String,
    /// With Longhaul.
    pub through: String,
}

/// The lines that differ.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} over {}:", self.scenario, self.scheme.name())?;
        for line in only(self.direct.lines(), &self.through) {
            writeln!(f, "    direct  {line}")?;
        }
        for line in only(self.through.lines(), &self.direct) {
            writeln!(f, "    through {line}")?;
        }
        Ok(())
    }
}

/// The lines that another text does not have.
fn only<'a>(lines: Lines<'a>, other: &'a str) -> impl Iterator<Item = &'a str> {
    lines.filter(move |line| other.lines().all(|other| other != *line))
}

/// The server and a pair.
#[derive(Debug)]
pub struct Tools {
    ports: (u16, u16),
    pair: Pair,
    server: Child,
    folder: TempDir,
}

impl Tools {
    /// Starts everything, or says which program is missing for it.
    ///
    /// # Errors
    /// The server or Longhaul does not start.
    pub async fn start() -> Result<Result<Self, &'static str>> {
        if !installed("python3") {
            return Ok(Err("python3"));
        }
        let authority = TestAuthority::new()?;
        let folder = tempfile::Builder::new().prefix("longhaul-tools-").tempdir()?;
        let path = folder.path();
        let files = authority.server_files(&[HOST])?;
        for (name, text) in [
            ("server.py", SERVER),
            ("start.sh", START),
            ("client.js", include_str!("client.js")),
            ("chain.pem", &files.chain),
            ("key.pem", &files.key),
            ("hosts", &format!("127.0.0.1 {HOST} localhost\n")),
        ] {
            std::fs::write(path.join(name), text)?;
        }
        let mut server = Command::new("python3")
            .args(["server.py", "data", "chain.pem", "key.pem"])
            .current_dir(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let ports = ports(&mut server).await?;
        let addresses = [ports.0, ports.1].map(|port| ([127, 0, 0, 1], port).into());
        let pair = Pair::start(addresses[0], addresses[1], authority.pem()).await?;
        let own =
            std::fs::read_to_string(pair.folder().join("agent/ca.pem")).context("the agent's authority")?;
        std::fs::write(path.join("trusted.pem"), format!("{}{own}", authority.pem()))?;
        Ok(Ok(Self {
            ports,
            pair,
            server,
            folder,
        }))
    }

    /// Scenarios whose programs are not installed.
    pub fn missing(&self) -> Vec<&'static str> {
        let missing = SCENARIOS.iter().filter(|scenario| !is_possible(scenario));
        missing.map(|scenario| scenario.name).collect()
    }

    /// Runs all scenarios whose programs are installed, each directly and through Longhaul at the same time.
    ///
    /// # Errors
    /// A scenario does not end.
    pub async fn run(&self) -> Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for scenario in SCENARIOS.iter().filter(|scenario| is_possible(scenario)) {
            for scheme in Scheme::ALL {
                let on = |is_direct| self.run_on(scenario, Way { scheme, is_direct });
                let (direct, through) = tokio::join!(on(true), on(false));
                let (direct, through) = (direct?, through?);
                ensure!(
                    direct.contains(scenario.proof),
                    "{} fails without Longhaul: {direct}",
                    scenario.name
                );
                outcomes.push(Outcome {
                    scenario: scenario.name,
                    scheme,
                    direct,
                    through,
                });
            }
        }
        Ok(outcomes)
    }

    /// Which programs came to the server, how, and whether the pair has sent the request.
    ///
    /// # Errors
    /// The server does not answer.
    pub async fn seen(&self) -> Result<BTreeSet<String>> {
        let url = format!("http://{HOST}:{}/seen", self.ports.0);
        let mut command = with_hosts(self.folder.path(), None, "curl");
        let ended = timeout(LIMIT, command.args(["-sS", &url]).output()).await??;
        serde_json::from_slice(&ended.stdout).context("what the server saw")
    }

    /// The logs of the pair.
    pub fn logs(&self) -> String {
        self.pair.logs()
    }

    async fn run_on(&self, scenario: &Scenario, way: Way) -> Result<String> {
        let own = self
            .folder
            .path()
            .join(format!("{}-{}", scenario.name, way.name()));
        std::fs::create_dir(&own)?;
        let script = format!("cd '{}' && . ../start.sh\n{}", own.display(), scenario.script);
        let mut command = self.shell(way);
        let ended = timeout(LIMIT, command.args(["-c", &script]).output())
            .await
            .with_context(|| format!("{} on {} does not end", scenario.name, way.name()))??;
        let printed = [ended.stdout, ended.stderr].concat();
        // Messages contain the folder.
        Ok(String::from_utf8_lossy(&printed).replace(way.name(), "WAY"))
    }

    /// A shell whose programs go this way, and trust both authorities.
    fn shell(&self, way: Way) -> Command {
        let path = self.folder.path();
        let port = match way.scheme {
            Scheme::Http => self.ports.0,
            Scheme::Https => self.ports.1,
        };
        let proxy = format!("http://{}", self.pair.proxy());
        let proxy = (!way.is_direct).then_some(proxy.as_str());
        let mut command = with_hosts(path, proxy, "sh");
        if let Some(proxy) = proxy {
            command.env("https_proxy", proxy);
        }
        for name in OF_AUTHORITIES {
            command.env(name, path.join("trusted.pem"));
        }
        command
            .env("BASE", format!("{}://{HOST}:{port}", way.scheme.name()))
            .env("PROXY", proxy.unwrap_or_default())
            .env("WAY", way.name())
            .env("DATA", path.join("data"))
            .env("SOURCES", path)
            .env("LC_ALL", "C.UTF-8")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Tools {
    fn drop(&mut self) {
        // The server ends when its input does, or now.
        let _ended = self.server.start_kill();
    }
}

fn is_possible(scenario: &Scenario) -> bool {
    scenario.needs.iter().all(|program| installed(program))
}

async fn ports(server: &mut Child) -> Result<(u16, u16)> {
    let output = server.stdout.take().context("stdout is piped")?;
    let mut lines = BufReader::new(output).lines();
    let line = timeout(LIMIT, lines.next_line())
        .await??
        .context("the server ended")?;
    let (plain, secure) = line.split_once(' ').context("two ports")?;
    Ok((plain.parse()?, secure.parse()?))
}

//! The command `longhaul-agent`.
#![forbid(unsafe_code)]

use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::Path,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use clap::Parser;
use longhaul_agent::{
    agent::Agent,
    config::{self, CaCommand, CliArgs, Command, ConfigFlags, Environment, ForgetArgs, StatusArgs},
    control_client,
    forget::Site,
    https::Authority,
    state_dir::StateDir,
};
use longhaul_types::UnixTime;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Maximum number of open files: twice the maximum number of connections, and a reserve.
const MAX_FILES: u64 = 8192;

#[tokio::main]
async fn main() -> ExitCode {
    let args = CliArgs::parse();
    let environment = Environment::of_process();
    start_logs(&environment);
    let done = match args.command {
        Command::Run(flags) => run(&flags, &environment).await,
        Command::CheckConfig(flags) => check_config(&flags, &environment),
        Command::Status(flags) => show_status(&flags, &environment).await,
        Command::Forget(flags) => forget(&flags, &environment).await,
        Command::Ca(command) => authority(&command, &environment),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "longhaul-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Starts logging; `LONGHAUL_LOG` is a filter such as `info` or `longhaul_agent=debug`.
fn start_logs(environment: &Environment) {
    let filter = EnvFilter::new(environment.get_filled("LONGHAUL_LOG").unwrap_or("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

/// Raises the limit of open files up to the system's hard limit: the usual soft limit of 1024 is less than
/// some browsers' connections and the direct connections for them need.
fn raise_file_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let _best_effort = setrlimit(Resource::RLIMIT_NOFILE, soft.max(hard.min(MAX_FILES)), hard);
    }
}

async fn run(flags: &ConfigFlags, environment: &Environment) -> Result<()> {
    let (config, _) = config::load(flags, environment)?;
    raise_file_limit();
    // The handlers are installed before `ready` is printed, because a reader may send a signal at once.
    let mut interrupt = signal(SignalKind::interrupt()).context("signals cannot be handled")?;
    let mut terminate = signal(SignalKind::terminate()).context("signals cannot be handled")?;
    let agent = Agent::start(config).await?;
    say(&format!("ready {}\n", agent.proxy()))?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    agent.stop().await;
    Ok(())
}

fn check_config(flags: &ConfigFlags, environment: &Environment) -> Result<()> {
    let resolved = config::load(flags, environment);
    let read = resolved.as_ref().map_or_else(
        |mistakes| mistakes.sources.to_string(),
        |(_, report)| report.to_string(),
    );
    std::io::stderr().write_all(read.as_bytes())?;
    let (config, report) = resolved?;
    say(&format!(
        "the configuration is valid\n{config}\n\n{}",
        report.to_toml()
    ))
}

async fn show_status(flags: &StatusArgs, environment: &Environment) -> Result<()> {
    let (address, token) = running(flags.control.as_deref(), flags.state_dir.as_deref(), environment)?;
    let json = control_client::fetch_status(address, token.as_deref()).await?;
    if flags.json {
        return say(&format!("{json}\n"));
    }
    say(&control_client::summary(&json, token.as_deref())
        .with_context(|| format!("the program that answers on {address} is not an agent"))?)
}

async fn forget(flags: &ForgetArgs, environment: &Environment) -> Result<()> {
    let site: Option<Site> = flags.site.as_deref().map(str::parse).transpose()?;
    let (address, token) = running(flags.control.as_deref(), flags.state_dir.as_deref(), environment)?;
    say(&control_client::forget(address, token.as_deref(), site.as_ref()).await?)
}

/// Returns the control address and token of the running agent.
fn running(
    control: Option<&str>,
    state_dir: Option<&Path>,
    environment: &Environment,
) -> Result<(SocketAddr, Option<String>)> {
    let state_dir = config::load_state_dir(state_dir, environment).map(StateDir::new);
    let address = match control {
        Some(address) => address
            .parse()
            .with_context(|| format!("--control: `{address}` is not ADDRESS:PORT"))?,
        None => control_client::control_address(state_dir.as_ref().map_err(Clone::clone)?)?,
    };
    // The token is sent only to the agent of this state directory.
    let token = state_dir
        .ok()
        .filter(|state_dir| {
            state_dir
                .published()
                .is_some_and(|agent| agent.control == address)
        })
        .and_then(|state_dir| state_dir.control_token());
    Ok((address, token))
}

fn authority(command: &CaCommand, environment: &Environment) -> Result<()> {
    let (CaCommand::Export(args) | CaCommand::Fingerprint(args) | CaCommand::Remove(args)) = command;
    let state = StateDir::new(config::load_state_dir(args.state_dir.as_deref(), environment)?);
    let now = UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH)?);
    match command {
        CaCommand::Export(_) => say(Authority::open_or_make(&state, now)?.pem()),
        CaCommand::Fingerprint(_) => say(&format!("{}\n", Authority::open(&state)?.fingerprint())),
        CaCommand::Remove(_) if Authority::remove(&state)? => {
            say("removed from this device; remove it from the trust stores of browsers, too\n")
        }
        CaCommand::Remove(_) => say("there was no certificate authority\n"),
    }
}

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("stdout is closed")
}

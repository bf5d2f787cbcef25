//! The command `longhaul-agent`.
#![forbid(unsafe_code)]

mod commands;

use std::{io::Write, net::SocketAddr, path::Path, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result};
use longhaul_agent::{
    config::{self, CheckGatewayArgs, CliArgs, Command, ConfigFlags, Environment, ForgetArgs, StatusArgs},
    control_client,
    dashboard::TroubleStatus,
    forget::Site,
    gateway::{self, UsedCarrier},
    service, setup,
    state_dir::StateDir,
};
use longhaul_service::{Exit, LogFilter, LogFormat, Logs};
use longhaul_settings::Mistakes;
use longhaul_types::error_text;

/// Time for file operations that are in progress when the program ends.
const LAST_OPERATIONS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args = CliArgs::of_process(option_env!("LONGHAUL_COMMIT"));
    let exit = start(args.command).unwrap_or_else(|error| {
        // Without standard error nobody can be told.
        let _closed = writeln!(
            std::io::stderr(),
            "longhaul-agent: {}",
            error_text(error.as_ref())
        );
        if error.chain().any(|cause| cause.is::<Mistakes>()) {
            Exit::Configuration
        } else {
            Exit::Failure
        }
    });
    exit.into()
}

fn start(command: Command) -> Result<Exit> {
    let threads = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the system cannot start threads")?;
    let exit = threads.block_on(execute(command, Environment::of_process()));
    // A file operation that hangs must not keep the program from ending.
    threads.shutdown_timeout(LAST_OPERATIONS);
    exit
}

async fn execute(command: Command, environment: Environment) -> Result<Exit> {
    if !matches!(command, Command::Run(_) | Command::Setup(_)) {
        Logs::start(&LogFilter::default(), LogFormat::Auto)?;
    }
    match command {
        Command::Run(flags) => {
            let ended = service::run(flags, environment, &mut std::io::stdout()).await;
            return Ok(ended?.into());
        }
        Command::Setup(flags) => {
            let out = &mut std::io::stdout();
            setup::wait_for_invite(&flags, &environment, out).await?;
            let ended = service::run(flags, environment, out).await;
            return Ok(ended?.into());
        }
        Command::CheckConfig(flags) => check_config(&flags, &environment)?,
        Command::Status(flags) => show_status(&flags, &environment).await?,
        Command::CheckGateway(flags) => check_gateway(&flags, &environment).await?,
        Command::Forget(flags) => forget(&flags, &environment).await?,
        Command::Ca(command) => commands::authority(&command, &environment).await?,
        Command::Https(command) => commands::bypasses(&command, &environment).await?,
        Command::Rules(command) => commands::rules(&command, &environment).await?,
        Command::UseInvite(args) => commands::use_invite(&args, &environment).await?,
    }
    Ok(Exit::Success)
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

async fn check_gateway(flags: &CheckGatewayArgs, environment: &Environment) -> Result<()> {
    let state_dir = StateDir::new(config::load_state_dir(flags.state_dir.as_deref(), environment)?);
    let carrier = config::load_carrier(environment)?;
    let checked = gateway::check_gateway(state_dir.invite()?, &state_dir, &carrier).await;
    if flags.json {
        let carrier = checked.as_ref().ok().map(|over| over.name());
        let trouble = checked
            .err()
            .map(|trouble| TroubleStatus::new(&trouble, Duration::ZERO));
        return say(&format!(
            "{}\n",
            serde_json::json!({ "trouble": trouble, "carrier": carrier })
        ));
    }
    match checked.map_err(|trouble| anyhow::anyhow!("{trouble}"))? {
        UsedCarrier::Udp => say("the gateway answers\n"),
        UsedCarrier::Tls => say("the gateway answers over TLS\n"),
        UsedCarrier::Quic => say("the gateway answers over QUIC\n"),
    }
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

fn say(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .context("stdout is closed")
}

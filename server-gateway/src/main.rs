//! The command `longhaul-gateway`.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal as _};

use anyhow::Context as _;
use clap::Parser as _;
use longhaul_gateway::{
    cli::{CliArgs, Command},
    commands,
    config::{Config, Environment, resolve},
    picture_workers,
};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let args = CliArgs::parse();
    if let Command::PictureWorker { memory } = args.command {
        return Ok(picture_workers::work(memory)?);
    }
    // Variables that are not UTF-8 cannot be settings of the gateway.
    let environment: Environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let (config, settings) = resolve(&args.settings, &environment)?;
    start_log(&config)?;
    let threads = match args.command {
        Command::Run => tokio::runtime::Builder::new_multi_thread(),
        Command::CheckConfig
        | Command::Device { .. }
        | Command::Invite { .. }
        | Command::PictureWorker { .. } => tokio::runtime::Builder::new_current_thread(),
    }
    .enable_all()
    .build()
    .context("the system gives no threads")?;
    threads.block_on(commands::execute(
        args.command,
        &config,
        &settings,
        &mut io::stdout(),
    ))?;
    Ok(())
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    let filter: EnvFilter = config.log.parse().context("the log filter is not valid")?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .init();
    Ok(())
}

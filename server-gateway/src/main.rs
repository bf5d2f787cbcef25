//! The command `longhaul-gateway`.
#![forbid(unsafe_code)]

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use clap::Parser as _;
use longhaul_gateway::{
    cli::{CliArgs, Command},
    commands,
    config::{self, Config, Environment},
    picture_workers,
};
use tracing_subscriber::EnvFilter;

fn main() -> anyhow::Result<()> {
    let args = CliArgs::parse();
    if let Command::PictureWorker { memory } = args.command {
        return Ok(picture_workers::work(memory)?);
    }
    let is_check = matches!(args.command, Command::CheckConfig);
    let resolved = config::load(&args.settings, &Environment::of_process());
    if is_check {
        // On standard error, so that standard output is a configuration file.
        let read = resolved.as_ref().map_or_else(
            |mistakes| mistakes.sources.to_string(),
            |(_, report)| report.to_string(),
        );
        io::stderr().write_all(read.as_bytes())?;
    }
    let (config, report) = resolved?;
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
    .context("the system cannot start threads")?;
    threads.block_on(commands::execute(
        args.command,
        &config,
        &report,
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

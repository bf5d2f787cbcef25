//! The command `longhaul-gateway`.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result};
use longhaul_gateway::{
    cli::{CliArgs, Command},
    commands::{self, Sources},
};
use longhaul_gateway_core::config::{self, Environment};
use longhaul_images::picture_workers;
use longhaul_service::{Exit, Logs};
use longhaul_types::error_text;

/// Time for file operations that are in progress when the program ends.
const LAST_OPERATIONS: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let args = CliArgs::of_process(option_env!("LONGHAUL_COMMIT"));
    let exit = if let Command::PictureWorker { memory } = args.command {
        picture_workers::work(memory)
            .map(|()| Exit::Success)
            .map_err(anyhow::Error::from)
    } else {
        execute(args)
    };
    let exit = exit.unwrap_or_else(|error| {
        report(&error_text(error.as_ref()));
        Exit::Failure
    });
    exit.into()
}

fn execute(args: CliArgs) -> Result<Exit> {
    let environment = Environment::of_process();
    let resolved = config::load(&args.settings, &environment);
    if matches!(args.command, Command::CheckConfig) {
        // On standard error, so that standard output is a configuration file.
        let read = resolved.as_ref().map_or_else(
            |mistakes| mistakes.sources.to_string(),
            |(_, report)| report.to_string(),
        );
        io::stderr().write_all(read.as_bytes())?;
    }
    let (config, settings) = match resolved {
        Ok(resolved) => resolved,
        Err(mistakes) => {
            report(&mistakes.to_string());
            return Ok(Exit::Configuration);
        }
    };
    let logs = Logs::start(&config.log, config.log_format)?;
    let threads = if matches!(args.command, Command::Run) {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    }
    .enable_all()
    .build()
    .context("the system cannot start threads")?;
    let sources = Sources {
        flags: args.settings,
        environment,
        logs,
    };
    let mut out = io::stdout();
    let exit = threads.block_on(commands::execute(
        args.command,
        &config,
        &settings,
        sources,
        &mut out,
    ));
    // A file operation that hangs must not keep the program from ending.
    threads.shutdown_timeout(LAST_OPERATIONS);
    Ok(exit?)
}

/// Prints an error once.
fn report(error: &str) {
    // Without standard error nobody can be told.
    let _closed = writeln!(io::stderr(), "longhaul-gateway: {error}");
}

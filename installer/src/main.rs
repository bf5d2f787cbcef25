//! The command `longhaul`.
#![forbid(unsafe_code)]

mod commands;
#[cfg(not(unix))]
mod end_signals_portable;
#[cfg(unix)]
mod end_signals_unix;

use std::process::ExitCode;

use longhaul::cli::{CliArgs, Command};
use longhaul_service::{LogFilter, LogFormat, Logs};

fn main() -> ExitCode {
    let args = CliArgs::of_process(option_env!("LONGHAUL_COMMIT"));
    let filter = std::env::var("LONGHAUL_LOG").unwrap_or_else(|_| "warn".to_owned());
    let filter = LogFilter::parse(&filter).unwrap_or_default();
    if let Err(error) = Logs::start(&filter, LogFormat::Auto) {
        commands::complain(&error.into());
    }
    let done = match args.command {
        Command::Up(up) => commands::up(&up),
        Command::Down(down) => commands::down(&down),
        Command::Uninstall(uninstall) => commands::uninstall(&uninstall),
        Command::Demo(demo) => commands::demo(*demo),
        Command::Keygen(keygen) => commands::keygen(&keygen),
        Command::Enroll(enroll) => commands::enroll(&enroll),
        Command::Status(status) => commands::status(&status),
        Command::Doctor(doctor) => commands::doctor(&doctor),
        Command::Speed(speed) => commands::speed(&speed),
    };
    done.unwrap_or_else(|error| {
        commands::complain(&error);
        ExitCode::FAILURE
    })
}

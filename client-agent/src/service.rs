//! The command `run`: the agent as a service, until a stop signal.
use std::io::{self, Write};

use parking_lot::Mutex;

use longhaul_service::{Ended, Logs, LogsError, Reloaded, Reloads, Service, ServiceManager, Signals, serve};
use longhaul_settings::{Configured as _, Mistakes, Report};
use longhaul_types::{Invite, error_text};

use crate::{
    agent::{Agent, StartError},
    config::{self, Config, ConfigFlags, Environment, settings},
};

/// Errors of running the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The log cannot be started.
    #[error(transparent)]
    Logs(#[from] LogsError),
    /// The configuration has mistakes.
    #[error("{0}")]
    Mistakes(#[from] Mistakes),
    /// Standard output cannot be written.
    #[error("standard output cannot be written: {0}")]
    Output(#[source] io::Error),
    /// The system refuses a signal handler.
    #[error("signals cannot be handled: {0}")]
    Signals(#[source] io::Error),
    /// The agent cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The running agent, and what a reload needs.
struct Running {
    agent: Agent,
    flags: ConfigFlags,
    environment: Environment,
    logs: Logs,
    invite: Invite,
    reloads: Mutex<Reloads>,
}

/// Starts the agent, prints `ready ADDRESS` to `out`, and runs it until a stop signal.
///
/// # Errors
/// See [`RunError`].
pub async fn run(
    flags: ConfigFlags,
    environment: Environment,
    out: &mut impl Write,
) -> Result<Ended, RunError> {
    let (config, report) = config::load(&flags, &environment)?;
    let logs = Logs::start(&config.log, config.log_format)?;
    crate::open_files::raise_limit();
    // The handlers are installed before `ready` is printed, because a reader may send a signal at once.
    let signals = Signals::install().map_err(RunError::Signals)?;
    let manager = ServiceManager::of_process();
    let invite = config.invite.clone();
    let agent = Agent::start(config).await?;
    let address = agent.proxy();
    writeln!(out, "ready {address}")
        .and_then(|()| out.flush())
        .map_err(RunError::Output)?;
    let running = Running {
        agent,
        flags,
        environment,
        logs,
        invite,
        reloads: Mutex::new(Reloads::new(settings::Agent::PROGRAM, report)),
    };
    Ok(serve(
        running,
        signals,
        &manager,
        format!("serving browsers at {address}"),
    )
    .await)
}

impl Running {
    fn apply(&self, config: Config, report: Report) -> Reloaded {
        let has_other_invite = config.invite.to_line() != self.invite.to_line();
        let log = config.log.clone();
        if let Err(error) = self.agent.reload(config) {
            return Reloads::failed(&error_text(&error));
        }
        self.logs.set_filter(&log);
        let further: &[&str] = if has_other_invite { &["invite"] } else { &[] };
        let mut reloads = self.reloads.lock();
        reloads.applied(report, further)
    }
}

impl Service for Running {
    async fn reload(&self) -> Reloaded {
        let (flags, environment) = (self.flags.clone(), self.environment.clone());
        // File operations block.
        let read = tokio::task::spawn_blocking(move || config::load(&flags, &environment)).await;
        match read {
            Ok(Ok((config, report))) => self.apply(config, report),
            Ok(Err(mistakes)) => Reloads::refused(&mistakes),
            Err(error) => Reloads::failed(&error.to_string()),
        }
    }

    async fn answer(&self) {
        self.agent.answered().await;
    }

    async fn failed(&self) {
        self.agent.ended().await;
    }

    async fn stop(self) {
        self.agent.stop().await;
    }
}

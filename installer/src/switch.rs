//! `longhaul up`, `down` and `uninstall`: switch Longhaul on and off for the browsers of a user.
pub(crate) mod agent;
mod down;
mod questions;
mod report;
mod uninstall;
mod up;

use std::{
    env, io,
    path::{Path, PathBuf},
};

use longhaul_demo::ProgramError;
use longhaul_trust::{Browser, ChangeError, Machine, Places, Step, running_browsers};

use crate::{
    cli::PlaceArgs,
    enroll::EnrollError,
    state_dir::{self, StateDirError},
};
pub use down::down;
pub use report::{Report, State};
pub use uninstall::uninstall;
pub use up::up;

/// Errors of switching Longhaul on or off.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The device has no invite.
    #[error(
        "this device is not enrolled: run `longhaul up LINE` with the line that your gateway's operator gave you"
    )]
    NotEnrolled,
    /// The invite cannot be stored.
    #[error(transparent)]
    Enroll(#[from] EnrollError),
    /// The state directory cannot be found.
    #[error(transparent)]
    StateDir(#[from] StateDirError),
    /// A change failed, or the journal cannot be used.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The agent's program is missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The agent cannot make or show its certificate authority.
    #[error("the agent cannot make its certificate authority (`{command}`): {reason}")]
    Authority {
        /// The command.
        command: String,
        /// The agent's message.
        reason: String,
    },
    /// A file cannot be removed.
    #[error("{} cannot be removed: {source}", path.display())]
    Remove {
        /// The file or directory.
        path: PathBuf,
        /// Cause reported by the system.
        source: io::Error,
    },
    /// The user answered no.
    #[error("nothing was changed")]
    Declined,
}

impl SwitchError {
    /// Exit status of the command: 2 for a wrong command line, else 1.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::NotEnrolled
            | Self::Enroll(_)
            | Self::StateDir(_)
            | Self::Change(_)
            | Self::Program(_)
            | Self::Authority { .. }
            | Self::Remove { .. }
            | Self::Declined => 1,
        }
    }
}

/// The directories that a command works on.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) places: Places,
    pub(crate) state_dir: PathBuf,
    /// True if commands need `--state-dir`: the state directory is not the one that a program finds without the
    /// variables of the user's shell, which services do not get.
    pub(crate) has_own_state_dir: bool,
}

impl Target {
    pub(crate) fn of(args: &PlaceArgs) -> Result<Self, SwitchError> {
        let variable = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let mut places = match &args.home {
            Some(home) => Places::of_home(home),
            None => {
                let mut places = Places::of_home(&variable("HOME").ok_or(StateDirError::NoHome)?);
                places.config = variable("XDG_CONFIG_HOME").unwrap_or(places.config);
                places.data = variable("XDG_DATA_HOME").unwrap_or(places.data);
                places
            }
        };
        if let Some(root) = &args.root {
            places.root.clone_from(root);
        }
        let default = match &args.home {
            Some(home) => home.join(".local/state/longhaul-agent"),
            None => state_dir::default()?,
        };
        let state_dir = match &args.state_dir {
            Some(given) => given.clone(),
            None => {
                state_dir::configured(Some(&places.config), &places.root)?.unwrap_or_else(|| default.clone())
            }
        };
        // Units and settings name the directory, and are read in another working directory.
        let state_dir = std::path::absolute(&state_dir).unwrap_or(state_dir);
        let without_variables = places.home.join(".local/state/longhaul-agent");
        Ok(Self {
            has_own_state_dir: state_dir != without_variables,
            state_dir,
            places,
        })
    }

    /// The agent's configuration file.
    pub(crate) fn config(&self) -> PathBuf {
        self.places.config.join("longhaul/agent.toml")
    }

    /// The browsers that run, with their names.
    fn running(&self) -> Vec<(Browser, String)> {
        let running = running_browsers(&self.places.system("/proc"), &self.places.home);
        let named = running
            .into_iter()
            .map(|found| (found.browser, format!("{} (process {})", found.name, found.pid)));
        named.collect()
    }
}

/// The browsers that run and hold files of these steps, after the user had the chance to close them.
fn browsers_in_the_way<'a>(
    target: &Target,
    steps: impl Iterator<Item = &'a Step>,
    may_ask: bool,
) -> Vec<(Browser, String)> {
    let held: Vec<Browser> = steps.filter_map(|step| step.held_by).collect();
    loop {
        let mut running = target.running();
        running.retain(|(browser, _)| held.contains(browser));
        if running.is_empty() || !may_ask || !questions::wait_for(&running) {
            return running;
        }
    }
}

/// The name of the running browser that holds the files of a step.
fn holder<'a>(running: &'a [(Browser, String)], step: &Step) -> Option<&'a str> {
    let held_by = step.held_by?;
    running
        .iter()
        .find(|(browser, _)| *browser == held_by)
        .map(|(_, name)| name.as_str())
}

/// Undoes a change and reports it.
fn undo(machine: &mut Machine<'_>, (number, step): (u32, &Step), report: &mut Report) {
    match machine.undo(number) {
        Ok(remarks) => {
            report.push(step, State::Undone);
            report.notes.extend(remarks);
        }
        Err(error) => report.push(step, State::Failed(explain(&error))),
    }
}

/// Adds advice to an error.
fn explain(error: &ChangeError) -> String {
    if let ChangeError::File { source, .. } = error
        && source.kind() == io::ErrorKind::PermissionDenied
    {
        return format!("{error}; changes of the whole machine need root: repeat the command with sudo");
    }
    error.to_string()
}

/// True if the directory has the name that only Longhaul gives, so that all of it may be removed.
fn is_our_directory(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "longhaul-agent")
}

//! Exit statuses.
use std::process::ExitCode;

/// Exit status of agent and gateway. A wrong command line has the status 2 of the argument parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command succeeded, or the service ended in order.
    Success,
    /// The command failed, or the service could not start or did not end in order.
    Failure,
    /// The configuration has mistakes: another start without a change of the configuration would fail, too
    /// (EX_CONFIG of sysexits.h).
    Configuration,
    /// A second stop signal ended the program at once: 128 and the number of the signal.
    Signal(u8),
}

impl Exit {
    /// The number.
    pub const fn status(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Configuration => 78,
            Self::Signal(status) => status,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.status())
    }
}

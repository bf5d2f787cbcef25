//! The commands `ca`, `https` and `use-invite`: by the running agent, else on the files of the state directory.
mod rules;

use std::{
    fmt::Write as _,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use longhaul_agent::{
    config::{self, CaCommand, Environment, HttpsCommand, UseInviteArgs},
    control_client::{self, StatusError},
    dashboard::{BypassedHost, Status},
    https::{self, Authority, AuthorityError},
    state_dir::StateDir,
};
use longhaul_types::UnixTime;

pub(crate) use rules::rules;

use super::say;

/// The running agent of a state directory.
struct RunningAgent {
    address: SocketAddr,
    token: Option<String>,
}

impl RunningAgent {
    /// Finds the agent; `None` if none runs.
    async fn find(state: &StateDir) -> Result<Option<Self>> {
        let address = match control_client::control_address(state) {
            Ok(address) => address,
            Err(StatusError::NotRunning(_) | StatusError::Ended { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let token = state.control_token();
        match control_client::fetch_status(address, token.as_deref()).await {
            Ok(_) => Ok(Some(Self { address, token })),
            // Without locks, the file of an agent that was killed looks like that of a running one.
            Err(StatusError::NoAnswer { .. }) if !control_client::is_certain(state) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    async fn status(&self) -> Result<Status> {
        let json = control_client::fetch_status(self.address, self.token()).await?;
        Ok(serde_json::from_str(&json)?)
    }
}

fn state_dir(flag: Option<&Path>, environment: &Environment) -> Result<StateDir> {
    Ok(StateDir::new(config::load_state_dir(flag, environment)?))
}

/// `longhaul-agent use-invite`
pub(crate) async fn use_invite(args: &UseInviteArgs, environment: &Environment) -> Result<()> {
    let state = state_dir(args.state_dir.as_deref(), environment)?;
    let address = control_client::control_address(&state)?;
    say(&control_client::use_invite(address, state.control_token().as_deref()).await?)
}

/// `longhaul-agent ca`
pub(crate) async fn authority(command: &CaCommand, environment: &Environment) -> Result<()> {
    let (CaCommand::Export(args) | CaCommand::Fingerprint(args) | CaCommand::Remove(args)) = command;
    let state = state_dir(args.state_dir.as_deref(), environment)?;
    let running = RunningAgent::find(&state).await?;
    match command {
        CaCommand::Export(_) => export(&state, running.as_ref()).await,
        CaCommand::Fingerprint(_) => {
            let in_use = match &running {
                Some(agent) => agent.status().await?.https.fingerprint,
                None => None,
            };
            let fingerprint = match in_use {
                Some(fingerprint) => fingerprint,
                None => Authority::open(&state)?.fingerprint(),
            };
            say(&format!("{fingerprint}\n"))
        }
        CaCommand::Remove(_) => match running {
            Some(agent) => say(&control_client::remove_authority(agent.address, agent.token()).await?),
            None if Authority::remove(&state)? => {
                say("removed from this device; remove it from the trust stores of browsers, too\n")
            }
            None => say("there was no certificate authority\n"),
        },
    }
}

/// Prints the certificate of the authority that the running agent uses, else that of the files.
async fn export(state: &StateDir, running: Option<&RunningAgent>) -> Result<()> {
    if let Some(agent) = running
        && let Some(pem) = control_client::authority(agent.address, agent.token()).await?
    {
        return say(&pem);
    }
    let (authority, is_new) = open_or_make(state)?;
    if is_new {
        let later = if running.is_some() {
            " The running agent does not use it before it is started again."
        } else {
            ""
        };
        let _closed = writeln!(
            std::io::stderr(),
            "longhaul-agent: there was no certificate authority; a new one is created in {}, which browsers must \
             trust.{later}",
            state.path().display()
        );
    }
    say(authority.pem())
}

fn open_or_make(state: &StateDir) -> Result<(Authority, bool), AuthorityError> {
    Authority::open_or_make(state, now())
}

/// `longhaul-agent https`
pub(crate) async fn bypasses(command: &HttpsCommand, environment: &Environment) -> Result<()> {
    let flag = match command {
        HttpsCommand::List(args) => args.state_dir.as_deref(),
        HttpsCommand::Forget(args) => args.state_dir.as_deref(),
    };
    let state = state_dir(flag, environment)?;
    let running = RunningAgent::find(&state).await?;
    match (command, running) {
        (HttpsCommand::List(_), Some(agent)) => say(&list(&agent.status().await?.https.bypassed)),
        (HttpsCommand::List(_), None) => {
            let stored = https::stored_bypasses(&state).into_iter().map(BypassedHost::from);
            say(&list(&stored.collect::<Vec<_>>()))
        }
        (HttpsCommand::Forget(args), running) => {
            let host = args.host.as_deref().map(str::parse).transpose()?;
            say(&match running {
                Some(agent) => {
                    control_client::forget_bypasses(agent.address, agent.token(), host.as_ref()).await?
                }
                None => https::forget_stored_bypasses(&state, host.as_ref())? + "\n",
            })
        }
    }
}

fn list(bypassed: &[BypassedHost]) -> String {
    if bypassed.is_empty() {
        return "no host is bypassed\n".to_owned();
    }
    let mut out = String::new();
    for host in bypassed {
        let left = Duration::from_secs(host.until).saturating_sub(now().since_epoch());
        let only = match (&host.program, host.one_program) {
            (Some(name), _) => format!(", only for {name}"),
            (None, true) => ", only for the program that caused it".to_owned(),
            (None, false) => String::new(),
        };
        let everywhere = if host.everywhere {
            ", and for it at all other hosts"
        } else {
            ""
        };
        let _infallible = writeln!(
            out,
            "{}  for another {}: {}{only}{everywhere}",
            host.host,
            in_words(left),
            host.why
        );
    }
    out
}

/// Rounds up to minutes.
fn in_words(time: Duration) -> String {
    let minutes = time.as_secs().div_ceil(60);
    match (minutes / (24 * 60), minutes / 60, minutes % 60) {
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

fn now() -> UnixTime {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up() {
        let words = |seconds| in_words(Duration::from_secs(seconds));
        assert_eq!(words(0), "0 min");
        assert_eq!(words(61), "2 min");
        assert_eq!(words(23 * 3600 + 59), "23 h 1 min");
        assert_eq!(words(6 * 86400 + 3 * 3600), "6 d 3 h");
    }
}

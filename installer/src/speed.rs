//! `longhaul speed`: a page directly and through Longhaul, alternately, and what the link does meanwhile.
mod agent_figures;
mod measurement;
mod page_choice;
mod report;

use std::io;

use longhaul_replay::page::TrustError;
use longhaul_types::ByteCount;
use url::Url;

pub use agent_figures::{LinkFigures, is_metered};
pub use measurement::{Load, Measurement, Way, measure};
pub use page_choice::{ChosenPage, choose};
pub use report::{announcement, to_json, to_text};

use crate::agent_state::{AgentProcess, AgentState, RunningAgent};

/// Reasons for measuring nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpeedError {
    /// There is no agent.
    #[error("no agent runs, so there is nothing to compare: `longhaul up` starts one")]
    NoAgent,
    /// The agent does not answer.
    #[error("the agent does not answer: {0}; `longhaul doctor` finds the reason")]
    Silent(String),
    /// The gateway does not answer.
    #[error(
        "the hop is {0}, so that a load through Longhaul would measure nothing; `longhaul doctor` finds the reason"
    )]
    HopDown(String),
    /// Nobody named a page, and the agent has loaded none.
    #[error(
        "name a page, such as `longhaul speed http://example.org/`: the agent has loaded none since it started"
    )]
    NoPage,
    /// The user pays for each byte.
    #[error("this network is metered: every byte costs. Nothing was loaded; --metered measures nevertheless")]
    Metered,
    /// Nobody can be asked.
    #[error("nobody can be asked here whether so many bytes may be loaded; --yes answers")]
    NobodyToAsk,
    /// The user does not want it.
    #[error("nothing was loaded")]
    Declined,
    /// The limit on bytes was reached before one load of each kind had ended.
    #[error(
        "the page is larger than the limit permits: stopped after {received}, at {done} loads; --limit sets the limit, which \
         was {limit}"
    )]
    TooLarge {
        /// Bytes until then.
        received: ByteCount,
        /// The limit.
        limit: ByteCount,
        /// Number of complete loads.
        done: usize,
    },
    /// The agent's certificate authority cannot be used.
    #[error("the agent's certificate authority cannot be used: {0}")]
    Authority(String),
    /// TLS cannot be set up.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The agent ended, or another program answers.
    #[error("the agent's figures cannot be read: {0}")]
    Figures(#[from] io::Error),
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct SpeedOptions {
    /// The page.
    pub page: Url,
    /// Number of loads over each way.
    pub loads: u32,
    /// Bytes after which no further load begins, and at which a load ends.
    pub limit: ByteCount,
}

/// Returns the agent that can be measured.
///
/// # Errors
/// There is none, or its hop does not work.
pub fn measurable(state: &AgentState) -> Result<&RunningAgent, SpeedError> {
    let agent = match &state.agent {
        AgentProcess::Running(agent) => agent,
        AgentProcess::Absent => return Err(SpeedError::NoAgent),
        AgentProcess::Silent(_, reason) => return Err(SpeedError::Silent(reason.clone())),
    };
    match agent.text("state") {
        "open" => Ok(agent),
        state => Err(SpeedError::HopDown(match agent.trouble() {
            Some((_, detail)) => format!("{state} ({detail})"),
            None => state.to_owned(),
        })),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent_state::Enrolment;

    fn state(agent: AgentProcess) -> AgentState {
        AgentState {
            enrolment: Enrolment::Absent,
            agent,
        }
    }

    fn running(status: serde_json::Value) -> AgentProcess {
        AgentProcess::Running(Box::new(RunningAgent {
            pid: 7,
            proxy: "127.0.0.1:3128".parse().unwrap(),
            control: "127.0.0.1:3129".parse().unwrap(),
            version: "1.2.3".to_owned(),
            token: None,
            status,
        }))
    }

    #[test]
    fn only_an_agent_with_an_open_session_is_measured() {
        assert!(measurable(&state(running(json!({ "state": "open" })))).is_ok());
        let absent = measurable(&state(AgentProcess::Absent)).unwrap_err().to_string();
        assert!(absent.contains("longhaul up"), "{absent}");
        let silent = AgentProcess::Silent(None, "it is starting".to_owned());
        let silent = measurable(&state(silent)).unwrap_err().to_string();
        assert!(silent.contains("it is starting"), "{silent}");
        let trouble = json!({ "state": "down", "trouble": { "kind": "offline", "detail": "no network" } });
        let down = measurable(&state(running(trouble))).unwrap_err().to_string();
        assert!(
            down.contains("down (no network)") && down.contains("doctor"),
            "{down}"
        );
    }
}

//! The state of the gateway session, for requests, the dashboard and tools.
use std::sync::Arc;

use longhaul_types::{Invite, LinkProfile};
use serde::Serialize;
use tokio::time::Instant;

use super::gateway_session::GatewaySession;
use crate::trouble::{KnownTrouble, LoginPage, Trouble};

/// State of the session with the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GatewayState {
    /// A session is being opened.
    Connecting,
    /// The session is open.
    Open,
    /// The gateway has been silent for some time; all state is kept and transfers continue when the link is
    /// back.
    Stalled,
    /// No gateway answers, or the gateway refuses the session. The agent continues to dial.
    Down,
}

/// Source of what is known about the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKnowledge {
    /// The user told the link profile.
    Told,
    /// Earlier sessions in the same network measured it.
    Remembered,
    /// Nothing is known but what the session measures.
    Measured,
}

impl LinkKnowledge {
    /// The knowledge with which a session begins.
    pub(super) const fn of_profile(told: Option<LinkProfile>, remembered: Option<LinkProfile>) -> Self {
        match (told, remembered) {
            (Some(_), _) => Self::Told,
            (None, Some(_)) => Self::Remembered,
            (None, None) => Self::Measured,
        }
    }

    /// The name in `status.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Remembered => "remembered",
            Self::Measured => "measured",
        }
    }
}

/// Snapshot of the session's state.
#[derive(Clone, Debug)]
pub struct SessionSnapshot {
    /// The state.
    pub state: GatewayState,
    /// The session, if there is one.
    pub session: Option<Arc<GatewaySession>>,
    /// Start of the gateway's silence, while an answer is expected; `None` if the session is open.
    pub silent_since: Option<Instant>,
    /// What is wrong with the hop besides a login page, if something is known.
    pub trouble: Option<KnownTrouble>,
    /// The network's login page, if one is in the way.
    pub portal: Option<KnownTrouble>,
    /// True if the gateway has answered since the agent started, or since it was enrolled anew.
    pub has_answered: bool,
    /// Number of the invite in use: 0 for the invite with which the agent started.
    pub enrolment: u64,
    /// Source of what is known about the link of the session.
    pub link: LinkKnowledge,
}

/// An invite in use.
#[derive(Clone, Debug)]
pub(super) struct Enrolment {
    pub(super) number: u64,
    pub(super) invite: Invite,
}

impl SessionSnapshot {
    pub(super) fn starting(enrolment: u64, link: LinkKnowledge) -> Self {
        Self {
            state: GatewayState::Connecting,
            session: None,
            silent_since: Some(Instant::now()),
            trouble: None,
            portal: None,
            has_answered: false,
            enrolment,
            link,
        }
    }

    /// True if the gateway refuses this device: another attempt soon is useless.
    pub fn is_refused(&self) -> bool {
        self.trouble().is_some_and(Trouble::is_refusal)
    }

    /// What is wrong with the hop, and since when. A login page explains everything else.
    pub fn known_trouble(&self) -> Option<&KnownTrouble> {
        self.portal.as_ref().or(self.trouble.as_ref())
    }

    /// The network's login page, if one is in the way.
    pub fn login_page(&self) -> Option<&LoginPage> {
        self.portal.as_ref()?.trouble.login_page()
    }

    /// What is wrong with the hop, if something is known.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.known_trouble().map(|known| &known.trouble)
    }
}

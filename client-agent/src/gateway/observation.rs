//! The observations of the hop that a [`Dialer`] makes, and their publication.
use std::{future::Future, net::SocketAddr, pin::Pin, time::Duration};

use longhaul_carriers::LinkAttempt;
use longhaul_driver::{LinkState, minted_hour};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::{
    carriers,
    dialer::Dialer,
    gateway_session::GatewaySession,
    reachability::{self, FIRST_LOOK, NEXT_LOOK},
    state::GatewayState,
};
use crate::{
    trouble::{ClockDifference, Trouble},
    wall_clock,
};

/// A look for the reason of the gateway's silence.
pub(super) type Look = Pin<Box<dyn Future<Output = Option<Trouble>> + Send>>;

impl Dialer {
    /// Waits for the end of the handshake and looks for the reason if it takes long; `None` if nothing answers
    /// within `patience`. The reason is looked for at the UDP address `looked_at`.
    pub(super) async fn wait_for_answer(
        &mut self,
        session: &GatewaySession,
        looked_at: Option<SocketAddr>,
        patience: Duration,
    ) -> Option<LinkState> {
        let deadline = Instant::now() + patience;
        let mut state = session.transport().state();
        let look_at = |remote, pause| -> Look { Box::pin(reachability::look(remote, pause)) };
        let mut look = looked_at.map(|remote| look_at(remote, FIRST_LOOK));
        let mut attempts = self.attempts.clone();
        loop {
            let silence = self.diagnosis.poll_timeout();
            tokio::select! {
                biased;
                answer = state.wait_for(|state| *state != LinkState::Connecting) => {
                    return answer.ok().map(|state| state.clone());
                }
                () = sleep_until(deadline) => return None,
                found = looked(&mut look) => {
                    look = looked_at.map(|remote| look_at(remote, NEXT_LOOK));
                    self.note_look(found);
                }
                Ok(()) = attempts.changed() => self.note_attempt(),
                () = until(silence) => self.note_silence(),
            }
        }
    }

    /// Compares this computer's clock with the gateway's, which the token of a new session shows. The caller
    /// publishes the result.
    pub(super) fn compare_clocks(&mut self, token: &[u8; 32]) {
        let now = wall_clock::now();
        let difference = minted_hour(token).and_then(|hour| ClockDifference::between(now, hour));
        if let Some(trouble) = self.diagnosis.compared_clocks(Instant::now(), difference) {
            warn!("{trouble}");
        }
    }

    /// Notes the result of a look for the reason of a silence.
    pub(super) fn note_look(&mut self, found: Option<Trouble>) {
        match found {
            Some(trouble) => self.note(trouble),
            None => self.diagnosis.found_nothing(),
        }
    }

    /// What a silence means: what the carrier beside UDP has shown says more than that UDP is silent.
    pub(super) fn silence(&self) -> Trouble {
        let silent = Trouble::Silent(self.config.carrier.tried());
        self.link_trouble.clone().unwrap_or(silent)
    }

    /// Notes what became of the newest attempt to open a link.
    pub(super) fn note_attempt(&mut self) {
        let settings = &self.config.carrier;
        let found = match &*self.attempts.borrow_and_update() {
            LinkAttempt::Pending => return,
            LinkAttempt::Open => None,
            LinkAttempt::Failed(error) => carriers::trouble_of(error, settings.tls_port),
        };
        let is_alone = !self.over.udp;
        // Beside other carriers, a closed TCP port only means that the gateway has no TLS.
        let says_more = |trouble: &Trouble| matches!(trouble, Trouble::Proxy(_) | Trouble::Intercepted);
        self.link_trouble = found.filter(|trouble| is_alone || says_more(trouble));
        let is_open = self.view.borrow().state == GatewayState::Open;
        // Beside UDP, an answer over UDP may still come.
        let shown = self.link_trouble.clone();
        if let Some(trouble) = shown.filter(|_| is_alone && !is_open) {
            self.note(trouble);
        }
    }

    pub(super) fn note_silence(&mut self) {
        let silence = self.silence();
        if let Some(trouble) = self.diagnosis.handle_timeout(Instant::now(), silence) {
            warn!("the hop does not work: {trouble}");
        }
        self.publish_trouble();
    }

    /// Notes an observation; each kind is logged once until the gateway answers.
    pub(super) fn note(&mut self, trouble: Trouble) {
        if let Some(trouble) = self.diagnosis.found(Instant::now(), trouble) {
            warn!("the hop does not work: {trouble}");
        }
        self.publish_trouble();
    }

    pub(super) fn publish_trouble(&self) {
        let trouble = self.diagnosis.current().cloned();
        self.view.send_if_modified(|view| {
            let is_new = view.trouble != trouble;
            view.trouble = trouble;
            is_new
        });
    }
}

/// Waits until `time`; never completes without one.
pub(super) async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Waits for the result of a look; never completes without one.
pub(super) async fn looked(look: &mut Option<Look>) -> Option<Trouble> {
    match look {
        Some(look) => look.await,
        None => std::future::pending().await,
    }
}

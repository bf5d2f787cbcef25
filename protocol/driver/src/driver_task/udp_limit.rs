//! Trials of a link where a network limits UDP (docs/protocol/transport.md section 8.3).
use longhaul_protocol::{
    connection::State,
    endpoint::ConnectionHandle,
    path::{LinkId, Path},
};
use tokio::time::Instant;
use tracing::debug;

use super::DriverTask;
use crate::{
    goodput::Arrived,
    udp_limit::{TrialSituation, TrialStep},
};

impl DriverTask {
    /// Tries the link where UDP seems to be limited, and keeps it or returns.
    pub(super) fn run_udp_limit(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let session = choice.session;
        let Some(connection) = self.endpoint.peek(session) else {
            return;
        };
        if choice.udp.is_none() || connection.state() == State::Early {
            return;
        }
        let is_trying = choice.trial.is_trying();
        if std::mem::replace(&mut choice.shows_trial, is_trying) != is_trying
            && let Some(channels) = self.channels.get(&session)
        {
            channels.note_trial(is_trying);
        }
        let is_on_udp = connection.path().udp().is_some();
        let (is_awaited, is_silent) = (connection.expects_data(), connection.is_path_silent());
        let at = self.clock.now();
        let is_tried = is_trying || choice.trial.is_opening();
        if !(is_on_udp || is_tried) || !choice.trial.is_due(at, is_awaited && !is_silent) {
            return;
        }
        let stats = connection.stats();
        let situation = TrialSituation {
            is_on_udp,
            is_awaited,
            is_silent,
            is_loss_limited: stats.is_loss_limited,
            arrived: Arrived::of(&stats),
        };
        match choice.trial.poll(at, situation) {
            Some(TrialStep::Open) => self.open_link_to_try(now),
            Some(TrialStep::Keep) => {
                debug!("the link carries more than UDP: the session stays on it");
                choice.udp_return.on_better_link(now);
                if let Some(channels) = self.channels.get(&session) {
                    channels.note_worse_udp();
                }
            }
            Some(TrialStep::Return) => self.end_trial(session),
            None => {}
        }
    }

    /// Opens the link of a trial, unless there is one already.
    fn open_link_to_try(&mut self, now: Instant) {
        let Some(choice) = &mut self.choice else { return };
        let at = self.clock.now();
        let carrier = choice.carrier_to_try().filter(|_| choice.link.is_none());
        let Some(carrier) = carrier else {
            choice.trial.on_link_lost(at);
            return;
        };
        debug!("packets are lost without a queue: a link is opened to find out whether UDP is limited");
        let link = self.links.dial(&carrier);
        choice.began(now, at, link);
        self.endpoint.open_link(link, choice.remote, false);
    }

    /// Changes to the link of a trial, which has just connected.
    pub(super) fn begin_trial(&mut self, session: ConnectionHandle, link: LinkId) {
        let at = self.clock.now();
        let (Some(choice), Some(connection)) = (&mut self.choice, self.endpoint.peek(session)) else {
            return;
        };
        choice.trial.on_changed(at, Arrived::of(&connection.stats()));
        choice.on_link(Instant::now());
        self.endpoint.change_path(at, session, link.into());
    }

    /// Returns from the link of a trial to UDP.
    fn end_trial(&mut self, session: ConnectionHandle) {
        let Some(choice) = &mut self.choice else { return };
        debug!("UDP carries as much as the link: the session returns to it");
        choice.udp_return.on_udp();
        let udp = choice.udp.map(Path::from);
        if let Some(udp) = udp {
            self.endpoint.change_path(self.clock.now(), session, udp);
        }
        self.drop_link();
        if let Some(choice) = &mut self.choice {
            choice.end_trial();
        }
    }
}

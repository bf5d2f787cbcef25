//! Links in the driver task: their packets and events, and the carrier of an agent's session.
use std::{net::SocketAddr, time::Duration};

use longhaul_protocol::{
    connection::State,
    endpoint::{ConnectError, ConnectTo, ConnectionHandle},
    path::{LinkId, Path},
};
use longhaul_types::BitRate;
use tokio::time::Instant;
use tracing::debug;

use super::{DriverTask, udp_return::CHALLENGES};
use crate::{
    carrier_choice::{self, CarrierChoice, CarrierPlan, LinkCarriers},
    dial::Alternatives,
    link::LinkEvent,
    udp_addresses::UdpAddresses,
    udp_return::ReturnTimes,
};

/// Maximum number of link events in one turn, so that links do not starve the socket.
const EVENTS_A_TURN: usize = 128;

impl DriverTask {
    /// Creates an agent's session with the gateway at `udp`, over the carriers of the plan.
    pub(crate) fn connect(
        &mut self,
        mut to: ConnectTo,
        udp: SocketAddr,
        alternatives: &Alternatives,
        plan: CarrierPlan,
    ) -> Result<ConnectionHandle, ConnectError> {
        to.remote = udp.into();
        let is_udp_allowed = !matches!(plan, CarrierPlan::Links(..));
        let session = self.begin_session(to, udp, alternatives, plan)?;
        if is_udp_allowed {
            let all = std::iter::once(udp).chain(alternatives.addresses.iter().copied());
            self.udp_addresses = Some((session, UdpAddresses::new(all)));
        }
        Ok(session)
    }

    fn begin_session(
        &mut self,
        to: ConnectTo,
        udp: SocketAddr,
        alternatives: &Alternatives,
        plan: CarrierPlan,
    ) -> Result<ConnectionHandle, ConnectError> {
        match plan {
            CarrierPlan::Udp => {
                let session = self.endpoint.connect(self.clock.now(), to)?;
                self.endpoint
                    .race(session, &alternatives.addresses, alternatives.delay);
                Ok(session)
            }
            CarrierPlan::Links(carriers, times) => self.connect_over_link(to, udp, None, carriers, times),
            CarrierPlan::LinksThenUdp(carriers, times) => {
                let delay = carrier_choice::head_start(to.profile.as_ref());
                let session = self.connect_over_link(to, udp, Some(udp), carriers, times)?;
                let others: Vec<_> = std::iter::once(udp)
                    .chain(alternatives.addresses.iter().copied())
                    .collect();
                self.endpoint.race(session, &others, delay);
                Ok(session)
            }
            CarrierPlan::UdpThen(carriers, times) => {
                let delay = carrier_choice::delay(to.profile.as_ref());
                self.connect_beside_udp(to, udp, alternatives, (carriers, times), delay)
            }
            CarrierPlan::UdpAnd(carriers, times) => {
                self.connect_beside_udp(to, udp, alternatives, (carriers, times), Duration::ZERO)
            }
        }
    }

    /// Creates a session over a link of the first of the carriers. `own` is the gateway's UDP address if it may also use
    /// UDP.
    fn connect_over_link(
        &mut self,
        mut to: ConnectTo,
        remote: SocketAddr,
        own: Option<SocketAddr>,
        carriers: LinkCarriers,
        times: ReturnTimes,
    ) -> Result<ConnectionHandle, ConnectError> {
        let now = self.clock.now();
        let link = self.links.dial(carriers.first());
        self.endpoint.open_link(link, remote, true);
        to.remote = link.into();
        let session = self.endpoint.connect(now, to)?;
        self.fit_init(session, &carriers);
        let mut choice = CarrierChoice::new(session, own, remote, carriers, None, times);
        choice.began(Instant::now(), now, link);
        self.choice = Some(choice);
        Ok(session)
    }

    /// Creates a session over UDP, beside which the carriers start after `delay`.
    fn connect_beside_udp(
        &mut self,
        to: ConnectTo,
        udp: SocketAddr,
        alternatives: &Alternatives,
        (carriers, times): (LinkCarriers, ReturnTimes),
        delay: Duration,
    ) -> Result<ConnectionHandle, ConnectError> {
        let due = Instant::now() + delay;
        let session = self.endpoint.connect(self.clock.now(), to)?;
        self.endpoint
            .race(session, &alternatives.addresses, alternatives.delay);
        self.fit_init(session, &carriers);
        self.choice = Some(CarrierChoice::new(
            session,
            Some(udp),
            udp,
            carriers,
            Some(due),
            times,
        ));
        Ok(session)
    }

    /// All paths get the same INIT: it has to fit each of them.
    fn fit_init(&mut self, session: ConnectionHandle, carriers: &LinkCarriers) {
        if carriers.has_datagrams() {
            self.endpoint.fit_init_to_links(session);
        }
    }

    /// Sends the datagram in the buffer over a link.
    pub(super) fn send_on_link(&mut self, link: LinkId, session: Option<ConnectionHandle>) {
        let rate = session.and_then(|session| Some(self.endpoint.peek(session)?.send_rate()));
        self.links.send(link, &self.datagram, rate);
        let room = self.links.has_room(link, rate.unwrap_or(BitRate::bps(0)));
        if !room {
            self.endpoint.set_link_writable(link, false);
        }
    }

    pub(super) fn handle_link_events(&mut self, first: (LinkId, LinkEvent)) {
        self.handle_link_event(first);
        for _ in 0..EVENTS_A_TURN {
            let Ok(next) = self.links.events.try_recv() else {
                return;
            };
            self.handle_link_event(next);
        }
    }

    fn handle_link_event(&mut self, (link, event): (LinkId, LinkEvent)) {
        match event {
            LinkEvent::Accepted { peer, driver_end } => {
                if self.incoming.is_some() && self.links.accept(link, driver_end) {
                    self.endpoint.open_link(link, peer, true);
                }
            }
            LinkEvent::Connected(peer) => {
                debug!(%peer, "the carrier is connected");
                self.links.set_connected(link);
                self.endpoint.set_link_writable(link, true);
                self.use_connected_link(link);
            }
            LinkEvent::Payload(payload) => self.endpoint.set_link_payload(link, payload),
            LinkEvent::Packet(mut packet) => {
                let now = self.clock.now();
                self.endpoint.handle_datagram(now, link, &mut packet);
                self.links.processed(link);
            }
            // The next packet is built when the session is served; `send_on_link` stops after it if the link
            // is full again.
            LinkEvent::Drained => {
                let is_connected = self.links.is_connected(link);
                self.endpoint.set_link_writable(link, is_connected);
            }
            LinkEvent::Ended => self.end_link(link),
        }
    }

    pub(super) fn end_link(&mut self, link: LinkId) {
        let was_connected = self.links.is_connected(link);
        self.links.close(link);
        let now = Instant::now();
        if self
            .choice
            .as_ref()
            .is_some_and(|choice| choice.second == Some(link))
        {
            self.end_second_link(link);
            return;
        }
        if self.end_predecessor(link) {
            return;
        }
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.link == Some(link)) else {
            self.endpoint.close_link(link);
            return;
        };
        debug!(was_connected, "the carrier has ended");
        if choice.doubts.is_opening() {
            choice.doubts.in_vain(self.clock.now());
            choice.rest();
        } else if choice.trial.is_opening() || choice.trial.is_trying() {
            choice.trial.on_link_lost(self.clock.now());
            choice.end_trial();
        } else if choice.udp_return.keeps_link() {
            choice.udp_return.on_udp();
            choice.rest();
            // The session uses its second link already.
            if choice.second.is_some() {
                choice.adopt_second();
                choice.on_link(now);
            }
        } else {
            // A successor that did not answer has failed as well.
            choice.ended(now, was_connected && choice.predecessor.is_none());
        }
        self.lose_path(link);
    }

    /// Continues over UDP if the session's path is this link, which has ended: until a carrier is connected again, UDP is the
    /// only path.
    pub(super) fn lose_path(&mut self, link: LinkId) {
        self.endpoint.close_link(link);
        let Some(choice) = &self.choice else { return };
        let (session, udp) = (choice.session, choice.udp);
        let Some(connection) = self.endpoint.peek(session) else {
            return;
        };
        let is_lost = connection.path() == Path::Link(link) && connection.state() != State::Early;
        if let Some(udp) = udp.filter(|_| is_lost) {
            self.endpoint.change_path(self.clock.now(), session, udp.into());
        }
    }

    /// Uses a link that has just connected, if the session needs it.
    pub(super) fn use_connected_link(&mut self, link: LinkId) {
        if let Some(choice) = self.choice.as_ref().filter(|choice| choice.second == Some(link)) {
            self.endpoint.probe_path(choice.session, link.into(), CHALLENGES);
            return;
        }
        let Some(choice) = self.choice.as_mut().filter(|choice| choice.link == Some(link)) else {
            return;
        };
        if choice.predecessor.is_some() {
            self.probe_successor(link.into());
            return;
        }
        choice.succeeded();
        let (session, uses_udp, started) = (choice.session, choice.udp.is_some(), choice.started);
        let Some(connection) = self.endpoint.peek(session) else {
            return;
        };
        if connection.state() == State::Early || connection.path() == Path::Link(link) {
            return;
        }
        if choice.trial.is_opening() && !connection.is_path_silent() {
            self.begin_trial(session, link);
            return;
        }
        choice.trial.cancel();
        if choice.doubts.is_opening() && !connection.is_path_silent() {
            // The link is open before UDP had time to answer: `run_doubts` uses or ends it.
            return;
        }
        let has_answered =
            uses_udp && connection.last_received_at() > started && !connection.is_path_silent();
        if has_answered {
            // UDP has answered meanwhile.
            choice.doubts.in_vain(self.clock.now());
            self.drop_link();
            return;
        }
        choice.doubts.succeeded();
        debug!("UDP is silent: the session continues over the carrier");
        choice.on_link(Instant::now());
        // The handshake may have taken longer than a silent link is given.
        choice.started = self.clock.now();
        self.endpoint.change_path(self.clock.now(), session, link.into());
    }

    /// Ends an attempt that began before the network changed: its packets leave from an address that may be gone. The next one
    /// begins now if the session needs a link.
    pub(super) fn restart_attempt(&mut self, needs_link: bool) {
        let Some(choice) = &mut self.choice else { return };
        let is_early = self
            .endpoint
            .peek(choice.session)
            .is_none_or(|connection| connection.state() == State::Early);
        let Some(link) = choice
            .link
            .filter(|link| !is_early && !self.links.is_connected(*link))
        else {
            return;
        };
        if needs_link {
            choice.restart(Instant::now());
        } else {
            choice.rest();
        }
        self.links.close(link);
        self.endpoint.close_link(link);
    }

    /// Ends the link of an agent's session and the attempts to open one.
    pub(super) fn drop_link(&mut self) {
        let Some(choice) = &mut self.choice else { return };
        let old = choice.predecessor.take().map(|old| old.link);
        for link in choice.link.into_iter().chain(choice.second.take()).chain(old) {
            self.links.close(link);
            self.endpoint.close_link(link);
        }
        choice.rest();
    }

    /// The operating system refused a datagram: no answer can come over UDP at present.
    pub(super) fn on_udp_refused(&mut self) {
        if let Some(choice) = &mut self.choice {
            choice.hurry(Instant::now());
        }
    }

    /// The session is open: another path than that of the answer is not needed.
    pub(super) fn on_connected(&mut self, session: ConnectionHandle) {
        let Some(choice) = self.choice.as_ref().filter(|choice| choice.session == session) else {
            return;
        };
        let path = self.endpoint.peek(session).map(|connection| connection.path());
        if choice.link.map(Path::Link) != path {
            if let Some(address) = path.and_then(Path::udp) {
                self.note_udp_address(address);
            }
            self.drop_link();
        } else if let Some(choice) = &mut self.choice {
            choice.on_open_over_link(Instant::now());
        }
    }

    /// Opens a carrier if it is due, and ends links without a session.
    pub(super) fn run_carriers(&mut self) {
        let now = Instant::now();
        for link in self.links.sweep(now, |link| self.endpoint.is_link_used(link)) {
            // An agent's links end with its choice.
            if self.choice.is_none() {
                self.links.close(link);
                self.endpoint.close_link(link);
            }
        }
        self.run_udp_addresses(now);
        self.run_udp_return(now);
        self.run_udp_limit(now);
        self.run_doubts(now);
        self.run_succession(now);
        let Some(choice) = &mut self.choice else { return };
        let Some(connection) = self.endpoint.peek(choice.session) else {
            return;
        };
        let is_early = connection.state() == State::Early;
        if !is_early && connection.path().udp().is_some() {
            if connection.is_path_silent() {
                choice.hurry(now);
            } else if choice.link.is_none()
                && !choice.doubts.is_opening()
                && connection.last_received_at() > choice.started
            {
                choice.on_udp_answer(self.clock.now());
            }
        }
        if let Some(link) = choice.link
            && choice.gives_up.is_some_and(|at| at <= now)
        {
            debug!("the handshake of the carrier takes too long");
            self.end_link(link);
            return;
        }
        if choice.link.is_some() || choice.due.is_none_or(|due| due > now) {
            return;
        }
        if choice.waits_for_init() {
            return;
        }
        let at = self.clock.now();
        let link = self.links.dial(&choice.next_carrier());
        choice.began(now, at, link);
        let session = choice.session;
        // The INIT travels with the carrier's handshake; an open session waits for the handshake.
        self.endpoint.open_link(link, choice.remote, is_early);
        if is_early {
            self.endpoint.add_path(at, session, link.into());
        }
    }

    /// Time of the next call of [`DriverTask::run_carriers`].
    pub(super) fn next_carrier_time(&self) -> Option<Instant> {
        let choice = self.choice.as_ref();
        let times = choice.map(|choice| {
            // Beside a silent link, the return to UDP waits.
            let returns = choice.udp_return.due().filter(|_| choice.predecessor.is_none());
            [choice.due, choice.gives_up, returns]
        });
        let trial = choice.and_then(|choice| choice.trial.due());
        let trial = trial.map(|due| self.clock.instant(due));
        let address = self.udp_addresses.as_ref().and_then(|(_, all)| all.due());
        let times = times.into_iter().flatten().flatten().chain(address).chain(trial);
        times.chain(self.links.next_sweep()).min()
    }
}

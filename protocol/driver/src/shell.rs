//! The task that owns socket, clock and endpoint.
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    time::Duration,
};

use longhaul_protocol::{
    endpoint::{ConnectionHandle, DeviceStatus, Endpoint, EndpointCounters, Event},
    streams::StreamEvent,
};
use longhaul_types::{LinkProfile, PublicKey, Timestamp};
use tokio::sync::{mpsc, watch};
use tracing::{debug, trace, warn};

use crate::{
    batch::Batch,
    clock::Clock,
    command::{Command, CommandQueue, ConnectionCommand},
    links::Links,
    listen::Incoming,
    session::{LinkState, Session},
    socket::SessionSocket,
};

/// Requests of users taken in one turn, so that the socket is not starved by them.
const COMMANDS_A_TURN: usize = 128;
/// Datagrams sent in one turn, so that arriving feedback is not starved by a fast sender: 128 are 1.3 ms of 1 Gbit/s.
const DATAGRAMS_A_TURN: usize = 128;
/// How long a shell that was told to end goes on, so that its CLOSE packets leave.
const LINGER: Duration = Duration::from_millis(200);

/// What a shell's owner tells it.
#[derive(Debug)]
pub(crate) enum Control {
    Devices(BTreeMap<PublicKey, DeviceStatus>),
    /// Close every session with this error, then end.
    Shutdown(u64),
}

/// The state of the task.
pub(crate) struct Shell {
    endpoint: Endpoint,
    socket: SessionSocket,
    clock: Clock,
    commands: CommandQueue,
    links: BTreeMap<ConnectionHandle, Links>,
    /// Where sessions that peers open go; an agent's shell has none.
    incoming: Option<mpsc::Sender<Incoming>>,
    control: mpsc::Receiver<Control>,
    counters: watch::Sender<EndpointCounters>,
    /// Connections whose statistics changed in this turn.
    touched: BTreeSet<ConnectionHandle>,
    /// What goes to the socket in one call.
    batch: Batch,
    /// A datagram of the core that was not for the batch before.
    ahead: Option<SocketAddr>,
    /// Its bytes; else the memory into which the core writes the next one.
    datagram: Vec<u8>,
    /// Whether anybody still holds the other end of `control`.
    owned: bool,
    ends: Ends,
}

/// When the task ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// When its owner says so.
    OnControl,
    /// When its last session is over.
    WithSessions,
    /// Soon: it only sends what is left.
    Lingering(tokio::time::Instant),
}

impl Shell {
    pub(crate) fn new(
        endpoint: Endpoint,
        socket: SessionSocket,
        clock: Clock,
        incoming: Option<mpsc::Sender<Incoming>>,
        control: mpsc::Receiver<Control>,
        counters: watch::Sender<EndpointCounters>,
    ) -> Self {
        let ends = if incoming.is_some() {
            Ends::OnControl
        } else {
            Ends::WithSessions
        };
        Self {
            endpoint,
            socket,
            clock,
            commands: CommandQueue::new(),
            links: BTreeMap::new(),
            incoming,
            control,
            counters,
            touched: BTreeSet::new(),
            batch: Batch::default(),
            ahead: None,
            datagram: Vec::new(),
            owned: true,
            ends,
        }
    }

    /// Makes the users' handle for a connection.
    pub(crate) fn link(&mut self, handle: ConnectionHandle, state: LinkState) -> Session {
        let (links, session) = Links::new(self.commands.commands(handle), state);
        self.links.insert(handle, links);
        self.touched.insert(handle);
        session
    }

    /// The endpoint and a connection's links, to fill its first streams before the task runs.
    pub(crate) fn parts(&mut self, handle: ConnectionHandle) -> Option<(&mut Endpoint, &mut Links, &Clock)> {
        let links = self.links.get_mut(&handle)?;
        Some((&mut self.endpoint, links, &self.clock))
    }

    /// Runs until it has nothing more to do.
    pub(crate) async fn run(mut self) {
        loop {
            let more = self.turn();
            if let Ends::Lingering(until) = self.ends
                && (tokio::time::Instant::now() >= until || self.links.is_empty() && !more)
            {
                return;
            }
            if self.ends == Ends::WithSessions && self.links.is_empty() && self.batch.is_empty() {
                // Sessions that were closed here may still have to say so.
                self.ends = Ends::Lingering(tokio::time::Instant::now() + LINGER);
            }
            self.wait(more).await;
        }
    }

    /// One round of timers, events and sending. Says whether it stopped with more to send.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        self.note_expectations(now);
        self.endpoint.handle_timeout(now);
        self.handle_events();
        let more = self.transmit();
        self.handle_events();
        self.publish();
        more
    }

    /// Tells an agent's connections whether their users wait for something. It has few; a gateway's are not asked.
    fn note_expectations(&mut self, now: Timestamp) {
        if self.incoming.is_some() {
            return;
        }
        for (handle, links) in &self.links {
            let expects = links.expects_data();
            if self
                .endpoint
                .peek(*handle)
                .is_some_and(|of| of.expects_data() != expects)
                && let Some(connection) = self.endpoint.connection(*handle)
            {
                connection.expect_data(now, expects);
            }
        }
    }

    async fn wait(&mut self, more: bool) {
        let linger = match self.ends {
            Ends::Lingering(until) => Some(until),
            Ends::OnControl | Ends::WithSessions => None,
        };
        let due = if more {
            Some(tokio::time::Instant::now())
        } else {
            self.next_timer()
        };
        let due = [due, linger].into_iter().flatten().min();
        let timer = async {
            match due {
                Some(due) => tokio::time::sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        let writable = async {
            if self.batch.is_empty() {
                std::future::pending().await
            } else {
                self.socket.writable().await
            }
        };
        tokio::select! {
            biased;
            result = self.socket.readable() => {
                if let Err(error) = result {
                    warn!(%error, "socket cannot be read");
                }
                self.receive();
            }
            _result = writable => {}
            control = self.control.recv(), if self.owned => self.handle_control(control),
            Some(command) = self.commands.late.recv() => self.handle_commands(command),
            Some(command) = self.commands.queue.recv() => self.handle_commands(command),
            () = timer => {}
        }
    }

    fn next_timer(&self) -> Option<tokio::time::Instant> {
        if !self.batch.is_empty() {
            return None;
        }
        self.endpoint.poll_timeout().map(|at| self.clock.instant(at))
    }

    fn receive(&mut self) {
        let now = self.clock.now();
        let Self { socket, endpoint, .. } = self;
        let received = socket.receive(|remote, datagram| endpoint.handle_datagram(now, remote, datagram));
        match received {
            Ok(datagrams) => trace!(datagrams, "received"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // An ICMP error of an earlier datagram shows here; the transport's own timers deal with silence.
            Err(error) => debug!(%error, "receive"),
        }
    }

    fn handle_commands(&mut self, first: Command) {
        self.handle_command(first);
        for _ in 0..COMMANDS_A_TURN {
            let next = self
                .commands
                .late
                .try_recv()
                .or_else(|_| self.commands.queue.try_recv());
            let Ok(command) = next else { return };
            self.handle_command(command);
        }
    }

    fn handle_command(
        &mut self,
        Command {
            connection: handle,
            what,
        }: Command,
    ) {
        let now = self.clock.now();
        let (Some(links), Some(connection)) = (self.links.get_mut(&handle), self.endpoint.connection(handle))
        else {
            if let ConnectionCommand::Open { reply, .. } = what {
                drop(reply);
            }
            return;
        };
        links.carry_out(now, connection, what);
        self.touched.insert(handle);
    }

    fn handle_control(&mut self, control: Option<Control>) {
        let now = self.clock.now();
        match control {
            Some(Control::Devices(devices)) => self.endpoint.set_devices(now, devices),
            Some(Control::Shutdown(error)) => {
                for handle in self.links.keys() {
                    if let Some(connection) = self.endpoint.connection(*handle) {
                        connection.close(now, error, "");
                    }
                }
                self.incoming = None;
                self.ends = Ends::Lingering(tokio::time::Instant::now() + LINGER);
            }
            None => {
                self.owned = false;
                // A dial never had an owner: its sessions decide.
                if self.ends == Ends::OnControl {
                    self.handle_control(Some(Control::Shutdown(0)));
                }
            }
        }
    }

    fn handle_events(&mut self) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.touched.insert(handle);
            self.handle_event(handle, event);
        }
    }

    fn handle_event(&mut self, handle: ConnectionHandle, event: Event) {
        if let Event::Accepted { device, profile } = event {
            self.take_in(handle, device, profile);
            return;
        }
        let now = self.clock.now();
        let Some(links) = self.links.get_mut(&handle) else {
            return;
        };
        match event {
            Event::Accepted { .. } | Event::Moved => {}
            Event::Connected { early } => {
                debug!(?early, "session open");
                // Whoever sees the session open may ask for its exporter secret at once.
                if let Some(connection) = self.endpoint.connection(handle) {
                    links.publish(connection);
                }
                links.set_state(LinkState::Open);
            }
            Event::Stalled => links.set_state(LinkState::Stalled),
            Event::Resumed => links.set_state(LinkState::Open),
            Event::Token(token) => links.set_token(token),
            Event::Closed(reason) => {
                if let Some(connection) = self.endpoint.connection(handle) {
                    links.publish(connection);
                }
                links.close(&reason);
                self.links.remove(&handle);
                debug!(%reason, "session over");
            }
            Event::Stream(event) => {
                if let Some(connection) = self.endpoint.connection(handle) {
                    match event {
                        StreamEvent::Opened => links.accept(now, connection),
                        StreamEvent::Readable(id) | StreamEvent::Cancelled(id, _) => {
                            links.read(now, connection, id)
                        }
                        StreamEvent::Writable(id) => links.write_waiting(now, connection, id),
                        StreamEvent::Finished(id) => links.sent(id),
                        StreamEvent::Stopped(id, error) => links.stopped(id, error),
                        StreamEvent::Available => links.open_waiting(now, connection),
                    }
                }
            }
        }
    }

    /// Hands a session that a device opened to the gateway; refuses it when nobody takes sessions.
    fn take_in(&mut self, handle: ConnectionHandle, device: PublicKey, profile: Option<LinkProfile>) {
        let session = self.link(handle, LinkState::Open);
        let now = self.clock.now();
        if let (Some(links), Some(connection)) =
            (self.links.get_mut(&handle), self.endpoint.connection(handle))
        {
            links.publish(connection);
            links.accept(now, connection);
        }
        let taken = self.incoming.as_ref().is_some_and(|incoming| {
            incoming
                .try_send(Incoming {
                    session,
                    device,
                    profile,
                })
                .is_ok()
        });
        if !taken {
            debug!("nobody takes the session");
        }
    }

    /// Sends what the core wants sent now. Says whether it stopped with more to send.
    fn transmit(&mut self) -> bool {
        let now = self.clock.now();
        if !self.send() {
            return false;
        }
        let mut left = DATAGRAMS_A_TURN;
        while left > 0 {
            let datagrams = self.fill_batch(now, left);
            if datagrams == 0 || !self.send() {
                return false;
            }
            left = left.saturating_sub(datagrams);
        }
        true
    }

    /// Fills the batch with at most `most` datagrams that the core would send now, one after the other, to the same peer. The
    /// pacer has let each of them go, so that a batch never holds more than what would go in as many calls.
    fn fill_batch(&mut self, now: Timestamp, most: usize) -> usize {
        let most = most.min(self.socket.max_segments());
        let session = match self.ahead.take() {
            Some(remote) => {
                self.batch.restart(remote, &self.datagram);
                None
            }
            None => {
                let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.datagram) else {
                    return 0;
                };
                // Its counters and estimates have changed, though nobody wrote or read.
                self.touched.extend(transmit.session);
                self.batch.restart(transmit.remote, &self.datagram);
                transmit.session
            }
        };
        let Some(session) = session else { return 1 };
        while self.batch.has_room(most) {
            let Some(transmit) = self.endpoint.poll_transmit_of(now, session, &mut self.datagram) else {
                break;
            };
            if !self.batch.takes(transmit.remote, transmit.len) {
                self.ahead = Some(transmit.remote);
                break;
            }
            self.batch.push(&self.datagram);
        }
        self.batch.segments()
    }

    /// Sends the batch, or keeps what the socket does not take yet. Says whether more can be sent.
    fn send(&mut self) -> bool {
        match self.socket.send(&mut self.batch) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(error) => {
                // No route, no permission: for the transport it is a lost packet, which it repairs.
                debug!(%error, "send");
                true
            }
        }
    }

    fn publish(&mut self) {
        for handle in std::mem::take(&mut self.touched) {
            if let (Some(links), Some(connection)) = (self.links.get(&handle), self.endpoint.peek(handle)) {
                links.publish(connection);
            }
        }
        let counters = self.endpoint.counters();
        self.counters.send_if_modified(|now| {
            let changed = *now != counters;
            *now = counters;
            changed
        });
    }
}

#[cfg(test)]
mod tests;

//! The task that owns socket, links, clock and endpoint.
mod carriers;
mod commands;
mod doubts;
mod events;
mod succession;
mod transmit;
mod udp_addresses;
mod udp_limit;
mod udp_return;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    time::Duration,
};

use longhaul_protocol::{
    endpoint::{ConnectionHandle, DeviceStatus, Endpoint, EndpointCounters},
    path::UdpPath,
    wire::Refusal,
};
use longhaul_types::{PublicKey, Timestamp};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, trace, warn};

use crate::{
    batch::Batch,
    carrier_choice::CarrierChoice,
    clock::Clock,
    command::CommandQueue,
    connection_channels::ConnectionChannels,
    incoming::Incoming,
    link::LinkAcceptor,
    links::Links,
    session::{LinkState, Session},
    sockets::Sockets,
    udp_addresses::UdpAddresses,
};

/// Time for which an ending task continues, so that its CLOSE packets are sent.
const LINGER: Duration = Duration::from_millis(200);

/// A command of the task's owner.
#[derive(Debug)]
pub(crate) enum Control {
    Devices(BTreeMap<PublicKey, DeviceStatus>),
    /// Sets the limits of sessions, and of streams of sessions that open later.
    Limits {
        max_sessions: usize,
        max_streams: u64,
    },
    /// Refuses new sessions, or admits them again.
    Drain(bool),
    /// Asks whether the task runs.
    LivenessProbe(oneshot::Sender<()>),
    /// Closes every session with this error code, then ends the task.
    Shutdown(u64),
}

/// State of the task.
pub(crate) struct DriverTask {
    endpoint: Endpoint,
    sockets: Sockets,
    clock: Clock,
    commands: CommandQueue,
    channels: BTreeMap<ConnectionHandle, ConnectionChannels>,
    /// Channel for sessions that peers open; `None` for an agent's task.
    incoming: Option<mpsc::Sender<Incoming>>,
    /// Channel for devices that were refused a session; `None` for an agent's task.
    refusals: Option<mpsc::Sender<(PublicKey, Refusal)>>,
    control: mpsc::Receiver<Control>,
    counters: watch::Sender<EndpointCounters>,
    /// Connections whose statistics changed in this turn.
    touched: BTreeSet<ConnectionHandle>,
    links: Links,
    /// The carrier of an agent's session; `None` if it uses only UDP, and at a gateway.
    choice: Option<CarrierChoice>,
    /// The session of an agent that may use UDP, and the gateway's addresses.
    udp_addresses: Option<(ConnectionHandle, UdpAddresses)>,
    /// Datagrams for the next call of the socket.
    batch: Batch,
    /// Path of a datagram that did not fit the previous batch.
    deferred: Option<UdpPath>,
    /// Bytes of that datagram; otherwise the buffer into which the core writes the next datagram.
    datagram: Vec<u8>,
    /// True while the other end of `control` exists.
    owned: bool,
    ends: Ends,
}

/// Condition for the end of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// A command of the owner.
    OnControl,
    /// The end of the last session.
    WithSessions,
    /// A short time: the task only sends the remaining packets.
    Lingering(tokio::time::Instant),
}

impl DriverTask {
    pub(crate) fn new(
        endpoint: Endpoint,
        sockets: impl Into<Sockets>,
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
            sockets: sockets.into(),
            clock,
            commands: CommandQueue::new(),
            channels: BTreeMap::new(),
            incoming,
            refusals: None,
            control,
            counters,
            touched: BTreeSet::new(),
            links: Links::new(),
            choice: None,
            udp_addresses: None,
            batch: Batch::default(),
            deferred: None,
            datagram: Vec::new(),
            owned: true,
            ends,
        }
    }

    /// Reports devices that are refused a session. Reports that do not fit the channel are dropped.
    pub(crate) fn report_refusals(&mut self, refusals: mpsc::Sender<(PublicKey, Refusal)>) {
        self.refusals = Some(refusals);
    }

    /// Opens links of peers that connect over another carrier.
    pub(crate) fn acceptor(&self) -> LinkAcceptor {
        self.links.acceptor()
    }

    /// Creates the users' handle for a connection.
    pub(crate) fn add_connection(&mut self, handle: ConnectionHandle, state: LinkState) -> Session {
        let (channels, session) = ConnectionChannels::new(self.commands.commands(handle), state);
        self.channels.insert(handle, channels);
        self.touched.insert(handle);
        session
    }

    /// Returns the endpoint and a connection's channels, to fill the first streams before the task runs.
    pub(crate) fn parts(
        &mut self,
        handle: ConnectionHandle,
    ) -> Option<(&mut Endpoint, &mut ConnectionChannels, &Clock)> {
        let channels = self.channels.get_mut(&handle)?;
        Some((&mut self.endpoint, channels, &self.clock))
    }

    /// Runs until the task ends.
    pub(crate) async fn run(mut self) {
        loop {
            let more = self.turn();
            if let Ends::Lingering(until) = self.ends
                && (tokio::time::Instant::now() >= until || self.channels.is_empty() && !more)
            {
                return;
            }
            if self.ends == Ends::WithSessions && self.channels.is_empty() && self.batch.is_empty() {
                // Locally closed sessions may still have to send CLOSE.
                self.ends = Ends::Lingering(tokio::time::Instant::now() + LINGER);
            }
            self.wait(more).await;
        }
    }

    /// One round of timers, events and sending. Returns true if more datagrams can be sent at once.
    fn turn(&mut self) -> bool {
        let now = self.clock.now();
        self.note_expectations(now);
        self.run_carriers();
        self.endpoint.handle_timeout(now);
        self.handle_events();
        let more = self.transmit();
        self.handle_events();
        self.publish();
        more
    }

    /// Informs an agent's connections if their users wait for data. An agent has few connections; a gateway's
    /// connections are not informed.
    fn note_expectations(&mut self, now: Timestamp) {
        if self.incoming.is_some() {
            return;
        }
        for (handle, channels) in &self.channels {
            let expects = channels.expects_data();
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
        let due = [due, linger, self.next_carrier_time()]
            .into_iter()
            .flatten()
            .min();
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
                self.sockets.writable(&self.batch).await
            }
        };
        tokio::select! {
            biased;
            result = self.sockets.readable() => match result {
                Ok(number) => self.receive(number),
                Err(error) => warn!(%error, "socket cannot be read"),
            },
            _result = writable => {}
            Some(event) = self.links.events.recv() => self.handle_link_events(event),
            control = self.control.recv(), if self.owned => self.handle_control(control),
            Some(command) = self.commands.unlimited.recv() => self.handle_commands(command),
            Some(command) = self.commands.queue.recv() => self.handle_commands(command),
            () = timer => {}
        }
        self.handle_waiting();
    }

    fn next_timer(&self) -> Option<tokio::time::Instant> {
        if !self.batch.is_empty() {
            return None;
        }
        self.endpoint.poll_timeout().map(|at| self.clock.instant(at))
    }

    fn receive(&mut self, number: usize) {
        let now = self.clock.now();
        let Self {
            sockets, endpoint, ..
        } = self;
        let received = sockets.receive(number, |path, datagram| {
            endpoint.handle_datagram(now, path, datagram)
        });
        match received {
            Ok(datagrams) => trace!(datagrams, "received"),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // An ICMP error for an earlier datagram appears here; the transport's timers handle the silence.
            Err(error) => debug!(%error, "receive"),
        }
    }

    fn handle_control(&mut self, control: Option<Control>) {
        let now = self.clock.now();
        match control {
            Some(Control::Devices(devices)) => self.endpoint.set_devices(now, devices),
            Some(Control::Limits {
                max_sessions,
                max_streams,
            }) => self.endpoint.set_limits(max_sessions, max_streams),
            Some(Control::Drain(is_draining)) => self.endpoint.set_draining(is_draining),
            Some(Control::LivenessProbe(reply)) => {
                // The asker may have given up.
                let _gone = reply.send(());
            }
            Some(Control::Shutdown(error)) => {
                for handle in self.channels.keys() {
                    if let Some(connection) = self.endpoint.connection(*handle) {
                        connection.close(now, error, "");
                    }
                }
                self.incoming = None;
                self.ends = Ends::Lingering(tokio::time::Instant::now() + LINGER);
            }
            None => {
                self.owned = false;
                // A dialled task never had an owner: its sessions decide.
                if self.ends == Ends::OnControl {
                    self.handle_control(Some(Control::Shutdown(0)));
                }
            }
        }
    }

    fn publish(&mut self) {
        for handle in std::mem::take(&mut self.touched) {
            if let (Some(channels), Some(connection)) =
                (self.channels.get(&handle), self.endpoint.peek(handle))
            {
                channels.publish(connection);
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

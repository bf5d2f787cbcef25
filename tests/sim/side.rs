//! One end of the simulated session: its endpoint, its user, and its events.
use longhaul_protocol::{
    connection::{ConnectionStats, TransportConfig},
    endpoint::{CloseReason, ConnectionHandle, Endpoint, Event},
};
use longhaul_types::{ByteCount, Timestamp};

use crate::{application::Application, datagram::TraceHash, packets::PacketNumbers};

/// Maximum bytes that the streams of a side may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) received: ByteCount,
    pub(crate) to_send: ByteCount,
}

impl Bounds {
    pub(crate) fn of(config: &TransportConfig) -> Self {
        /// Bytes that each stream may buffer in addition to the total.
        const GUARANTEED: u64 = 64 * 1024;
        let guaranteed = ByteCount::new(GUARANTEED * config.max_streams);
        Self {
            received: config.receive_buffer,
            to_send: config.send_buffer_total + guaranteed,
        }
    }
}

/// One end of the simulated session.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) handle: Option<ConnectionHandle>,
    pub(crate) application: Application,
    /// All events except those of streams.
    pub(crate) events: Vec<(Timestamp, Event)>,
    pub(crate) closed: Option<(Timestamp, CloseReason)>,
    /// Datagrams sent after the session was closed.
    pub(crate) sent_after_close: usize,
    pub(crate) packet_numbers: PacketNumbers,
    pub(crate) sent: usize,
}

impl Side {
    pub(crate) fn new(endpoint: Endpoint, application: Application) -> Self {
        Self {
            endpoint,
            handle: None,
            application,
            events: Vec::new(),
            closed: None,
            sent_after_close: 0,
            packet_numbers: PacketNumbers::default(),
            sent: 0,
        }
    }

    /// Counters of its session.
    pub(crate) fn stats(&mut self) -> Option<ConnectionStats> {
        Some(self.endpoint.connection(self.handle?)?.stats())
    }

    /// Time of the first event that `wanted` accepts.
    pub(crate) fn first(&self, wanted: impl Fn(&Event) -> bool) -> Option<Timestamp> {
        self.events
            .iter()
            .find(|(_, event)| wanted(event))
            .map(|(at, _)| *at)
    }

    /// Passes events to the application and executes its actions until nothing more is due.
    pub(crate) fn use_connection(&mut self, now: Timestamp, hash: &mut TraceHash) {
        loop {
            while let Some((handle, event)) = self.endpoint.poll_event() {
                hash.bytes(format!("{event:?}").as_bytes());
                self.mind(now, handle, event);
            }
            let due = self.application.next_action().is_some_and(|at| at <= now);
            let Some(handle) = self.handle.filter(|_| due && self.closed.is_none()) else {
                return;
            };
            let Some(connection) = self.endpoint.connection(handle) else {
                return;
            };
            self.application.act(now, connection);
        }
    }

    fn mind(&mut self, now: Timestamp, handle: ConnectionHandle, event: Event) {
        assert!(self.closed.is_none(), "{event:?} after the end of the session");
        match event {
            Event::Stream(event) => {
                assert_eq!(Some(handle), self.handle, "an event of another session");
                if let Some(connection) = self.endpoint.connection(handle) {
                    self.application.on_event(now, connection, event);
                }
                return;
            }
            Event::Accepted { .. } => {
                assert_eq!(self.handle, None, "a second session was accepted");
                self.handle = Some(handle);
            }
            Event::Closed(ref reason) => self.closed = Some((now, reason.clone())),
            Event::Connected { .. }
            | Event::Datagrams
            | Event::Stalled
            | Event::Resumed
            | Event::Token(_)
            | Event::Moved
            | Event::PathProbed { .. } => {}
        }
        self.events.push((now, event));
    }
}

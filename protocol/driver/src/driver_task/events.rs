//! Events of the core in the driver task: streams and sessions for their users.
use longhaul_protocol::{
    endpoint::{ConnectionHandle, Event},
    streams::StreamEvent,
};
use longhaul_types::{LinkProfile, PublicKey};
use tracing::debug;

use super::DriverTask;
use crate::{incoming::Incoming, session::LinkState};

impl DriverTask {
    pub(super) fn handle_events(&mut self) {
        while let Some((handle, event)) = self.endpoint.poll_event() {
            self.touched.insert(handle);
            self.handle_event(handle, event);
        }
        while let Some(refusal) = self.endpoint.poll_refusal() {
            if let Some(refusals) = &self.refusals {
                let _full = refusals.try_send(refusal);
            }
        }
    }

    fn handle_event(&mut self, handle: ConnectionHandle, event: Event) {
        if let Event::Accepted { device, profile } = event {
            self.accept_session(handle, device, profile);
            return;
        }
        let now = self.clock.now();
        let Some(channels) = self.channels.get_mut(&handle) else {
            return;
        };
        match event {
            Event::Accepted { .. } | Event::Moved => {}
            Event::PathProbed { path, rtt } => {
                if self.on_successor_probed(path, rtt) {
                    return;
                }
                let is_address = path
                    .udp()
                    .is_some_and(|address| self.on_address_probed(address, rtt));
                if !is_address {
                    self.on_path_probed(path, rtt);
                }
            }
            Event::Connected { early } => {
                debug!(?early, "session open");
                // A user that sees the open session may read its exporter secret at once.
                if let Some(connection) = self.endpoint.connection(handle) {
                    channels.publish(connection);
                }
                channels.set_state(LinkState::Open);
                self.on_connected(handle);
            }
            Event::Datagrams => {
                if let Some(connection) = self.endpoint.connection(handle) {
                    channels.receive_datagrams(connection);
                }
            }
            Event::Stalled => channels.set_state(LinkState::Stalled),
            Event::Resumed => channels.set_state(LinkState::Open),
            Event::Token(token) => channels.set_token(token),
            Event::Closed(reason) => {
                if let Some(connection) = self.endpoint.connection(handle) {
                    channels.publish(connection);
                }
                channels.close(&reason);
                self.channels.remove(&handle);
                debug!(%reason, "session ended");
            }
            Event::Stream(event) => {
                if let Some(connection) = self.endpoint.connection(handle) {
                    match event {
                        StreamEvent::Opened => channels.accept(now, connection),
                        StreamEvent::Readable(id) | StreamEvent::Cancelled(id, _) => {
                            channels.read(now, connection, id)
                        }
                        StreamEvent::Writable(id) => channels.write_waiting(now, connection, id),
                        StreamEvent::Finished(id) => channels.sent(id),
                        StreamEvent::Stopped(id, error) => channels.stopped(id, error),
                        StreamEvent::Available => channels.open_waiting(now, connection),
                    }
                }
            }
        }
    }

    /// Passes a session that a device opened to the gateway; the session is closed if the queue is full or
    /// nobody accepts sessions.
    fn accept_session(&mut self, handle: ConnectionHandle, device: PublicKey, profile: Option<LinkProfile>) {
        let session = self.add_connection(handle, LinkState::Open);
        let now = self.clock.now();
        if let (Some(channels), Some(connection)) =
            (self.channels.get_mut(&handle), self.endpoint.connection(handle))
        {
            channels.publish(connection);
            channels.accept(now, connection);
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
            debug!("the session is dropped: the gateway does not accept sessions");
        }
    }
}

//! Routing of received datagrams to handshakes and sessions (transport.md sections 2, 3).
use longhaul_types::Timestamp;

use super::{Endpoint, Role};
use crate::{
    path::Path,
    wire::{IndexLength, KeySpace, PacketKind, ShortHeader},
};

impl Endpoint {
    /// Processes a datagram, or a packet of a link, that arrived on the path `remote`. It affects only its own
    /// session, and only if it authenticates.
    pub fn handle_datagram(&mut self, now: Timestamp, remote: impl Into<Path>, datagram: &mut [u8]) {
        let remote = remote.into();
        self.counters.received += 1;
        if self.links.address(remote).is_none() {
            self.counters.unexpected += 1;
            return;
        }
        let gateway = matches!(self.role, Role::Gateway(_));
        match (PacketKind::classify(datagram), gateway) {
            (Some(PacketKind::Short), _) => self.handle_short(now, remote, datagram),
            (Some(PacketKind::Init), true) => self.handle_init(now, remote, datagram),
            (Some(PacketKind::Resp), false) => self.handle_resp(now, remote, datagram),
            (Some(PacketKind::Versions), false) => self.handle_versions(remote, datagram),
            (Some(PacketKind::Reset), false) => self.handle_reset(datagram),
            (
                Some(PacketKind::Init | PacketKind::Resp | PacketKind::Versions | PacketKind::Reset) | None,
                _,
            ) => {
                self.counters.malformed += 1;
            }
        }
    }

    pub(super) fn handle_short(&mut self, now: Timestamp, remote: Path, datagram: &mut [u8]) {
        let index_length = match self.role {
            Role::Agent(_) => IndexLength::Agent,
            Role::Gateway(_) => IndexLength::Gateway,
        };
        let Ok((header, header_len)) = ShortHeader::parse(datagram, index_length) else {
            self.counters.malformed += 1;
            return;
        };
        let handle = match &self.role {
            Role::Agent(agent) => agent.session_of(header),
            Role::Gateway(gateway) => gateway.session_of(header),
        };
        let Some((handle, session)) =
            handle.and_then(|handle| Some((handle, self.sessions.get_mut(&handle)?)))
        else {
            self.counters.unknown_session += 1;
            if header.keys == KeySpace::Full {
                self.answer_with_reset(now, remote, header.index);
            }
            return;
        };
        if !session.takes_short_packets() {
            if !session.keep_ahead(now, remote, datagram) {
                self.counters.unexpected += 1;
            }
            self.touch(handle);
            return;
        }
        session
            .connection
            .handle_short(now, remote, header, header_len, datagram);
        let used = session.connection.path();
        self.links.attach(used, handle);
        self.confirm(now, handle);
        self.renew_token(now, handle);
        self.touch(handle);
    }
}

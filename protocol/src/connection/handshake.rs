//! What the handshake gives a connection: keys, parameters and the path of the answer (transport.md section 3).
use std::time::Duration;

use longhaul_types::{LinkProfile, Timestamp};

use super::{
    Connection, EARLY_STREAM_WINDOW, EARLY_STREAMS, Keys, TransportConfig, Validation,
    held_packets::HeldPacketDetector, mtu::path_mtu, path::PeerPath,
};
use crate::{
    crypto::{EarlyKey, KeyPhases, PacketKey, SessionKeys},
    path::Path,
    streams::Role,
    wire::{EarlyOutcome, Parameters, ReceiverIndex},
};

impl Connection {
    /// Creates the agent's side before RESP. Without `early` the connection sends nothing until RESP.
    pub(crate) fn agent(
        config: &TransportConfig,
        early: Option<EarlyKey>,
        remote: Path,
        profile: Option<LinkProfile>,
        now: Timestamp,
    ) -> Self {
        let keys = Keys::Early {
            early,
            init_sent: false,
        };
        let mut connection = Self::new(
            Role::Agent,
            config,
            keys,
            remote,
            Validation::Validated,
            profile,
            now,
        );
        connection
            .streams
            .set_peer(EARLY_STREAM_WINDOW.bytes(), EARLY_STREAMS);
        connection.begin_probing();
        connection
    }

    /// Creates the gateway's side of an accepted session; `early` is present if early data was accepted.
    pub(crate) fn gateway(
        config: &TransportConfig,
        keys: SessionKeys,
        early: Option<PacketKey>,
        agent_index: u8,
        parameters: Parameters,
        remote: Path,
        validation: Validation,
        now: Timestamp,
    ) -> Self {
        let outcome = if early.is_some() {
            EarlyOutcome::Accepted
        } else {
            EarlyOutcome::Rejected
        };
        // The endpoint replaces this by a secret that the peer does not have (`set_challenge_secret`).
        let challenge_secret = blake3::derive_key("longhaul 1 path challenge", &*keys.exporter);
        let keys = Keys::Full {
            phases: KeyPhases::new(keys.gateway_to_agent, keys.agent_to_gateway, now),
            early: early.map(Box::new),
            peer: ReceiverIndex::Agent(agent_index),
            exporter: keys.exporter,
        };
        let profile = parameters.profile.filter(|p| p.rtt > Duration::ZERO);
        let mut connection = Self::new(Role::Gateway, config, keys, remote, validation, profile, now);
        connection.challenge_secret = challenge_secret;
        connection.apply_parameters(&parameters);
        connection.serve_probing(&parameters, outcome);
        // The INIT's frames are packet number 0, even if they are dropped.
        connection.replay.mark(0);
        connection.gaps.on_packet(now, 0);
        connection
    }

    /// Sets the secret from which the data of path challenges is derived.
    pub(crate) fn set_challenge_secret(&mut self, secret: [u8; 32]) {
        self.challenge_secret = secret;
    }

    pub(super) fn apply_parameters(&mut self, parameters: &Parameters) {
        self.streams
            .set_peer(parameters.stream_window.bytes(), parameters.max_streams);
        self.peer_takes_datagrams = parameters.datagrams && self.config.datagrams;
        let payload = parameters.max_udp_payload.min(self.config.max_udp_payload);
        self.mtu = path_mtu(payload.into(), self.path.remote);
    }

    /// Selects the path on which the gateway has answered the INIT (agent).
    pub(crate) fn choose_path(&mut self, now: Timestamp, remote: Path) {
        if remote == self.path.remote {
            return;
        }
        self.path = PeerPath::new(remote, Validation::Validated);
        self.mtu = path_mtu(self.mtu.limit(), remote);
        self.held_packets = HeldPacketDetector::default();
        self.blocked = false;
        // The packets after the INIT, which is number 0, were sent on the path that has not answered.
        if self.sent_packets.next_number() > 1 {
            let report = self.sent_packets.lose_all();
            self.apply_report(now, report);
        }
    }

    /// Installs the full keys after RESP (agent).
    pub(crate) fn handshake_done(
        &mut self,
        now: Timestamp,
        keys: SessionKeys,
        gateway_index: u32,
        parameters: Parameters,
        early: EarlyOutcome,
    ) {
        self.challenge_secret = blake3::derive_key("longhaul 1 path challenge", &*keys.exporter);
        self.keys = Keys::Full {
            phases: KeyPhases::new(keys.agent_to_gateway, keys.gateway_to_agent, now),
            early: None,
            peer: ReceiverIndex::Gateway(gateway_index),
            exporter: keys.exporter,
        };
        self.confirmed = true;
        // Also for the family of the address that has answered.
        self.apply_parameters(&parameters);
        if early == EarlyOutcome::Rejected {
            let report = self.sent_packets.lose_all();
            self.apply_report(now, report);
        }
        self.streams.release();
        self.on_authenticated(now);
        self.prober.on_progress(now);
        self.rearm();
    }

    pub(super) const fn can_send_early(&self) -> bool {
        matches!(
            self.keys,
            Keys::Early {
                early: Some(_),
                init_sent: true
            }
        )
    }

    /// Returns true if a packet under the full keys has arrived (agent: RESP).
    pub(crate) const fn is_confirmed(&self) -> bool {
        self.confirmed
    }
}

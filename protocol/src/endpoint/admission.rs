//! Processing of an INIT by the gateway, in the order of transport.md section 3.8.
use std::time::Duration;

use longhaul_types::{PublicKey, Timestamp, UnixTime};
use rand_core::Rng;

use super::{
    CloseReason, ConnectionHandle, DeviceStatus, Endpoint, Event, Role,
    resp_cache::InitHash,
    session::{Accepted, HALF_OPEN, Phase, Session},
};
use crate::{
    connection::{Connection, Validation},
    crypto::{EarlyKey, Responder, SessionKeys, noise::Opening, token::ValidToken},
    path::Path,
    wire::{
        Acceptance, EarlyOutcome, Init, InitPayload, Parameters, Refusal, Resp, RespPayload, VERSION,
        init::InitOutline, quic::free_index,
    },
};

/// Maximum number of half-open sessions of one device: enough for an agent that restarts twice during
/// handshakes. More come from replayed INITs.
const MAX_HALF_OPEN_PER_DEVICE: usize = 4;
/// Age at which a half-open session is dropped for a new one when the gateway is full.
const HALF_OPEN_GRACE: Duration = Duration::from_secs(10);

/// An INIT whose message 1 has authenticated.
struct Knock<'a> {
    now: Timestamp,
    remote: Path,
    datagram_len: usize,
    hash: InitHash,
    agent_index: u8,
    token: Option<ValidToken>,
    device: PublicKey,
    payload: InitPayload<'a>,
}

impl Endpoint {
    pub(super) fn handle_init(&mut self, now: Timestamp, remote: Path, datagram: &[u8]) {
        let unix = self.unix(now);
        // Rate limits apply to the address of a link's peer.
        let Some(address) = self.links.address(remote) else {
            return;
        };
        let Role::Gateway(gateway) = &mut self.role else {
            return;
        };
        let Ok(outline) = InitOutline::parse(datagram) else {
            self.counters.malformed += 1;
            return;
        };
        if !gateway.mac1.verify(outline.covered, &outline.mac1) {
            self.counters.bad_mac1 += 1;
            return;
        }
        if outline.version != VERSION {
            self.answer_with_versions(now, remote, outline.agent_index);
            return;
        }
        let Ok(init) = Init::parse(outline.covered) else {
            self.counters.malformed += 1;
            return;
        };
        let hash = *blake3::hash(datagram).as_bytes();
        if let Some(resp) = gateway.answered.get(&hash, now) {
            let resp = resp.to_vec();
            if gateway.per_address.take_address(address, now) {
                self.counters.repeated += 1;
                self.answer(remote, resp);
            } else {
                self.counters.rate_limited += 1;
            }
            return;
        }
        let token = init
            .token
            .and_then(|token| gateway.epoch.check(&token, unix).ok());
        if !gateway.allows(now, address, token.as_ref()) {
            self.counters.rate_limited += 1;
            return;
        }
        let seed = self.seed();
        let opening = Responder::read(&self.secret, seed, init.clear, init.noise);
        let Ok(Opening {
            responder,
            device,
            early,
            payload,
        }) = opening
        else {
            self.counters.bad_handshake += 1;
            return;
        };
        let Ok(payload) = InitPayload::decode(&payload) else {
            self.counters.malformed += 1;
            return;
        };
        let knock = Knock {
            now,
            remote,
            datagram_len: datagram.len(),
            hash,
            agent_index: init.agent_index,
            token,
            device,
            payload,
        };
        match self.admit(&knock) {
            Ok(()) => self.accept(&knock, responder, early),
            Err(refusal) => self.refuse(&knock, responder, refusal),
        }
    }

    /// Checks the admission of the device and drops half-open sessions to make space.
    fn admit(&mut self, knock: &Knock<'_>) -> Result<(), Refusal> {
        let Role::Gateway(gateway) = &self.role else {
            return Err(Refusal::UnknownDevice);
        };
        match gateway.devices.get(&knock.device) {
            None => return Err(Refusal::UnknownDevice),
            Some(DeviceStatus::Revoked) => return Err(Refusal::Revoked),
            Some(DeviceStatus::Expired) => return Err(Refusal::Expired),
            Some(DeviceStatus::Admitted) if gateway.is_draining => return Err(Refusal::Draining),
            Some(DeviceStatus::Admitted) => {}
        }
        let of_device = gateway.sessions_of.get(&knock.device).into_iter().flatten();
        // Ordered by stamp: replayed INITs replace each other, never the agent's newest session.
        let of_device = of_device.filter_map(|handle| self.half_open(*handle));
        let mut of_device: Vec<_> = of_device.map(|(_, stamp, handle)| (stamp, handle)).collect();
        of_device.sort_unstable();
        let surplus = (of_device.len() + 1).saturating_sub(MAX_HALF_OPEN_PER_DEVICE);
        let mut crowded: Vec<ConnectionHandle> = of_device
            .iter()
            .take(surplus)
            .map(|(_, handle)| *handle)
            .collect();
        let is_full = self.sessions.len() >= gateway.max_sessions;
        if crowded.is_empty() && is_full && !self.free_closed_session() {
            let half_open = self.sessions.keys().filter_map(|handle| self.half_open(*handle));
            let oldest = half_open.min();
            let grace = knock.now + HALF_OPEN.saturating_sub(HALF_OPEN_GRACE);
            let oldest = oldest.filter(|(until, ..)| *until <= grace);
            let (.., handle) = oldest.ok_or(Refusal::TooManySessions)?;
            crowded.push(handle);
        }
        for handle in crowded {
            self.counters.half_open_dropped += 1;
            self.drop_session(handle, Some(CloseReason::TimedOut));
        }
        Ok(())
    }

    /// The end of a session's half-open state, the stamp of its INIT, and its handle; `None` if it is not half open.
    fn half_open(&self, handle: ConnectionHandle) -> Option<(Timestamp, UnixTime, ConnectionHandle)> {
        let accepted = self.sessions.get(&handle)?.accepted()?;
        Some((accepted.half_open_until?, accepted.stamp, handle))
    }

    /// Frees the place of a session that its agent closed, which only keeps late packets from causing a RESET. So an
    /// agent that starts again at a full gateway gets the place of its earlier session.
    fn free_closed_session(&mut self) -> bool {
        // The events of a session outside of the queue have been taken.
        let is_closed = |session: &Session| !session.ready && session.connection.is_draining();
        let closed = self.sessions.iter().find(|(_, session)| is_closed(session));
        let Some(handle) = closed.map(|(handle, _)| *handle) else {
            return false;
        };
        self.drop_session(handle, None);
        true
    }

    fn accept(&mut self, knock: &Knock<'_>, responder: Responder, early: EarlyKey) {
        let (now, remote) = (knock.now, knock.remote);
        let fresh_index = self.rng.next_u32();
        let challenge_secret = *self.seed();
        let (rate_probing, datagrams) = (self.answers_probing(knock), self.answers_datagrams(knock));
        let Some(token) = self.mint_token(now, knock.device) else {
            return;
        };
        let Role::Gateway(gateway) = &mut self.role else {
            return;
        };
        let own_token = knock
            .token
            .filter(|token| gateway.epoch.is_for(token, &knock.device));
        let last = gateway.stamps.entry(knock.device).or_default();
        let newer = knock.payload.wall > *last;
        *last = knock.payload.wall.max(*last);
        let outcome = match own_token {
            Some(token) if newer && token.epoch == gateway.epoch.epoch => EarlyOutcome::Accepted,
            Some(_) | None => EarlyOutcome::Rejected,
        };
        if knock.token.is_some() && outcome == EarlyOutcome::Rejected {
            self.counters.early_rejected += 1;
        }
        let is_taken = |index| gateway.indices.contains_key(&index);
        let Some(gateway_index) = free_index(fresh_index, is_taken) else {
            return;
        };
        let acceptance = Acceptance {
            early: outcome,
            gateway_index,
            reset_tag: gateway.reset.tag(gateway_index),
            token,
            parameters: Parameters {
                profile: None,
                rate_probing,
                datagrams,
                ..self.transport.parameters()
            },
        };
        let (resp, keys) = finish(
            responder,
            knock.agent_index,
            &RespPayload::Accepted(acceptance),
            0,
        );
        gateway.answered.insert(knock.hash, resp.clone(), now);
        let early = Some(early).filter(|_| outcome == EarlyOutcome::Accepted);
        let early_index = early.as_ref().map(|early| early.index);
        let validation = match (own_token, remote) {
            // The handshake of a link proves that its peer receives.
            (Some(_), _) | (None, Path::Link(_)) => Validation::Validated,
            // Bytes received and sent so far count for the limit of section 7.2.
            (None, Path::Udp(_)) => Validation::Unvalidated {
                received: knock.datagram_len as u64,
                sent: resp.len() as u64,
            },
        };
        let mut connection = Connection::gateway(
            &self.transport,
            keys,
            early.map(|early| early.key),
            knock.agent_index,
            knock.payload.parameters,
            remote,
            validation,
            now,
        );
        connection.count_handshake_received(knock.datagram_len, 1);
        connection.set_challenge_secret(challenge_secret);
        if outcome == EarlyOutcome::Accepted {
            connection.handle_init_frames(now, knock.payload.stamp, knock.payload.frames);
        }
        let accepted = Accepted {
            device: knock.device,
            stamp: knock.payload.wall,
            gateway_index,
            early_index,
            init_hash: knock.hash,
            token_at: now,
            resp: Some((remote, resp)),
            half_open_until: Some(now + HALF_OPEN),
        };
        let handle = self.insert(Session::new(connection, Phase::Gateway(Box::new(accepted))));
        self.links.attach(remote, handle);
        let Role::Gateway(gateway) = &mut self.role else {
            return;
        };
        gateway.indices.insert(gateway_index, handle);
        gateway
            .sessions_of
            .entry(knock.device)
            .or_default()
            .insert(handle);
        if let Some(index) = early_index {
            gateway.early_indices.insert(index, handle);
        }
        self.counters.accepted += 1;
        let event = Event::Accepted {
            device: knock.device,
            profile: knock.payload.parameters.profile,
        };
        self.events.push_back((handle, event));
    }

    /// Returns true if the RESP answers the agent's request to measure the link.
    const fn answers_probing(&self, knock: &Knock<'_>) -> bool {
        knock.payload.parameters.rate_probing && self.transport.parameters().rate_probing
    }

    /// Returns true if both sides receive DATAGRAM frames.
    const fn answers_datagrams(&self, knock: &Knock<'_>) -> bool {
        knock.payload.parameters.datagrams && self.transport.datagrams
    }

    fn refuse(&mut self, knock: &Knock<'_>, responder: Responder, refusal: Refusal) {
        // The length of an acceptance, in which the flags are one byte.
        let padding = usize::from(self.answers_probing(knock) || self.answers_datagrams(knock));
        let (resp, _) = finish(
            responder,
            knock.agent_index,
            &RespPayload::Refused(refusal),
            padding,
        );
        if let Role::Gateway(gateway) = &mut self.role {
            gateway.answered.insert(knock.hash, resp.clone(), knock.now);
            gateway.note_refusal(knock.device, refusal);
        }
        self.counters.refused += 1;
        self.answer(knock.remote, resp);
    }
}

/// Returns the RESP with this payload and `padding` zero bytes, and the session keys.
fn finish(
    responder: Responder,
    agent_index: u8,
    payload: &RespPayload,
    padding: usize,
) -> (Vec<u8>, SessionKeys) {
    let mut plain = Vec::new();
    payload.encode(&mut plain);
    plain.resize(plain.len() + padding, 0);
    let mut noise = Vec::new();
    let keys = responder.finish(&plain, &mut noise);
    #[expect(
        clippy::expect_used,
        reason = "the payload is far below the 64 KiB of a Noise message"
    )]
    let keys = keys.expect("the payload fits");
    let mut datagram = Vec::new();
    let resp = Resp {
        agent_index,
        noise: &noise,
    };
    resp.encode(&mut datagram);
    (datagram, keys)
}

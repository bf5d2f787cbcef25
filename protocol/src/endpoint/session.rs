//! One session of an endpoint: its connection and the state of its handshake.
use std::{net::SocketAddr, time::Duration};

use longhaul_types::{PublicKey, SecretKey, Timestamp, UnixTime};
use zeroize::Zeroizing;

use super::{Token, config::ConnectTo, early_packets::EarlyPackets, race::Race, resp_cache::InitHash};
use crate::{connection::Connection, crypto::Initiator, path::Path, wire::resp::RESET_TAG_LEN};

/// Time for which a gateway keeps a half-open session.
pub(super) const HALF_OPEN: Duration = Duration::from_secs(180);

pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) phase: Phase,
    /// Timer under which the endpoint has registered the session.
    pub(super) timer: Option<Timestamp>,
    /// True if the session is in the queue of scheduled sessions.
    pub(super) ready: bool,
}

pub(super) enum Phase {
    /// Agent: the user fills the streams.
    Created(Box<Created>),
    /// Agent: the INIT is sent and no RESP has arrived.
    Waiting(Box<Waiting>),
    /// Agent: open.
    Open { reset_tag: [u8; RESET_TAG_LEN] },
    /// Gateway: half open, or open.
    Gateway(Box<Accepted>),
}

pub(super) struct Created {
    pub(super) to: ConnectTo,
    pub(super) agent_index: u8,
    pub(super) seed: Zeroizing<[u8; 32]>,
    pub(super) started: bool,
    /// Further addresses of the gateway, and the time between their first INITs.
    pub(super) others: Vec<SocketAddr>,
    pub(super) delay: Duration,
    /// The INIT fits every link.
    pub(super) fits_links: bool,
}

pub(super) struct Waiting {
    pub(super) initiator: Initiator,
    pub(super) init: Vec<u8>,
    /// Destinations and times of the INIT.
    pub(super) race: Race,
    /// Short packets that arrived before the RESP.
    pub(super) ahead: EarlyPackets,
}

pub(super) struct Accepted {
    pub(super) device: PublicKey,
    pub(super) stamp: UnixTime,
    pub(super) gateway_index: u32,
    pub(super) early_index: Option<u32>,
    pub(super) init_hash: InitHash,
    /// Time at which the newest token was minted for the device.
    pub(super) token_at: Timestamp,
    /// RESP and its destination, until it is sent.
    pub(super) resp: Option<(Path, Vec<u8>)>,
    /// End of the half-open state; `None` once the session is confirmed.
    pub(super) half_open_until: Option<Timestamp>,
}

impl Session {
    pub(super) const fn new(connection: Connection, phase: Phase) -> Self {
        Self {
            connection,
            phase,
            timer: None,
            ready: false,
        }
    }

    /// Returns true if the connection may send.
    pub(super) const fn is_started(&self) -> bool {
        !matches!(self.phase, Phase::Created(_))
    }

    /// Returns true if the keys for the peer's packets are present.
    pub(super) const fn takes_short_packets(&self) -> bool {
        matches!(self.phase, Phase::Open { .. } | Phase::Gateway(_))
    }

    /// Buffers a packet whose keys are still missing; returns `false` if the session expects none or the
    /// buffer is full.
    pub(super) fn keep_ahead(&mut self, now: Timestamp, remote: Path, datagram: &[u8]) -> bool {
        let Phase::Waiting(waiting) = &mut self.phase else {
            return false;
        };
        if !waiting.race.includes(remote) || !waiting.ahead.keep(now, datagram) {
            return false;
        }
        if waiting.ahead.misses_resp() {
            waiting.race.hurry(now, remote);
        }
        true
    }

    /// Time of the next timer.
    pub(super) fn timeout(&self) -> Option<Timestamp> {
        let own = match &self.phase {
            Phase::Created(_) => return None,
            Phase::Waiting(waiting) => waiting.race.due(),
            Phase::Open { .. } => None,
            Phase::Gateway(accepted) => accepted.half_open_until,
        };
        own.into_iter().chain(self.connection.poll_timeout()).min()
    }

    /// Returns true if the session was half open for too long.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        match &self.phase {
            Phase::Gateway(accepted) => accepted.half_open_until.is_some_and(|until| until <= now),
            Phase::Created(_) | Phase::Waiting(_) | Phase::Open { .. } => false,
        }
    }

    /// Appends a RESP that has not been sent; returns the destination.
    pub(super) fn take_resp(&mut self, buf: &mut Vec<u8>) -> Option<Path> {
        let Phase::Gateway(accepted) = &mut self.phase else {
            return None;
        };
        let (remote, resp) = accepted.resp.take()?;
        buf.extend_from_slice(&resp);
        Some(remote)
    }

    /// Sets the time of the next repetition of the INIT; returns the destination.
    pub(super) fn init_sent(&mut self, now: Timestamp) -> Option<Path> {
        let Phase::Waiting(waiting) = &mut self.phase else {
            return None;
        };
        waiting.race.sent(now)
    }

    /// Sends the INIT also over `path`; returns false if the session does not wait for a RESP or has too many
    /// paths.
    pub(super) fn add_candidate(&mut self, now: Timestamp, path: Path) -> bool {
        match &mut self.phase {
            Phase::Waiting(waiting) => waiting.race.add(now, path),
            Phase::Created(_) | Phase::Open { .. } | Phase::Gateway(_) => false,
        }
    }

    /// Sends the INIT no longer over `path`.
    pub(super) fn remove_candidate(&mut self, path: Path) {
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.race.remove(path);
        }
    }

    /// Returns true if the session sends over `path`, or may do so after its handshake.
    pub(super) fn uses(&self, path: Path) -> bool {
        match &self.phase {
            Phase::Waiting(waiting) => waiting.race.has(path),
            Phase::Created(_) | Phase::Open { .. } | Phase::Gateway(_) => self.connection.path() == path,
        }
    }

    /// The gateway's data of the session; `None` at an agent.
    pub(super) const fn accepted(&self) -> Option<&Accepted> {
        match &self.phase {
            Phase::Gateway(accepted) => Some(accepted),
            Phase::Created(_) | Phase::Waiting(_) | Phase::Open { .. } => None,
        }
    }
}

impl Created {
    /// Early key, from a message 1 that is never sent: the key depends only on the seed and the static keys.
    pub(super) fn early_key(&self, secret: &SecretKey) -> Option<crate::crypto::EarlyKey> {
        let token: &Token = self.to.token.as_ref()?;
        let mut unsent = Vec::new();
        let start = Initiator::start(
            secret,
            &self.to.gateway,
            self.seed.clone(),
            token,
            &[],
            &mut unsent,
        );
        start.ok().map(|(_, early)| early)
    }
}

//! State of a gateway: devices, their stamps, the indices of their sessions.
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::Duration,
};

use longhaul_types::{PublicKey, Timestamp, UnixTime};
use rand_core::Rng;

use super::{
    CloseReason, ConnectionHandle, DeviceStatus, Endpoint, GatewayEndpointConfig, Role, Token,
    rate_limit::{KeyedTokenBuckets, TokenBucket, TokenRate},
    resp_cache::RespCache,
    session::{Phase, Session},
    stateless::StatelessLimits,
};
use crate::{
    connection::State,
    crypto::{
        EpochKeys, Mac1Key, ResetKey,
        token::{LIFETIME, ValidToken},
    },
    wire::{KeySpace, ReceiverIndex, Refusal, ShortHeader},
};

/// Rate of INITs without a valid token from one address.
const PER_ADDRESS: TokenRate = TokenRate::new(20, 5);
/// Rate of INITs without a valid token from all addresses.
const WITHOUT_TOKEN: TokenRate = TokenRate::new(500, 100);
/// Rate of INITs with one token: an agent sends one in 3 s, and a token observed on the path permits no more
/// work than no token.
const PER_TOKEN: TokenRate = TokenRate::new(20, 5);
/// Time between two tokens of one session.
const TOKEN_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Maximum number of refusals that wait to be reported; further ones are only counted. The owner takes them
/// after each batch of datagrams.
const MAX_REFUSALS: usize = 64;
/// Error code of CLOSE for a revoked device.
const ERROR_REVOKED: u64 = 4;
/// Error code of CLOSE for a session that a newer one of its device replaces.
const ERROR_REPLACED: u64 = 6;

pub(super) struct GatewayRole {
    pub(super) mac1: Mac1Key,
    pub(super) epoch: EpochKeys,
    pub(super) max_sessions: usize,
    /// True if no more sessions are opened.
    pub(super) is_draining: bool,
    pub(super) devices: BTreeMap<PublicKey, DeviceStatus>,
    /// Greatest stamp of each device that ever opened a session; bounded by the number of devices that were
    /// ever admitted.
    pub(super) stamps: BTreeMap<PublicKey, UnixTime>,
    pub(super) sessions_of: BTreeMap<PublicKey, BTreeSet<ConnectionHandle>>,
    pub(super) indices: BTreeMap<u32, ConnectionHandle>,
    pub(super) early_indices: BTreeMap<u32, ConnectionHandle>,
    pub(super) answered: RespCache,
    pub(super) per_address: KeyedTokenBuckets,
    pub(super) per_token: KeyedTokenBuckets,
    pub(super) without_token: TokenBucket,
    pub(super) stateless: StatelessLimits,
    pub(super) reset: ResetKey,
    /// Refused devices, for the operator.
    refusals: VecDeque<(PublicKey, Refusal)>,
}

impl GatewayRole {
    pub(super) fn new(config: &GatewayEndpointConfig, hash_key: [u8; 32]) -> Self {
        Self {
            mac1: Mac1Key::new(&config.secret.public()),
            epoch: config.epoch.clone(),
            max_sessions: config.max_sessions,
            is_draining: false,
            devices: BTreeMap::new(),
            stamps: BTreeMap::new(),
            sessions_of: BTreeMap::new(),
            indices: BTreeMap::new(),
            early_indices: BTreeMap::new(),
            answered: RespCache::default(),
            per_address: KeyedTokenBuckets::new(PER_ADDRESS, hash_key),
            per_token: KeyedTokenBuckets::new(PER_TOKEN, hash_key),
            without_token: TokenBucket::new(WITHOUT_TOKEN),
            stateless: StatelessLimits::new(hash_key),
            reset: config.reset_key.clone(),
            refusals: VecDeque::new(),
        }
    }

    pub(super) fn note_refusal(&mut self, device: PublicKey, refusal: Refusal) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push_back((device, refusal));
        }
    }

    pub(super) fn session_of(&self, header: ShortHeader) -> Option<ConnectionHandle> {
        match (header.index, header.keys) {
            (ReceiverIndex::Gateway(index), KeySpace::Full) => self.indices.get(&index).copied(),
            (ReceiverIndex::Gateway(index), KeySpace::Early) => self.early_indices.get(&index).copied(),
            (ReceiverIndex::Agent(_), _) => None,
        }
    }

    pub(super) fn forget(&mut self, handle: ConnectionHandle, session: &Session) {
        let Some(accepted) = session.accepted() else {
            return;
        };
        self.indices.remove(&accepted.gateway_index);
        self.forget_early(handle, accepted.early_index);
        // The RESP would lead an agent to a removed session.
        self.answered.remove(&accepted.init_hash);
        if let Some(handles) = self.sessions_of.get_mut(&accepted.device) {
            handles.remove(&handle);
            if handles.is_empty() {
                self.sessions_of.remove(&accepted.device);
            }
        }
    }

    fn forget_early(&mut self, handle: ConnectionHandle, index: Option<u32>) {
        if let Some(index) = index
            && self.early_indices.get(&index) == Some(&handle)
        {
            self.early_indices.remove(&index);
        }
    }

    /// Returns true if the rate limits permit the public-key operations for this INIT.
    pub(super) fn allows(&mut self, now: Timestamp, remote: SocketAddr, token: Option<&ValidToken>) -> bool {
        match token {
            Some(token) => self.per_token.take(&token.id, now),
            // The limit of the address first: an address that exceeds it must not use up the common limit.
            None => self.per_address.take_address(remote, now) && self.without_token.take(now),
        }
    }
}

impl Endpoint {
    /// Sets the devices that may open sessions (gateway), and closes the sessions of all others.
    pub fn set_devices(&mut self, now: Timestamp, devices: BTreeMap<PublicKey, DeviceStatus>) {
        let Role::Gateway(gateway) = &mut self.role else {
            return;
        };
        gateway.devices = devices;
        let admitted = |device: &PublicKey| gateway.devices.get(device) == Some(&DeviceStatus::Admitted);
        let of_others = gateway.sessions_of.iter().filter(|(device, _)| !admitted(device));
        let gone: Vec<ConnectionHandle> = of_others.flat_map(|(_, handles)| handles).copied().collect();
        for handle in gone {
            if let Some(connection) = self.connection(handle) {
                connection.close(now, ERROR_REVOKED, "the device was revoked");
            }
        }
    }

    /// Returns the next device that was refused a session (gateway), and the reason. The device has proved that
    /// it has the key.
    pub fn poll_refusal(&mut self) -> Option<(PublicKey, Refusal)> {
        match &mut self.role {
            Role::Gateway(gateway) => gateway.refusals.pop_front(),
            Role::Agent(_) => None,
        }
    }

    /// Sets the limits of concurrent sessions, and of the streams that the peer of a session opened from now on
    /// may have open (gateway). Open sessions keep their limit of streams and stay open.
    pub fn set_limits(&mut self, max_sessions: usize, max_streams: u64) {
        if let Role::Gateway(gateway) = &mut self.role {
            gateway.max_sessions = max_sessions;
            self.transport.max_streams = max_streams;
        }
    }

    /// Refuses new sessions from now on, or admits them again (gateway). Open sessions stay open.
    pub fn set_draining(&mut self, is_draining: bool) {
        if let Role::Gateway(gateway) = &mut self.role {
            gateway.is_draining = is_draining;
        }
    }

    /// Creates a token for an invite of `device` (gateway); `None` at an agent.
    pub fn mint_token(&mut self, now: Timestamp, device: PublicKey) -> Option<Token> {
        let random = self.rng.next_u32().to_be_bytes();
        let expiry = self.unix(now) + LIFETIME;
        match &self.role {
            Role::Gateway(gateway) => Some(gateway.epoch.mint(&device, random, expiry)),
            Role::Agent(_) => None,
        }
    }

    /// Sends a new token once a day to a device whose packet has just arrived: a session may last longer than a
    /// token is valid.
    pub(super) fn renew_token(&mut self, now: Timestamp, handle: ConnectionHandle) {
        let Some(Session {
            phase: Phase::Gateway(accepted),
            connection,
            ..
        }) = self.sessions.get_mut(&handle).map(Box::as_mut)
        else {
            return;
        };
        if now.saturating_since(accepted.token_at) < TOKEN_INTERVAL || !connection.is_confirmed() {
            return;
        }
        accepted.token_at = now;
        let device = accepted.device;
        if let Some(token) = self.mint_token(now, device)
            && let Some(connection) = self.connection(handle)
        {
            connection.send_token(now, token);
        }
    }

    /// Handles the first packet under the full keys: the session is open, early data ends, and the device's
    /// older sessions end. An agent learns from CLOSE that another agent opened the newer session: an agent
    /// that opens another session closes its earlier one itself. If the packet is a CLOSE, the session ends and
    /// the others stay.
    pub(super) fn confirm(&mut self, now: Timestamp, handle: ConnectionHandle) {
        let (Some(session), Role::Gateway(gateway)) = (self.sessions.get_mut(&handle), &mut self.role) else {
            return;
        };
        if !session.connection.is_confirmed() {
            return;
        }
        let Phase::Gateway(accepted) = &mut session.phase else {
            return;
        };
        if accepted.half_open_until.take().is_none() {
            return;
        }
        gateway.forget_early(handle, accepted.early_index);
        // The agent closed the session instead of opening it: it only asked whether the gateway would.
        if session.connection.state() == State::Closed {
            return;
        }
        let (device, stamp) = (accepted.device, accepted.stamp);
        let of_device = gateway.sessions_of.get(&device).into_iter().flatten();
        let older = of_device.filter(|other| {
            let accepted = self.sessions.get(other).and_then(|session| session.accepted());
            **other != handle && accepted.is_some_and(|accepted| accepted.stamp <= stamp)
        });
        for older in older.copied().collect::<Vec<_>>() {
            let is_half_open = |session: &Session| {
                session
                    .accepted()
                    .is_some_and(|accepted| accepted.half_open_until.is_some())
            };
            match self.sessions.get_mut(&older) {
                Some(session) if !is_half_open(session) => {
                    session.connection.replace(now, ERROR_REPLACED);
                    self.touch(older);
                }
                Some(_) | None => self.drop_session(older, Some(CloseReason::Replaced)),
            }
        }
    }
}

//! State of a gateway: devices, their stamps, the indices of their sessions.
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use longhaul_types::{PublicKey, Timestamp, UnixTime};
use rand_core::Rng;

use super::{
    CloseReason, ConnectionHandle, DeviceStatus, Endpoint, GatewayEndpointConfig, Role, Token,
    rate_limit::{KeyedLimit, Limit, Rate},
    resp_cache::RespCache,
    session::{Phase, Session},
    stateless::StatelessLimits,
};
use crate::{
    crypto::{
        EpochKeys, Mac1Key, ResetKey,
        token::{LIFETIME, ValidToken},
    },
    wire::{KeySpace, ReceiverIndex, ShortHeader},
};

/// Rate of INITs without a valid token from one address.
const PER_ADDRESS: Rate = Rate::new(20, 5);
/// Rate of INITs without a valid token from all addresses.
const WITHOUT_TOKEN: Rate = Rate::new(500, 100);
/// Rate of INITs with one token: an agent sends one in 3 s, and a token observed on the path permits no more
/// work than no token.
const PER_TOKEN: Rate = Rate::new(20, 5);
/// Error code of CLOSE for a revoked device.
const ERROR_REVOKED: u64 = 4;

pub(super) struct GatewayRole {
    pub(super) mac1: Mac1Key,
    pub(super) epoch: EpochKeys,
    pub(super) max_sessions: usize,
    pub(super) devices: BTreeMap<PublicKey, DeviceStatus>,
    /// Greatest stamp of each device that ever opened a session; bounded by the number of devices that were
    /// ever admitted.
    pub(super) stamps: BTreeMap<PublicKey, UnixTime>,
    pub(super) sessions_of: BTreeMap<PublicKey, BTreeSet<ConnectionHandle>>,
    pub(super) indices: BTreeMap<u32, ConnectionHandle>,
    pub(super) early_indices: BTreeMap<u32, ConnectionHandle>,
    pub(super) answered: RespCache,
    pub(super) per_address: KeyedLimit,
    pub(super) per_token: KeyedLimit,
    pub(super) without_token: Limit,
    pub(super) stateless: StatelessLimits,
    pub(super) reset: ResetKey,
}

impl GatewayRole {
    pub(super) fn new(config: &GatewayEndpointConfig, hash_key: [u8; 32]) -> Self {
        Self {
            mac1: Mac1Key::new(&config.secret.public()),
            epoch: config.epoch.clone(),
            max_sessions: config.max_sessions,
            devices: BTreeMap::new(),
            stamps: BTreeMap::new(),
            sessions_of: BTreeMap::new(),
            indices: BTreeMap::new(),
            early_indices: BTreeMap::new(),
            answered: RespCache::default(),
            per_address: KeyedLimit::new(PER_ADDRESS, hash_key),
            per_token: KeyedLimit::new(PER_TOKEN, hash_key),
            without_token: Limit::new(WITHOUT_TOKEN),
            stateless: StatelessLimits::new(hash_key),
            reset: config.reset_key.clone(),
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

    /// Creates a token for an invite of `device` (gateway); `None` at an agent.
    pub fn mint_token(&mut self, now: Timestamp, device: PublicKey) -> Option<Token> {
        let random = self.rng.next_u32().to_be_bytes();
        let expiry = self.unix(now) + LIFETIME;
        match &self.role {
            Role::Gateway(gateway) => Some(gateway.epoch.mint(&device, random, expiry)),
            Role::Agent(_) => None,
        }
    }

    /// Handles the first packet under the full keys: the session is open, early data ends, and the device's
    /// older sessions are dropped.
    pub(super) fn confirm(&mut self, handle: ConnectionHandle) {
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
        let (device, stamp) = (accepted.device, accepted.stamp);
        let of_device = gateway.sessions_of.get(&device).into_iter().flatten();
        let older = of_device.filter(|other| {
            let accepted = self.sessions.get(other).and_then(|session| session.accepted());
            **other != handle && accepted.is_some_and(|accepted| accepted.stamp <= stamp)
        });
        for older in older.copied().collect::<Vec<_>>() {
            self.drop_session(older, Some(CloseReason::Replaced));
        }
    }
}

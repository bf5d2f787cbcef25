//! The remembered networks, in memory and on disk.
use std::{sync::Arc, time::Duration};

use longhaul_driver::ConnectionStats;
use longhaul_types::LinkProfile;
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::{
    attachment::Attachment,
    file::MAX_NETWORKS_FILE,
    known::Networks,
    network_id::NetworkId,
    record::{Family, SessionRecord},
};
use crate::{state_dir::StateDir, wall_clock::now};

/// What is remembered about a network, for one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// Profile with which the session begins.
    pub(crate) profile: Option<LinkProfile>,
    /// Address family that answered last.
    pub(crate) family: Option<Family>,
    /// UDP port of the gateway that answered last.
    pub(crate) port: Option<u16>,
    /// UDP is expected to fail.
    pub(crate) is_udp_doubtful: bool,
    /// QUIC is expected to work where UDP does not.
    pub(crate) is_quic_expected: bool,
    /// Time for which UDP is avoided, because it carried less than another carrier.
    pub(crate) avoids_udp_for: Option<Duration>,
}

/// What was recorded for one session in one network.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recorded {
    /// The newest session of the record is this one.
    is_newest: bool,
    /// The rates were halved for this session.
    is_halved: bool,
}

/// The agent's memory of networks. Clones share it.
#[derive(Clone, Debug)]
pub struct NetworkMemory(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    state_dir: StateDir,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    networks: Networks,
    /// Secret of the installation, once it is needed.
    secret: Option<[u8; 32]>,
    /// Network whose record is not used before a session renews it, because a round-trip time contradicts it.
    doubted: Option<NetworkId>,
    /// The network of the session in use, if it is known.
    present: Option<Attachment>,
}

impl NetworkMemory {
    /// Reads the memory from the state directory. An unreadable file counts as empty.
    pub fn open(state_dir: StateDir) -> Self {
        let mut state = State {
            networks: read(&state_dir),
            secret: state_dir.network_secret(),
            ..State::default()
        };
        state.networks.expire(now());
        Self(Some(Arc::new(Inner {
            state_dir,
            state: Mutex::new(state),
        })))
    }

    /// A memory that keeps nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// True if networks are remembered.
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Notes the network of the session in use.
    pub(crate) fn enter(&self, network: Option<&Attachment>) {
        if let Some(inner) = &self.0 {
            inner.state.lock().present = network.cloned();
        }
    }

    /// Identity of the network of the session in use; `None` if it has none, or if nothing was ever recorded.
    pub(crate) fn present(&self) -> Option<NetworkId> {
        let state = self.0.as_ref()?.state.lock();
        Some(state.present.as_ref()?.id(&state.secret?))
    }

    /// Returns what is remembered about a network.
    pub(crate) fn recall(&self, network: &Attachment) -> Recalled {
        let Some(inner) = &self.0 else {
            return Recalled::default();
        };
        let now = now();
        let mut state = inner.state.lock();
        state.networks.expire(now);
        let Some(id) = state.secret.map(|secret| network.id(&secret)) else {
            return Recalled::default();
        };
        state
            .networks
            .0
            .get(&id)
            .map_or_else(Recalled::default, |record| Recalled {
                profile: record.profile(now).filter(|_| state.doubted != Some(id)),
                family: record.family,
                port: record.port,
                is_udp_doubtful: record.is_udp_doubtful(now),
                is_quic_expected: record.is_quic_expected(now),
                avoids_udp_for: record.avoids_udp_for(now),
            })
    }

    /// Records what a session in this network has found out so far; `recorded` is what earlier calls for the same
    /// session and network recorded, which the new record replaces. The caller must permit blocking operations.
    pub(crate) fn record(&self, network: &Attachment, recorded: &mut Recorded, stats: &ConnectionStats) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.state.lock();
        let Some(id) = inner.id(&mut state, network) else {
            return;
        };
        let record = state.networks.seen(id, now());
        record.family = stats.remote.as_ref().map(Family::of).or(record.family);
        record.port = stats.remote.map(|remote| remote.port()).or(record.port);
        if stats.link.started_too_fast && !std::mem::replace(&mut recorded.is_halved, true) {
            record.halve();
        }
        if let Some(session) = SessionRecord::of(stats) {
            if std::mem::replace(&mut recorded.is_newest, true) {
                record.sessions.pop_back();
            }
            record.push(session);
            if state.doubted == Some(id) {
                state.doubted = None;
            }
        }
        // Under the lock: a deletion must not be overtaken by older contents.
        if let Err(error) = inner.state_dir.keep_networks(&state.networks.encode()) {
            warn!("{error}");
        }
    }

    /// Records that UDP works in this network, or that a session uses TLS because UDP does not answer. The caller must
    /// permit blocking operations.
    pub(crate) fn record_udp(&self, network: &Attachment, works: bool) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.state.lock();
        let Some(id) = inner.id(&mut state, network) else {
            return;
        };
        let now = now();
        let has_failures = state
            .networks
            .0
            .get(&id)
            .is_some_and(|record| !record.udp_failures.is_empty());
        if works && !has_failures {
            return;
        }
        let record = state.networks.seen(id, now);
        if works {
            record.udp_failures.clear();
        } else {
            record.push_udp_failure(now.since_epoch().as_secs());
        }
        if let Err(error) = inner.state_dir.keep_networks(&state.networks.encode()) {
            warn!("{error}");
        }
    }

    /// Records that a session uses QUIC because UDP does not answer, or that it uses neither. The caller must permit
    /// blocking operations.
    pub(crate) fn record_quic(&self, network: &Attachment, works: bool) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.state.lock();
        let Some(id) = inner.id(&mut state, network) else {
            return;
        };
        let now = now();
        let known = state.networks.0.get(&id);
        if !works && known.is_none_or(|record| record.quic_worked.is_none()) {
            return;
        }
        state.networks.seen(id, now).quic_worked = works.then(|| now.since_epoch().as_secs());
        if let Err(error) = inner.state_dir.keep_networks(&state.networks.encode()) {
            warn!("{error}");
        }
    }

    /// Records that a session in this network left UDP because UDP carried less than another carrier. The caller must
    /// permit blocking operations.
    pub(crate) fn record_worse_udp(&self, network: &Attachment) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.state.lock();
        let Some(id) = inner.id(&mut state, network) else {
            return;
        };
        let now = now();
        state.networks.seen(id, now).udp_worse = Some(now.since_epoch().as_secs());
        if let Err(error) = inner.state_dir.keep_networks(&state.networks.encode()) {
            warn!("{error}");
        }
    }

    /// Compares a session's first round-trip time with the remembered one. If it is that of another link, the
    /// network's rates are forgotten for this session and until one has measured them again; returns false.
    pub(crate) fn confirms(&self, network: &Attachment, rtt: Duration) -> bool {
        let Some(inner) = &self.0 else { return true };
        let mut state = inner.state.lock();
        let Some(id) = state.secret.map(|secret| network.id(&secret)) else {
            return true;
        };
        let record = state.networks.0.get(&id);
        if record.is_none_or(|record| !record.is_contradicted_by(rtt)) {
            return true;
        }
        debug!(%id, ?rtt, "the round-trip time is not that of the remembered network");
        state.doubted = Some(id);
        false
    }

    /// Forgets all networks, on disk as well. The secret is replaced when it is needed again. The caller must permit
    /// blocking operations.
    pub fn forget(&self) {
        let Some(inner) = &self.0 else { return };
        let mut state = inner.state.lock();
        *state = State {
            present: state.present.take(),
            ..State::default()
        };
        if let Err(error) = inner.state_dir.remove_networks() {
            warn!("{error}");
        }
    }
}

impl Inner {
    /// Identity of a network; makes the secret if there is none. `None` if that is impossible: then networks cannot
    /// be remembered.
    fn id(&self, state: &mut State, network: &Attachment) -> Option<NetworkId> {
        if state.secret.is_none() {
            let mut secret = [0; 32];
            if let Err(error) = getrandom::fill(&mut secret) {
                warn!("networks are not remembered: the system provides no random numbers: {error}");
                return None;
            }
            if let Err(error) = self.state_dir.keep_network_secret(&secret) {
                warn!("networks are not remembered: {error}");
                return None;
            }
            // Records under another secret can no longer be found.
            state.networks = Networks::default();
            state.secret = Some(secret);
        }
        state.secret.map(|secret| network.id(&secret))
    }
}

fn read(state_dir: &StateDir) -> Networks {
    let text = match state_dir.networks(MAX_NETWORKS_FILE) {
        Ok(Some(text)) => text,
        Ok(None) => return Networks::default(),
        Err(error) => {
            warn!("nothing is remembered about networks: the file `networks` cannot be read: {error}");
            return Networks::default();
        }
    };
    Networks::decode(&text).unwrap_or_else(|error| {
        warn!("nothing is remembered about networks: the file `networks` is damaged: {error}");
        Networks::default()
    })
}

#[cfg(test)]
mod tests;

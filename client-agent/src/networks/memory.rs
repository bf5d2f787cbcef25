//! The remembered networks, in memory and on disk.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use longhaul_driver::ConnectionStats;
use longhaul_types::{LinkProfile, UnixTime};
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::{
    attachment::Attachment,
    file::MAX_NETWORKS_FILE,
    record::{Family, LIFETIME, NetworkId, NetworkRecord, SessionRecord},
};
use crate::state_dir::StateDir;

/// Maximum number of networks; the one that was seen the longest time ago makes space for a new one.
pub(super) const MAX_NETWORKS: usize = 64;

/// Records of networks by their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(BTreeMap<NetworkId, NetworkRecord>);

impl FromIterator<(NetworkId, NetworkRecord)> for Networks {
    fn from_iter<T: IntoIterator<Item = (NetworkId, NetworkRecord)>>(records: T) -> Self {
        let mut networks = Self(records.into_iter().collect());
        networks.shrink_to(MAX_NETWORKS);
        networks
    }
}

impl Networks {
    /// The networks, in the order of their identities.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&NetworkId, &NetworkRecord)> {
        self.0.iter()
    }

    /// Drops the networks that were not seen for a month.
    fn expire(&mut self, now: UnixTime) {
        let now = now.since_epoch().as_secs();
        self.0
            .retain(|_, record| now.saturating_sub(record.last_seen) < LIFETIME.as_secs());
    }

    fn shrink_to(&mut self, most: usize) {
        while self.0.len() > most {
            let oldest = self.0.iter().min_by_key(|(_, record)| record.last_seen);
            let Some(id) = oldest.map(|(id, _)| *id) else {
                return;
            };
            self.0.remove(&id);
        }
    }

    /// The record of a network that is seen now; a new one if it is not known.
    fn seen(&mut self, id: NetworkId, now: UnixTime) -> &mut NetworkRecord {
        let seen = now.since_epoch().as_secs();
        if !self.0.contains_key(&id) {
            self.shrink_to(MAX_NETWORKS - 1);
        }
        let record = self.0.entry(id).or_default();
        // The wall clock may have been set back.
        record.last_seen = record.last_seen.max(seen);
        record
    }
}

/// What is remembered about a network, for one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recalled {
    /// Profile with which the session begins.
    pub(crate) profile: Option<LinkProfile>,
    /// Address family that answered last.
    pub(crate) family: Option<Family>,
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
        *state = State::default();
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

fn now() -> UnixTime {
    UnixTime::new(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use longhaul_types::BitRate;

    use super::{super::attachment::InterfaceKind, *};

    fn memory() -> (tempfile::TempDir, StateDir, NetworkMemory) {
        let home = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(home.path().to_owned());
        let memory = NetworkMemory::open(state_dir.clone());
        (home, state_dir, memory)
    }

    fn network(number: u8) -> Attachment {
        Attachment::new(InterfaceKind::Wired, vec![2, 0, 0, 0, 0, number])
    }

    fn stats(kbps: u64) -> ConnectionStats {
        let mut stats = ConnectionStats {
            remote: Some("192.0.2.1:4433".parse().unwrap()),
            ..ConnectionStats::default()
        };
        stats.link.backlog = Duration::from_secs(1);
        stats.link.least_rtt = Some(Duration::from_millis(100));
        stats.link.incoming = Some((BitRate::kbps(kbps), BitRate::kbps(kbps)));
        stats
    }

    fn down(memory: &NetworkMemory, network: &Attachment) -> Option<u64> {
        Some(memory.recall(network).profile?.down.as_bps() / 1000)
    }

    #[test]
    fn networks_are_remembered_after_a_restart_until_they_are_forgotten() {
        let (home, state_dir, memory) = memory();
        let (here, there) = (network(1), network(2));
        assert_eq!(memory.recall(&here), Recalled::default());
        memory.record(&here, &mut Recorded::default(), &stats(8_000));
        assert_eq!((down(&memory, &here), down(&memory, &there)), (Some(6_000), None));

        let restarted = NetworkMemory::open(state_dir.clone());
        assert_eq!(down(&restarted, &here), Some(6_000));
        assert_eq!(restarted.recall(&here).family, Some(Family::V4));
        restarted.forget();
        assert_eq!(restarted.recall(&here), Recalled::default());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
        let restarted = NetworkMemory::open(state_dir);
        assert_eq!(restarted.recall(&here), Recalled::default());
    }

    #[test]
    fn udp_is_doubtful_after_two_failures_in_a_day_until_it_works() {
        let (home, state_dir, memory) = memory();
        let (here, there) = (network(1), network(2));
        memory.record_udp(&here, true);
        assert!(!home.path().join("networks").exists(), "nothing to remember");
        memory.record_udp(&here, false);
        assert!(!memory.recall(&here).is_udp_doubtful);
        memory.record_udp(&here, false);
        assert!(memory.recall(&here).is_udp_doubtful && !memory.recall(&there).is_udp_doubtful);
        let restarted = NetworkMemory::open(state_dir);
        assert!(restarted.recall(&here).is_udp_doubtful);
        restarted.record_udp(&here, true);
        assert!(!restarted.recall(&here).is_udp_doubtful);

        let mut record = NetworkRecord::default();
        let at = |hours: u64| UnixTime::new(Duration::from_secs(hours * 3600));
        for hours in [10, 30] {
            record.push_udp_failure(hours * 3600);
        }
        assert!(record.is_udp_doubtful(at(33)) && !record.is_udp_doubtful(at(34)));
    }

    #[test]
    fn quic_is_expected_after_it_worked_until_it_fails() {
        let (home, state_dir, memory) = memory();
        let (here, there) = (network(1), network(2));
        memory.record_quic(&here, false);
        assert!(!home.path().join("networks").exists(), "nothing to remember");
        memory.record_quic(&here, true);
        assert!(memory.recall(&here).is_quic_expected && !memory.recall(&there).is_quic_expected);
        let restarted = NetworkMemory::open(state_dir);
        assert!(restarted.recall(&here).is_quic_expected);
        restarted.record_quic(&here, false);
        assert!(!restarted.recall(&here).is_quic_expected);
    }

    #[test]
    fn udp_that_carried_less_is_avoided_for_a_day_in_its_network() {
        let (_home, state_dir, memory) = memory();
        let (here, there) = (network(1), network(2));
        assert_eq!(memory.recall(&here).avoids_udp_for, None);
        memory.record_worse_udp(&here);
        // A session that opens over UDP because TLS fails says nothing about what UDP carries.
        memory.record_udp(&here, true);
        let restarted = NetworkMemory::open(state_dir);
        let rest = restarted.recall(&here).avoids_udp_for.unwrap();
        assert!(rest > Duration::from_secs(23 * 3600) && rest <= Duration::from_secs(24 * 3600));
        assert_eq!(restarted.recall(&there).avoids_udp_for, None);

        let record = NetworkRecord {
            udp_worse: Some(1_000),
            ..NetworkRecord::default()
        };
        let at = |seconds| UnixTime::new(Duration::from_secs(seconds));
        assert_eq!(
            record.avoids_udp_for(at(1_000 + 86_399)),
            Some(Duration::from_secs(1))
        );
        assert_eq!(record.avoids_udp_for(at(1_000 + 86_400)), None);
        // The clock was set back.
        assert_eq!(record.avoids_udp_for(at(0)), Some(Duration::from_secs(86_400)));
    }

    #[test]
    fn one_session_counts_once_however_often_it_is_recorded() {
        let (_home, _, memory) = memory();
        let here = network(1);
        let mut recorded = Recorded::default();
        for kbps in [1_000, 2_000, 8_000] {
            memory.record(&here, &mut recorded, &stats(kbps));
        }
        assert_eq!(down(&memory, &here), Some(6_000), "one session at 8 Mbit/s");
        for _ in 0..2 {
            memory.record(&here, &mut Recorded::default(), &stats(8_000));
        }
        assert_eq!(down(&memory, &here), Some(8_000), "three sessions");
    }

    #[test]
    fn a_start_that_was_too_fast_halves_the_remembered_rates_once() {
        let (_home, _, memory) = memory();
        let here = network(1);
        memory.record(&here, &mut Recorded::default(), &stats(8_000));
        let mut recorded = Recorded::default();
        let mut too_fast = stats(4_000);
        too_fast.link.started_too_fast = true;
        memory.record(&here, &mut recorded, &too_fast);
        memory.record(&here, &mut recorded, &too_fast);
        assert_eq!(down(&memory, &here), Some(3_000), "three quarters of 4 Mbit/s");
    }

    #[test]
    fn a_contradicted_record_is_not_used_before_it_is_renewed() {
        let (_home, _, memory) = memory();
        let here = network(1);
        memory.record(&here, &mut Recorded::default(), &stats(8_000));
        assert!(memory.confirms(&here, Duration::from_millis(120)));
        assert!(!memory.confirms(&here, Duration::from_millis(1_200)));
        assert_eq!(down(&memory, &here), None);
        memory.record(&here, &mut Recorded::default(), &stats(8_000));
        assert_eq!(down(&memory, &here), Some(6_000));
    }

    #[test]
    fn an_unreadable_file_counts_as_empty() {
        let (home, state_dir, memory) = memory();
        memory.record(&network(1), &mut Recorded::default(), &stats(8_000));
        for damaged in [&b"\xff\xfe"[..], b"", b"longhaul networks 9\n", &[b'x'; 200_000]] {
            std::fs::write(home.path().join("networks"), damaged).unwrap();
            let memory = NetworkMemory::open(state_dir.clone());
            assert_eq!(memory.recall(&network(1)), Recalled::default());
        }
    }

    #[test]
    fn the_memory_is_bounded_in_number_and_time() {
        let at = |seconds| UnixTime::new(Duration::from_secs(seconds));
        let mut networks = Networks::default();
        for number in 0..100_u8 {
            networks.seen(NetworkId::new([number; 16]), at(u64::from(number)));
        }
        assert_eq!(networks.iter().len(), MAX_NETWORKS);
        let oldest = networks.iter().map(|(_, record)| record.last_seen).min();
        assert_eq!(oldest, Some(36));
        networks.expire(at(40 + LIFETIME.as_secs()));
        assert_eq!(networks.iter().len(), 100 - 41);
    }

    #[test]
    fn a_memory_that_is_off_writes_nothing() {
        let memory = NetworkMemory::off();
        memory.record(&network(1), &mut Recorded::default(), &stats(8_000));
        assert_eq!(memory.recall(&network(1)), Recalled::default());
        assert!(memory.confirms(&network(1), Duration::from_secs(9)));
        memory.forget();
        assert!(!memory.is_on());
    }
}

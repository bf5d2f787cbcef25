//! Detection of agents that share the key of one device.
//!
//! Agents have different cache states (docs/protocol/session.md section 7.2), which survive restarts. If a
//! session replaces one of the same device with another cache state, two agents use the device's key. Agents
//! without a cache cannot be told apart.
use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use longhaul_session::CacheStateId;
use longhaul_types::PublicKey;

/// Text for the user of an agent whose session replaced that of another agent.
pub const NOTICE: &str = "another agent had a session with this device's key, and this session has replaced it. A device \
                                 has one session at a time. Unless that was an earlier run of this agent that lost its cache, \
                                 the same invite is in use twice: ask the operator for an invite for each machine \
                                 (`longhaul-gateway invite`), and enrol one of the two with `longhaul enroll LINE`";

/// The newest agent of each device; bounded by the number of devices that were ever admitted.
#[derive(Debug, Default)]
pub struct SharedKeys(Mutex<Agents>);

#[derive(Debug, Default)]
struct Agents {
    next: u64,
    newest: BTreeMap<PublicKey, Newest>,
}

#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u64,
    /// `Hello.cache_state`; `None` without a cache.
    cache_state: Option<CacheStateId>,
}

/// Result of [`SharedKeys::introduce`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Number for [`SharedKeys::end`].
    pub number: u64,
    /// True if the session replaces that of another agent.
    pub is_shared: bool,
}

impl SharedKeys {
    /// Records the agent of a new session.
    pub fn introduce(&self, device: PublicKey, cache_state: Option<CacheStateId>) -> Introduction {
        let mut agents = self.lock();
        let number = agents.next;
        agents.next += 1;
        let newest = Newest { number, cache_state };
        let earlier = agents.newest.insert(device, newest);
        let is_other = |earlier: Newest| ![None, cache_state].contains(&earlier.cache_state);
        Introduction {
            number,
            is_shared: cache_state.is_some() && earlier.is_some_and(is_other),
        }
    }

    /// Records the end of a session that was not replaced: the next session of the device does not replace it.
    pub fn end(&self, device: &PublicKey, number: u64) {
        let mut agents = self.lock();
        if agents
            .newest
            .get(device)
            .is_some_and(|newest| newest.number == number)
        {
            agents.newest.remove(device);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Agents> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    #[test]
    fn only_sessions_of_another_cache_that_have_not_ended_count() {
        let [one, other] = [1, 2].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let keys = SharedKeys::default();
        let first = keys.introduce(one, CacheStateId::new(7));
        assert!(!first.is_shared);
        assert!(
            !keys.introduce(other, CacheStateId::new(8)).is_shared,
            "another device"
        );
        let again = keys.introduce(one, CacheStateId::new(7));
        assert!(!again.is_shared, "the same agent after a crash");
        let second = keys.introduce(one, CacheStateId::new(9));
        assert!(second.is_shared);
        keys.end(&one, first.number);
        assert!(
            keys.introduce(one, CacheStateId::new(7)).is_shared,
            "the end of an older session"
        );
        assert!(!keys.introduce(one, None).is_shared, "an agent without a cache");
        let last = keys.introduce(one, CacheStateId::new(9));
        assert!(!last.is_shared, "after an agent without a cache");
        keys.end(&one, last.number);
        assert!(
            !keys.introduce(one, CacheStateId::new(7)).is_shared,
            "after a proper end"
        );
    }
}

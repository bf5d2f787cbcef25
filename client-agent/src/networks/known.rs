//! The known networks: records by identity, bounded in number and time.
use std::collections::BTreeMap;

use longhaul_types::UnixTime;

use super::{
    network_id::NetworkId,
    record::{LIFETIME, NetworkRecord},
};

/// Maximum number of networks; the one that was seen the longest time ago makes space for a new one.
pub(super) const MAX_NETWORKS: usize = 64;

/// Records of networks by their identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub(super) BTreeMap<NetworkId, NetworkRecord>);

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
    pub(super) fn expire(&mut self, now: UnixTime) {
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
    pub(super) fn seen(&mut self, id: NetworkId, now: UnixTime) -> &mut NetworkRecord {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}

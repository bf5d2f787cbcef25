//! Quotas of devices: a rate, to which the sessions of a device are paced, and bytes in a month of the calendar (UTC).
//! Clients without an agent have the latter.
//!
//! The limits that an operator sets are in [`crate::quota_limits`]. `reached` says that a month's bytes are used up. The server compares
//! twice a second. `clients` counts and compares for clients without an agent.
mod clients;
pub mod reached;

use std::{collections::BTreeMap, sync::Arc};

use arc_swap::ArcSwap;
use longhaul_types::{DeviceId, PublicKey};
use parking_lot::Mutex;

use self::{clients::ListedClient, reached::QuotaState};
use crate::{
    admission::devices::Devices,
    quota_limits::{DeviceQuota, QuotaDefaults},
};

/// What the list of devices says of a device's quota.
#[derive(Clone, Debug)]
struct Listed {
    name: String,
    quota: DeviceQuota,
}

/// Quotas of all devices and named clients.
#[derive(Debug, Default)]
pub struct Quotas {
    listed: ArcSwap<BTreeMap<PublicKey, Listed>>,
    /// An entry exists while the device has a session.
    states: Mutex<BTreeMap<PublicKey, Arc<QuotaState>>>,
    /// The clients without an agent, by the owner of what belongs to them.
    clients: ArcSwap<BTreeMap<PublicKey, ListedClient>>,
}

impl Quotas {
    /// Takes the quotas of a new list of devices.
    pub fn set_devices(&self, devices: &Devices) {
        let admitted = devices.iter().filter(|device| device.revoked.is_none());
        let listed = admitted.map(|device| {
            let listed = Listed {
                name: device.name.clone(),
                quota: device.quota,
            };
            (device.key, listed)
        });
        self.listed.store(Arc::new(listed.collect()));
    }

    /// The state of a device, for its session.
    pub fn state(&self, device: PublicKey) -> Arc<QuotaState> {
        let mut states = self.states.lock();
        states.retain(|known, state| *known == device || Arc::strong_count(state) > 1);
        Arc::clone(states.entry(device).or_default())
    }

    /// The name of a device, and the limits that apply to it.
    pub fn of(&self, device: &PublicKey, defaults: QuotaDefaults) -> (String, QuotaDefaults) {
        match self.listed.load().get(device) {
            Some(listed) => (listed.name.clone(), listed.quota.within(defaults)),
            None => (DeviceId::of(device).to_string(), defaults),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use longhaul_types::{BitRate, ByteCount, SecretKey};

    use super::{
        reached::{Holder, Reached},
        *,
    };
    use crate::quota_limits::Limit;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_bytes([seed; 32]).public()
    }

    #[test]
    fn a_listed_device_has_its_own_limits_and_others_have_the_defaults() {
        let mut devices = Devices::default();
        for (name, seed) in [("laptop", 1), ("old", 2)] {
            devices.add(name, key(seed), NOW).unwrap();
            devices
                .set_quota(name, |quota| quota.rate = Limit::Of(BitRate::kbps(500)))
                .unwrap();
        }
        devices.revoke("old", NOW).unwrap();
        let quotas = Quotas::default();
        quotas.set_devices(&devices);
        let defaults = QuotaDefaults {
            rate: Some(BitRate::kbps(2000)),
            month: Some(ByteCount::kb(5000)),
        };
        let own = QuotaDefaults {
            rate: Some(BitRate::kbps(500)),
            ..defaults
        };
        assert_eq!(quotas.of(&key(1), defaults), ("laptop".to_owned(), own));
        for unlisted in [key(2), key(3)] {
            let id = DeviceId::of(&unlisted).to_string();
            assert_eq!(quotas.of(&unlisted, defaults), (id, defaults));
        }
    }

    #[test]
    fn sessions_of_a_device_share_a_state_until_the_last_one_ends() {
        let quotas = Quotas::default();
        let first = quotas.state(key(1));
        first.set(Some(Reached::new(
            Holder::Device,
            "a".to_owned(),
            ByteCount::kb(1),
            NOW,
        )));
        let other = quotas.state(key(2));
        assert!(other.reached().is_none(), "another device's state");
        let second = quotas.state(key(1));
        assert!(Arc::ptr_eq(&first, &second));
        drop(first);
        drop(quotas.state(key(2)));
        assert!(quotas.state(key(1)).reached().is_some(), "a session is left");
        drop(second);
        assert!(
            quotas.state(key(1)).reached().is_some(),
            "the next session of the device"
        );
        drop(quotas.state(key(2)));
        assert!(
            quotas.state(key(1)).reached().is_none(),
            "a device without session is forgotten"
        );
    }
}

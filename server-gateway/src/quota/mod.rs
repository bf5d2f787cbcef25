//! Quotas of devices: a rate, to which the sessions of a device are paced, and bytes in a month of the calendar (UTC).
//! Clients without an agent have the latter.
//!
//! The limits that an operator sets are in [`crate::quota_limits`]. `reached` says that a month's bytes are used up. The server compares
//! twice a second. `clients` counts and compares for clients without an agent.
mod clients;
pub(crate) mod reached;

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
pub(crate) struct Quotas {
    listed: ArcSwap<BTreeMap<PublicKey, Listed>>,
    /// An entry exists while the device has a session.
    states: Mutex<BTreeMap<PublicKey, Arc<QuotaState>>>,
    /// The clients without an agent, by the owner of what belongs to them.
    clients: ArcSwap<BTreeMap<PublicKey, ListedClient>>,
}

impl Quotas {
    /// Takes the quotas of a new list of devices.
    pub(crate) fn set_devices(&self, devices: &Devices) {
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
    pub(crate) fn state(&self, device: PublicKey) -> Arc<QuotaState> {
        let mut states = self.states.lock();
        states.retain(|known, state| *known == device || Arc::strong_count(state) > 1);
        Arc::clone(states.entry(device).or_default())
    }

    /// The name of a device, and the limits that apply to it.
    pub(crate) fn of(&self, device: &PublicKey, defaults: QuotaDefaults) -> (String, QuotaDefaults) {
        match self.listed.load().get(device) {
            Some(listed) => (listed.name.clone(), listed.quota.within(defaults)),
            None => (DeviceId::of(device).to_string(), defaults),
        }
    }
}

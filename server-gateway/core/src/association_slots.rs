//! Number of the open associations of each device.
use std::{collections::BTreeMap, sync::Arc};

use longhaul_types::PublicKey;
use parking_lot::Mutex;

/// The associations of all devices.
#[derive(Clone, Debug, Default)]
pub struct AssociationSlots(Arc<Mutex<BTreeMap<PublicKey, usize>>>);

/// The slot of an association, until dropped.
#[derive(Debug)]
pub struct AssociationSlot {
    slots: AssociationSlots,
    device: PublicKey,
}

impl AssociationSlots {
    /// Takes a slot; `None` if the device has reached its limit.
    pub fn take(&self, device: PublicKey, limit: usize) -> Option<AssociationSlot> {
        let mut open = self.0.lock();
        let count = open.entry(device).or_default();
        if *count >= limit {
            return None;
        }
        *count += 1;
        Some(AssociationSlot {
            slots: self.clone(),
            device,
        })
    }
}

impl Drop for AssociationSlot {
    fn drop(&mut self) {
        let mut open = self.slots.0.lock();
        if let Some(count) = open.get_mut(&self.device) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_limits_of_their_own() {
        let slots = AssociationSlots::default();
        let [one, other] = [1, 2].map(|tag| PublicKey::from_bytes([tag; 32]));
        let first = slots.take(one, 2).unwrap();
        let _second = slots.take(one, 2).unwrap();
        assert!(slots.take(one, 2).is_none());
        assert!(slots.take(other, 2).is_some());
        drop(first);
        assert!(slots.take(one, 2).is_some());
        assert_eq!(slots.0.lock().len(), 1, "only devices with associations are kept");
    }
}

//! The current coalesced fetches that other requests may join.
use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use longhaul_types::PublicKey;

use super::{
    coalesced_fetch::{CoalescedFetch, CoalescedReader},
    spool::SpoolBudget,
};

/// Coalesced fetches by the key of their requests, each with the device that started it.
type ByKey = BTreeMap<[u8; 32], (PublicKey, Arc<CoalescedFetch>)>;

/// Current coalesced fetches by request key. Their number is bounded by the number of fetches, which sessions
/// bound.
#[derive(Debug, Default)]
pub(super) struct CoalescedFetches {
    by_key: Mutex<ByKey>,
    budget: Arc<SpoolBudget>,
}

/// Result of joining a coalesced fetch.
pub(super) enum JoinResult {
    /// The coalesced fetch is new: the caller starts its task.
    First(CoalescedReader),
    /// The coalesced fetch was started by the same device.
    Coalesced(CoalescedReader),
    /// The coalesced fetch was started by another device, whose limits it may be waiting for.
    CoalescedWithOther(CoalescedReader),
}

impl CoalescedFetches {
    /// Creates a coalesced fetch that no other request can join.
    pub(super) fn start_alone(&self, device: PublicKey) -> CoalescedReader {
        self.make(device).1
    }

    /// Joins the coalesced fetch with this key, or creates one for a device.
    pub(super) fn join_or_start(&self, key: [u8; 32], device: PublicKey) -> JoinResult {
        let mut by_key = self.lock();
        if let Some((owner, coalesced)) = by_key.get(&key)
            && let Some(reader) = CoalescedFetch::join(coalesced)
        {
            return if *owner == device {
                JoinResult::Coalesced(reader)
            } else {
                JoinResult::CoalescedWithOther(reader)
            };
        }
        let (coalesced, reader) = self.make(device);
        // Replaces a coalesced fetch that can no longer be joined; it continues without a key.
        by_key.insert(key, (device, coalesced));
        JoinResult::First(reader)
    }

    /// Makes a coalesced fetch unavailable for joining.
    pub(super) fn remove(&self, key: &[u8; 32], coalesced: &Arc<CoalescedFetch>) {
        let mut by_key = self.lock();
        if by_key
            .get(key)
            .is_some_and(|(_, found)| Arc::ptr_eq(found, coalesced))
        {
            by_key.remove(key);
        }
    }

    fn make(&self, device: PublicKey) -> (Arc<CoalescedFetch>, CoalescedReader) {
        CoalescedFetch::new(device, Arc::clone(&self.budget))
    }

    fn lock(&self) -> MutexGuard<'_, ByKey> {
        self.by_key.lock()
    }
}

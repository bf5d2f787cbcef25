//! The current coalesced fetches that other requests may join.
use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use longhaul_types::PublicKey;

use super::{
    coalesced_fetch::{CoalescedFetch, CoalescedReader},
    spool::SpoolBudget,
    write_order::OrderNumber,
};

/// A coalesced fetch that requests may join.
#[derive(Debug)]
struct Joinable {
    /// The device that started it.
    device: PublicKey,
    begun: OrderNumber,
    coalesced: Arc<CoalescedFetch>,
}

/// Coalesced fetches by the key of their requests.
type ByKey = BTreeMap<[u8; 32], Joinable>;

/// The times of a request in the order of fetches and unsafe requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestOrder {
    /// The number of the fetch, if the request starts one.
    pub(super) fetch: OrderNumber,
    /// The requester's newest unsafe request to the site: fetches that began before it are not joined.
    pub(super) newest_unsafe: OrderNumber,
}

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
    pub(super) fn join_or_start(&self, key: [u8; 32], device: PublicKey, order: RequestOrder) -> JoinResult {
        let mut by_key = self.lock();
        if let Some(found) = by_key.get(&key)
            && found.begun > order.newest_unsafe
            && let Some(reader) = CoalescedFetch::join(&found.coalesced)
        {
            return if found.device == device {
                JoinResult::Coalesced(reader)
            } else {
                JoinResult::CoalescedWithOther(reader)
            };
        }
        let (coalesced, reader) = self.make(device);
        let joinable = Joinable {
            device,
            begun: order.fetch,
            coalesced,
        };
        // Replaces a coalesced fetch that this request cannot join; it continues without a key.
        by_key.insert(key, joinable);
        JoinResult::First(reader)
    }

    /// Makes a coalesced fetch unavailable for joining.
    pub(super) fn remove(&self, key: &[u8; 32], coalesced: &Arc<CoalescedFetch>) {
        let mut by_key = self.lock();
        if by_key
            .get(key)
            .is_some_and(|found| Arc::ptr_eq(&found.coalesced, coalesced))
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

#[cfg(test)]
mod tests {
    use longhaul_cache::Owner;
    use longhaul_types::ClientId;

    use super::*;
    use crate::write_order::Writes;

    const KEY: [u8; 32] = [9; 32];
    const URL: &str = "http://a.test/x";

    fn device(number: u8) -> PublicKey {
        PublicKey::from_bytes([number; 32])
    }

    /// A request of a device to [`URL`] with [`KEY`].
    fn request(fetches: &CoalescedFetches, writes: &Writes, number: u8) -> JoinResult {
        let owner = Owner::of_device(&device(number), ClientId::OWNER);
        let order = RequestOrder {
            newest_unsafe: writes.newest_unsafe(&owner, URL),
            fetch: writes.number_fetch(),
        };
        fetches.join_or_start(KEY, device(number), order)
    }

    #[test]
    fn a_request_knows_whether_it_joined_another_device() {
        let (fetches, writes) = (CoalescedFetches::default(), Writes::default());
        let JoinResult::First(first) = request(&fetches, &writes, 1) else {
            panic!("nothing to join");
        };
        assert!(matches!(request(&fetches, &writes, 1), JoinResult::Coalesced(_)));
        assert!(matches!(
            request(&fetches, &writes, 2),
            JoinResult::CoalescedWithOther(_)
        ));
        fetches.remove(&KEY, &first.coalesced);
        assert!(matches!(request(&fetches, &writes, 1), JoinResult::First(_)));
    }

    #[test]
    fn a_fetch_from_before_an_own_unsafe_request_is_not_joined() {
        let (fetches, writes) = (CoalescedFetches::default(), Writes::default());
        let JoinResult::First(old) = request(&fetches, &writes, 1) else {
            panic!("nothing to join");
        };
        writes.record_unsafe(&Owner::of_device(&device(2), ClientId::OWNER), URL);
        assert!(matches!(request(&fetches, &writes, 1), JoinResult::Coalesced(_)));
        let JoinResult::First(new) = request(&fetches, &writes, 2) else {
            panic!("joined a response that may lack what the device wrote");
        };
        let JoinResult::Coalesced(joined) = request(&fetches, &writes, 2) else {
            panic!("the new one can be joined");
        };
        assert!(Arc::ptr_eq(&joined.coalesced, &new.coalesced));
        // The end of the old one does not remove the new one.
        fetches.remove(&KEY, &old.coalesced);
        assert!(matches!(request(&fetches, &writes, 2), JoinResult::Coalesced(_)));
    }
}

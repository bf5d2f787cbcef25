//! The current flights that other requests may join.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use longhaul_types::PublicKey;

use super::{coalesced_fetch::CoalescedFetch, reader::FlightReader, spool::SpoolBudget};

/// CoalescedFetches by the key of their requests, each with the device that started it.
type ByKey = BTreeMap<[u8; 32], (PublicKey, Arc<CoalescedFetch>)>;

/// Current flights by request key. Their number is bounded by the number of fetches, which sessions bound.
#[derive(Debug, Default)]
pub(super) struct CoalescedFetches {
    flights: Mutex<ByKey>,
    budget: Arc<SpoolBudget>,
}

/// Result of joining a flight.
pub(super) enum JoinResult {
    /// The flight is new: the caller starts its task.
    First(FlightReader),
    /// The flight was started by the same device.
    Coalesced(FlightReader),
    /// The flight was started by another device, whose limits it may be waiting for.
    JoinedAnothers(FlightReader),
}

impl CoalescedFetches {
    /// Creates a flight that no other request can join.
    pub(super) fn alone(&self) -> FlightReader {
        self.make(None).1
    }

    /// Joins the flight with this key, or creates one for a device.
    pub(super) fn board(&self, key: [u8; 32], device: PublicKey) -> JoinResult {
        let mut flights = self.lock();
        if let Some((owner, flight)) = flights.get(&key)
            && let Some(reader) = CoalescedFetch::join(flight)
        {
            return if *owner == device {
                JoinResult::Coalesced(reader)
            } else {
                JoinResult::JoinedAnothers(reader)
            };
        }
        let (flight, reader) = self.make(Some(device));
        // Replaces a flight that can no longer be joined; it continues without a key.
        flights.insert(key, (device, flight));
        JoinResult::First(reader)
    }

    /// Makes a flight unavailable for joining.
    pub(super) fn remove(&self, key: &[u8; 32], flight: &Arc<CoalescedFetch>) {
        let mut flights = self.lock();
        if flights
            .get(key)
            .is_some_and(|(_, found)| Arc::ptr_eq(found, flight))
        {
            flights.remove(key);
        }
    }

    fn make(&self, device: Option<PublicKey>) -> (Arc<CoalescedFetch>, FlightReader) {
        CoalescedFetch::new(device, Arc::clone(&self.budget))
    }

    fn lock(&self) -> MutexGuard<'_, ByKey> {
        // No code can panic while the guarded data is inconsistent.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

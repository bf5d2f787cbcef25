//! The flights under way that others may join.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use longhaul_types::PublicKey;

use super::{flight::Flight, reader::FlightReader, spool::SpoolBudget};

/// Flights by what their requests have in common, each with the device that began it.
type ByKey = BTreeMap<[u8; 32], (PublicKey, Arc<Flight>)>;

/// Flights, and the devices that began them, by what their requests have in common. As many as there are fetches, which sessions bound.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: Mutex<ByKey>,
    budget: Arc<SpoolBudget>,
}

/// How one takes part in a flight.
pub(super) enum Boarding {
    /// It has just been made: its task is to be started.
    First(FlightReader),
    /// It is under way.
    Joined(FlightReader),
    /// It is under way for another device, whose limits it may be waiting for.
    JoinedAnothers(FlightReader),
}

impl Flights {
    /// A flight that nobody can join.
    pub(super) fn alone(&self) -> FlightReader {
        self.make(None).1
    }

    /// Joins the flight with this key, or makes one for a device.
    pub(super) fn board(&self, key: [u8; 32], device: PublicKey) -> Boarding {
        let mut flights = self.lock();
        if let Some((owner, flight)) = flights.get(&key)
            && let Some(reader) = Flight::join(flight)
        {
            return if *owner == device {
                Boarding::Joined(reader)
            } else {
                Boarding::JoinedAnothers(reader)
            };
        }
        let (flight, reader) = self.make(Some(device));
        // One that can be joined no longer goes on under nobody's key.
        flights.insert(key, (device, flight));
        Boarding::First(reader)
    }

    /// Ends the possibility to join a flight.
    pub(super) fn remove(&self, key: &[u8; 32], flight: &Arc<Flight>) {
        let mut flights = self.lock();
        if flights
            .get(key)
            .is_some_and(|(_, found)| Arc::ptr_eq(found, flight))
        {
            flights.remove(key);
        }
    }

    fn make(&self, device: Option<PublicKey>) -> (Arc<Flight>, FlightReader) {
        Flight::new(device, Arc::clone(&self.budget))
    }

    fn lock(&self) -> MutexGuard<'_, ByKey> {
        // What the lock guards is whole between any two statements.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

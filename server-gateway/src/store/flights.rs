//! The flights under way that others may join.
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{flight::Flight, reader::FlightReader, spool::SpoolBudget};

/// Flights by what their requests have in common. As many as there are fetches, which sessions bound.
#[derive(Debug, Default)]
pub(super) struct Flights {
    flights: Mutex<BTreeMap<[u8; 32], Arc<Flight>>>,
    budget: Arc<SpoolBudget>,
}

/// How one takes part in a flight.
pub(super) enum Boarding {
    /// It has just been made: its task is to be started.
    First(FlightReader),
    /// It is under way.
    Joined(FlightReader),
}

impl Flights {
    /// A flight that nobody can join.
    pub(super) fn alone(&self) -> FlightReader {
        self.make().1
    }

    /// Joins the flight with this key, or makes one.
    pub(super) fn board(&self, key: [u8; 32]) -> Boarding {
        let mut flights = self.lock();
        if let Some(reader) = flights.get(&key).and_then(Flight::join) {
            return Boarding::Joined(reader);
        }
        let (flight, reader) = self.make();
        // One that can be joined no longer goes on under nobody's key.
        flights.insert(key, flight);
        Boarding::First(reader)
    }

    /// Ends the possibility to join a flight.
    pub(super) fn remove(&self, key: &[u8; 32], flight: &Arc<Flight>) {
        let mut flights = self.lock();
        if flights.get(key).is_some_and(|found| Arc::ptr_eq(found, flight)) {
            flights.remove(key);
        }
    }

    fn make(&self) -> (Arc<Flight>, FlightReader) {
        Flight::new(Arc::clone(&self.budget))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Arc<Flight>>> {
        // What the lock guards is whole between any two statements.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

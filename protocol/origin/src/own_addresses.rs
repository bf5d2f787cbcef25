//! The guard with the addresses that this machine has now: they change while a program runs (DHCP, IPv6 privacy addresses,
//! tunnels).
use std::{collections::BTreeSet, fmt, net::IpAddr, sync::Arc, time::Duration};

use parking_lot::RwLock;
use tokio::{
    sync::Mutex,
    task::spawn_blocking,
    time::{Instant, timeout},
};

use crate::guard::Guard;

/// Age from which the addresses are read again before they are used. It bounds both the time for which a new address is
/// not known and the cost: one reading a second, whatever the number of connections.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Time for one reading; then the last known addresses are used.
const READ_TIME: Duration = Duration::from_secs(2);

type Read = dyn Fn() -> Option<Vec<IpAddr>> + Send + Sync;

/// Reads the addresses of this machine; it may block.
#[derive(Clone)]
pub struct AddressReader(Arc<Read>);

impl fmt::Debug for AddressReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressReader")
    }
}

impl AddressReader {
    /// Creates a reader from a function that returns all addresses, or `None` if they cannot be read now.
    pub fn new(read: impl Fn() -> Option<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }
}

/// A guard whose own addresses are renewed when it is used.
pub(crate) struct CurrentGuard {
    guard: RwLock<Arc<Guard>>,
    reader: Option<AddressReader>,
    /// Time of the last reading.
    last: Mutex<Instant>,
}

impl CurrentGuard {
    /// A guard with the addresses that were just read.
    pub(crate) fn new(guard: Guard, reader: Option<AddressReader>) -> Self {
        Self {
            guard: RwLock::new(Arc::new(guard)),
            reader,
            last: Mutex::new(Instant::now()),
        }
    }

    /// The guard with the addresses that are known.
    pub(crate) fn known(&self) -> Arc<Guard> {
        Arc::clone(&self.guard.read())
    }

    /// The guard with the addresses of this machine, which are read first if they are old.
    pub(crate) async fn current(&self) -> Arc<Guard> {
        let Some(AddressReader(read)) = &self.reader else {
            return self.known();
        };
        // While one task reads, the others wait for what it finds.
        let mut last = self.last.lock().await;
        if last.elapsed() >= MAX_AGE {
            let read = Arc::clone(read);
            let found = timeout(READ_TIME, spawn_blocking(move || read())).await;
            if let Ok(Ok(Some(addresses))) = found {
                self.renew(addresses);
            }
            *last = Instant::now();
        }
        drop(last);
        self.known()
    }

    fn renew(&self, addresses: Vec<IpAddr>) {
        let own: BTreeSet<IpAddr> = addresses
            .into_iter()
            .map(|address| address.to_canonical())
            .collect();
        let known = self.known();
        if !known.has_own(&own) {
            *self.guard.write() = Arc::new(known.with_own(own));
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_that_the_machine_got_later_is_refused() {
        let (old, new) = (IpAddr::from([8, 8, 8, 8]), IpAddr::from([9, 9, 9, 9]));
        let addresses = Arc::new(RwLock::new(Some(vec![old])));
        let readings = Arc::new(RwLock::new(0));
        let (read, counted) = (Arc::clone(&addresses), Arc::clone(&readings));
        let reader = AddressReader::new(move || {
            *counted.write() += 1;
            read.read().clone()
        });
        let guard = CurrentGuard::new(Guard::new([], [old]), Some(reader));
        let refused = async |address| guard.current().await.check(address).is_err();
        assert!(refused(old).await && !refused(new).await);
        assert_eq!(*readings.read(), 0, "they were just read");

        *addresses.write() = Some(vec![new]);
        advance(MAX_AGE).await;
        assert!(refused(new).await && !refused(old).await);
        for _ in 0..100 {
            assert!(refused(new).await);
        }
        assert_eq!(*readings.read(), 1);

        // What cannot be read does not permit anything.
        *addresses.write() = None;
        advance(MAX_AGE).await;
        assert!(refused(new).await);
        assert_eq!(*readings.read(), 2);
    }
}

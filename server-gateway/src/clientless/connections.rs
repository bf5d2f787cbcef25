//! Limits of the connections to the proxy.
use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;

/// Connections at the same time.
const MAX_CONNECTIONS: usize = 2048;
/// Connections of one address at the same time. Browsers open up to 32 through a proxy.
const MAX_OF_ADDRESS: usize = 256;

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct Connections(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_address: BTreeMap<IpAddr, usize>,
    in_all: usize,
}

/// The place of a connection among those of its address, until dropped.
pub(super) struct Place {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Connections {
    /// Counts a connection; `None` beyond the limits.
    pub(super) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let mut counts = self.0.lock();
        let of_address = counts.by_address.get(&address).copied().unwrap_or(0);
        if counts.in_all >= MAX_CONNECTIONS || of_address >= MAX_OF_ADDRESS {
            return None;
        }
        counts.in_all += 1;
        counts.by_address.insert(address, of_address + 1);
        Some(Place {
            connections: Arc::clone(self),
            address,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.connections.0.lock();
        counts.in_all -= 1;
        if let Some(count) = counts.by_address.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_use_up_all_connections() {
        let connections = Arc::new(Connections::default());
        let (one, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let mut open: Vec<Place> = (0..MAX_CONNECTIONS)
            .filter_map(|_| connections.enter(one))
            .collect();
        assert_eq!(open.len(), MAX_OF_ADDRESS);
        assert!(connections.enter(other).is_some());
        open.pop();
        assert!(connections.enter(one).is_some());
        open.clear();
        assert!(connections.0.lock().by_address.is_empty());
    }
}

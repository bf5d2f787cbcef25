//! Memory whose amount an origin or a page chooses, shared fairly by devices.
use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use longhaul_types::{ByteCount, PublicKey};

/// Memory of one kind, shared by all devices. A device may use at most as much as remains free, so that another device
/// always finds room. Clones share the memory.
#[derive(Clone, Debug)]
pub struct MemoryShares(Arc<Table>);

#[derive(Debug)]
struct Table {
    total: u64,
    /// Bytes in use; devices without any have no entry.
    used: Mutex<BTreeMap<PublicKey, u64>>,
}

/// A device's part of [`MemoryShares`].
#[derive(Clone, Debug)]
pub struct MemoryShare {
    shares: MemoryShares,
    device: PublicKey,
    most: u64,
}

/// Memory that is in use, given back on drop.
#[derive(Debug)]
pub struct MemoryReservation {
    share: MemoryShare,
    bytes: u64,
}

/// Bytes with their reservation.
struct Held {
    bytes: Vec<u8>,
    _reservation: MemoryReservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl MemoryShares {
    /// Creates shares of `total` bytes.
    #[must_use]
    pub fn new(total: ByteCount) -> Self {
        Self(Arc::new(Table {
            total: total.bytes(),
            used: Mutex::new(BTreeMap::new()),
        }))
    }

    /// Returns the part of a device.
    #[must_use]
    pub fn of(&self, device: PublicKey) -> MemoryShare {
        MemoryShare {
            shares: self.clone(),
            device,
            most: u64::MAX,
        }
    }

    /// Bytes in use by all devices.
    #[must_use]
    pub fn used(&self) -> ByteCount {
        ByteCount::new(self.0.used.lock().values().sum())
    }
}

impl MemoryShare {
    /// Bounds what the device may use, whatever is free.
    #[must_use]
    pub const fn at_most(mut self, most: ByteCount) -> Self {
        self.most = most.bytes();
        self
    }

    /// Reserves `bytes` bytes; `None` if they exceed what the device may use.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> Option<MemoryReservation> {
        let table = &self.shares.0;
        let mut used = table.used.lock();
        let taken: u64 = used.values().sum();
        let own = used.get(&self.device).copied().unwrap_or(0).saturating_add(bytes);
        let free = table.total.checked_sub(taken.saturating_add(bytes))?;
        if own > free.min(self.most) {
            return None;
        }
        used.insert(self.device, own);
        drop(used);
        Some(MemoryReservation {
            share: self.clone(),
            bytes,
        })
    }

    /// Returns true if the device uses more than half of what it may use.
    #[must_use]
    pub fn is_half_used(&self) -> bool {
        let table = &self.shares.0;
        let used = table.used.lock();
        let own = used.get(&self.device).copied().unwrap_or(0);
        let taken: u64 = used.values().sum();
        // The device may use half of what others leave.
        own > table.total.saturating_sub(taken).saturating_add(own) / 4
    }
}

impl MemoryReservation {
    /// Number of bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes to the reservation; false if they exceed what the device may use.
    #[must_use]
    pub fn grow(&mut self, bytes: u64) -> bool {
        let Some(mut more) = self.share.reserve(bytes) else {
            return false;
        };
        self.bytes += std::mem::take(&mut more.bytes);
        true
    }

    /// Returns bytes whose last copy gives the reservation back.
    #[must_use]
    pub fn hold(self, bytes: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held {
            bytes,
            _reservation: self,
        })
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        let mut used = self.share.shares.0.used.lock();
        if let Some(own) = used.get_mut(&self.share.device) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                used.remove(&self.share.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn device(byte: u8) -> PublicKey {
        PublicKey::from_bytes([byte; 32])
    }

    #[test]
    fn a_device_reserves_at_most_half_of_the_free_memory() {
        let shares = MemoryShares::new(ByteCount::mib(64));
        let [first, second, third] = [1, 2, 3].map(|byte| shares.of(device(byte)));
        let mut reservations: Vec<_> = (0..17).map_while(|_| first.reserve(MIB)).collect();
        assert!(first.is_half_used() && !second.is_half_used());
        reservations.extend((0..100).map_while(|_| first.reserve(MIB)));
        assert_eq!(reservations.len(), 32);
        reservations.extend((0..100).map_while(|_| second.reserve(MIB)));
        assert_eq!(reservations.len(), 48);
        assert!(third.reserve(MIB).is_some() && third.reserve(u64::MAX).is_none());
        assert_eq!(shares.used(), ByteCount::mib(48));
        drop(reservations);
        assert_eq!(shares.used(), ByteCount::new(0));
        assert!(shares.0.used.lock().is_empty());
    }

    #[test]
    fn a_reservation_grows_to_the_bound_of_its_device() {
        let shares = MemoryShares::new(ByteCount::new(100));
        let bounded = shares.of(device(1)).at_most(ByteCount::new(10));
        let mut reservation = bounded.reserve(6).unwrap();
        assert!(!reservation.grow(5) && reservation.grow(4));
        assert_eq!((reservation.bytes(), shares.used()), (10, ByteCount::new(10)));
        drop(reservation);
        assert_eq!(shares.used(), ByteCount::new(0));
    }

    #[test]
    fn memory_is_reserved_until_the_last_copy_is_dropped() {
        let shares = MemoryShares::new(ByteCount::mib(1));
        let bytes = shares.of(device(1)).reserve(3).unwrap().hold(b"abc".to_vec());
        let copy = bytes.clone();
        drop(bytes);
        assert_eq!(shares.used(), ByteCount::new(3));
        assert_eq!(copy, b"abc"[..]);
        drop(copy);
        assert_eq!(shares.used(), ByteCount::new(0));
    }
}

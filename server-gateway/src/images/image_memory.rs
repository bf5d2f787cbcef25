//! Memory of the images that are read completely for transcoding.
use std::{collections::BTreeMap, sync::Arc};

use parking_lot::{Mutex, MutexGuard};

use bytes::Bytes;
use longhaul_types::{ByteCount, PublicKey};

/// Total memory: four images of the maximum size, or those of several pages. Images that do not fit are sent
/// as they arrive.
const TOTAL: ByteCount = ByteCount::mib(64);

/// Memory in use by device. A device may use at most as much as remains free, so that another device always
/// finds room.
#[derive(Clone, Debug, Default)]
pub(super) struct ImageMemory(Arc<Mutex<BTreeMap<PublicKey, u64>>>);

/// Reservation of memory for one image, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    memory: ImageMemory,
    device: PublicKey,
    bytes: u64,
}

/// An image with its reservation.
struct Held {
    picture: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.picture
    }
}

impl ImageMemory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PublicKey, u64>> {
        self.0.lock()
    }

    /// Reserves `bytes` bytes for a device; `None` if they exceed its share.
    pub(super) fn reserve(&self, device: PublicKey, bytes: u64) -> Option<Reservation> {
        let mut devices = self.lock();
        let taken: u64 = devices.values().sum();
        let own = devices.get(&device).copied().unwrap_or(0).saturating_add(bytes);
        let free = TOTAL.bytes().checked_sub(taken.saturating_add(bytes))?;
        if own > free {
            return None;
        }
        devices.insert(device, own);
        drop(devices);
        Some(Reservation {
            memory: self.clone(),
            device,
            bytes,
        })
    }
}

impl Reservation {
    /// Returns the image as bytes whose last copy releases the reservation.
    pub(super) fn hold(self, picture: Vec<u8>) -> Bytes {
        Bytes::from_owner(Held {
            picture,
            _reservation: self,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut devices = self.memory.lock();
        if let Some(own) = devices.get_mut(&self.device) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                devices.remove(&self.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use longhaul_types::SecretKey;

    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_device_reserves_at_most_half_of_the_free_memory() {
        let [first, second, third] = [1, 2, 3].map(|byte| SecretKey::from_bytes([byte; 32]).public());
        let memory = ImageMemory::default();
        let mut reservations: Vec<_> = (0..100).map_while(|_| memory.reserve(first, MIB)).collect();
        assert_eq!(reservations.len(), 32);
        reservations.extend((0..100).map_while(|_| memory.reserve(second, MIB)));
        assert_eq!(reservations.len(), 48);
        assert!(memory.reserve(third, MIB).is_some());
        assert!(memory.reserve(third, u64::MAX).is_none());
        drop(reservations);
        assert!(memory.lock().is_empty());
    }

    #[test]
    fn memory_is_reserved_until_the_last_copy_is_dropped() {
        let device = SecretKey::from_bytes([1; 32]).public();
        let memory = ImageMemory::default();
        let picture = memory.reserve(device, 3).unwrap().hold(b"abc".to_vec());
        let copy = picture.clone();
        drop(picture);
        assert_eq!(memory.lock().get(&device), Some(&3));
        assert_eq!(copy, b"abc"[..]);
        drop(copy);
        assert!(memory.lock().is_empty());
    }
}

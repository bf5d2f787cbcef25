//! The queue of images. Pure: without clock and processes.
//!
//! Devices take turns. A device's small images may overtake its own large ones. Part of the memory and one
//! worker are never used by large images, so that one device's images, however many, delay another device's
//! small image at most for the duration of a small image.
use std::collections::{BTreeMap, VecDeque};

/// Share of the memory (1/4) that large images never use: two or more small images at the default size.
const SMALL_SHARE: u64 = 4;

/// Maximum number of waiting images of a device. Chromium requests at most 225 objects at a time through a
/// proxy.
pub(super) const MOST_WAITING: usize = 256;

/// Total resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Memory in bytes for all images that are transcoded at the same time.
    pub(super) memory: u64,
    /// Images of one device, and large images of all devices, that are transcoded at the same time. One more
    /// worker is reserved for other devices.
    pub(super) workers: usize,
}

/// Resources that an image needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// Memory in bytes.
    pub(super) memory: u64,
    /// True if the image takes so much that small ones must not wait for it.
    pub(super) is_large: bool,
}

/// An image that waits or is being transcoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket<K> {
    number: u64,
    device: K,
}

/// Reasons to reject an image at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    /// The image would never fit.
    #[error("the picture needs more memory than the limit of all pictures together")]
    TooLarge,
    /// The device has the maximum number of waiting images.
    #[error("too many pictures of the device already wait")]
    TooMany,
}

/// A device's waiting images, in the order of arrival.
#[derive(Debug, Default)]
struct Waiting {
    small: VecDeque<(u64, Demand)>,
    large: VecDeque<(u64, Demand)>,
}

/// Result of the check for free resources.
enum Room {
    Enough,
    /// The image waits for memory.
    NoMemory,
    /// The image waits until an image of its device, or a large image, ends.
    NoWorker,
}

/// Waiting and running images of devices `K`.
#[derive(Debug)]
pub(super) struct Queue<K> {
    capacity: Capacity,
    next: u64,
    waiting: BTreeMap<K, Waiting>,
    /// Devices with waiting images; the front has the next turn.
    turns: VecDeque<K>,
    working: BTreeMap<u64, (K, Demand)>,
}

impl Capacity {
    /// Memory that large images may use, in bytes.
    pub(super) const fn large_memory(&self) -> u64 {
        self.memory - self.memory / SMALL_SHARE
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.large.is_empty()
    }

    fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }

    fn lane(&mut self, is_large: bool) -> &mut VecDeque<(u64, Demand)> {
        if is_large {
            &mut self.large
        } else {
            &mut self.small
        }
    }

    /// The first small and the first large image, in the order of arrival.
    fn heads(&self) -> impl Iterator<Item = (u64, Demand)> + use<> {
        let mut heads = [self.small.front().copied(), self.large.front().copied()];
        heads.sort_by_key(|head| head.map_or(u64::MAX, |(number, _)| number));
        heads.into_iter().flatten()
    }
}

impl<K: Copy + Ord> Queue<K> {
    pub(super) fn new(capacity: Capacity) -> Self {
        let workers = capacity.workers.max(1);
        Self {
            capacity: Capacity { workers, ..capacity },
            next: 0,
            waiting: BTreeMap::new(),
            turns: VecDeque::new(),
            working: BTreeMap::new(),
        }
    }

    /// Number of waiting images.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.values().map(Waiting::len).sum()
    }

    /// Number of images that are being transcoded.
    pub(super) fn working(&self) -> usize {
        self.working.len()
    }

    /// Memory of the images that are being transcoded, in bytes.
    pub(super) fn memory(&self) -> u64 {
        self.taken(|_| true)
    }

    fn taken(&self, which: impl Fn(&Demand) -> bool) -> u64 {
        let demands = self.working.values().map(|(_, demand)| demand);
        demands
            .filter(|demand| which(demand))
            .map(|demand| demand.memory)
            .sum()
    }

    /// Returns true if the demand could ever be met.
    pub(super) fn can(&self, demand: Demand) -> bool {
        let most = if demand.is_large {
            self.capacity.large_memory()
        } else {
            self.capacity.memory
        };
        demand.memory <= most
    }

    /// Adds a waiting image.
    pub(super) fn push(&mut self, device: K, demand: Demand) -> Result<Ticket<K>, NoRoom> {
        if !self.can(demand) {
            return Err(NoRoom::TooLarge);
        }
        let waiting = self.waiting.entry(device).or_default();
        if waiting.len() >= MOST_WAITING {
            return Err(NoRoom::TooMany);
        }
        if waiting.is_empty() {
            self.turns.push_back(device);
        }
        let number = self.next;
        self.next += 1;
        waiting.lane(demand.is_large).push_back((number, demand));
        Ok(Ticket { number, device })
    }

    /// Removes an image if it still waits.
    pub(super) fn cancel(&mut self, ticket: Ticket<K>) {
        let Some(waiting) = self.waiting.get_mut(&ticket.device) else {
            return;
        };
        for is_large in [false, true] {
            waiting
                .lane(is_large)
                .retain(|(number, _)| *number != ticket.number);
        }
        if waiting.is_empty() {
            self.forget(ticket.device);
        }
    }

    fn forget(&mut self, device: K) {
        self.waiting.remove(&device);
        self.turns.retain(|other| *other != device);
    }

    /// Starts and returns the next image for which there are free resources.
    pub(super) fn next(&mut self) -> Option<Ticket<K>> {
        if self.working.len() > self.capacity.workers {
            return None;
        }
        let mut large_waits = false;
        let turns: Vec<K> = self.turns.iter().copied().collect();
        for device in turns {
            let heads = self.waiting.get(&device).map(Waiting::heads);
            for (number, demand) in heads.into_iter().flatten() {
                match self.room(device, demand, large_waits) {
                    Room::Enough => return Some(self.begin(device, number, demand)),
                    Room::NoMemory => large_waits |= demand.is_large,
                    Room::NoWorker => {}
                }
            }
        }
        None
    }

    fn begin(&mut self, device: K, number: u64, demand: Demand) -> Ticket<K> {
        self.working.insert(number, (device, demand));
        if let Some(waiting) = self.waiting.get_mut(&device) {
            waiting.lane(demand.is_large).pop_front();
            let is_empty = waiting.is_empty();
            self.turns.retain(|other| *other != device);
            if is_empty {
                self.waiting.remove(&device);
            } else {
                self.turns.push_back(device);
            }
        }
        Ticket { number, device }
    }

    /// Checks for free resources. While a large image with an earlier turn waits for memory, small images may
    /// only use the share of the memory that is reserved for them.
    fn room(&self, device: K, demand: Demand, large_waits: bool) -> Room {
        let Capacity { memory, workers } = self.capacity;
        let working = self.working.values();
        let of_device = working.clone().filter(|(other, _)| *other == device).count();
        let large = working.filter(|(_, demand)| demand.is_large).count();
        if of_device >= workers || (demand.is_large && large >= workers) {
            return Room::NoWorker;
        }
        let alike = demand.memory + self.taken(|other| other.is_large == demand.is_large);
        let fits = self.memory() + demand.memory <= memory
            && if demand.is_large {
                !large_waits && alike <= self.capacity.large_memory()
            } else {
                !large_waits || alike <= memory - self.capacity.large_memory()
            };
        if fits { Room::Enough } else { Room::NoMemory }
    }

    /// Releases the resources of an image.
    pub(super) fn end(&mut self, ticket: Ticket<K>) {
        self.working.remove(&ticket.number);
    }
}

#[cfg(test)]
mod tests;
